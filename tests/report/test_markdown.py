"""The comment: golden files, the first screen, the budget. What hostile text cannot do is in test_hostile."""

from __future__ import annotations

import re

import msgspec
import pytest

from skillgate.core import Decision, Finding, GateReport, OnInconclusive, Policy, Report, Verdict
from skillgate.report import markdown
from skillgate.report.escape import clean
from skillgate.values import Location, Severity
from tests.report.hostile import Page, poison

BLOB = "https://github.example/acme/skills/blob/9c0d1e2f"
FULL = "https://github.example/acme/skills/actions/runs/1"
LINKS = markdown.Links(blob_url=BLOB, report_url=FULL)


def first_screen(text: str) -> str:
    """Return what comes before the first heading under the headline, or the first fold."""
    return re.split(r"\n#### |\n<details", text)[0]


def test_golden(sample_name: str, samples, golden) -> None:
    golden(f"{sample_name}.md", markdown.render(samples.ALL[sample_name](), links=LINKS))


def test_without_links_places_are_plain(samples) -> None:
    text = markdown.render(samples.block())
    assert "](" not in text
    assert "`skills/workflow-templates/SKILL.md:187:1`" in text


def test_marker_is_the_first_line_and_survives_any_id(samples) -> None:
    text = markdown.render(samples.merge(), comment_id="linux/py 3.11")
    assert text.split("\n")[0] == "<!-- skillgate:report:v1 id=linux/py 3.11 -->"
    assert markdown.marker("a --> <b>\n\ud800") == "<!-- skillgate:report:v1 id=a --%3E %3Cb%3E%0A%3F -->"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "block",
            "### ⛔ block: pass ratio 95.0 % → 72.5 %, -22.5 points (-29.4 to -15.6); cost x1.23 (x1.19 to "
            "x1.27)",
        ),
        ("nothing", "### ⚪ not-run: No skill changed between the two revisions."),
        (
            "dropped",
            "### 🟡 inconclusive: No planned pair of runs has a score in both arms: there is nothing to "
            "compare.",
        ),
    ],
)
def test_first_visible_line_is_verdict_and_why(name: str, expected: str, samples) -> None:
    assert markdown.render(samples.ALL[name]()).split("\n")[1] == expected


def first_paragraphs(report: GateReport) -> list[str]:
    return markdown.render(report).split("\n\n")[1:3]


def test_the_reason_and_the_next_step_follow_the_headline(samples) -> None:
    assert first_paragraphs(samples.block()) == [
        "From base to head the pass ratio changed by -22.5 points (95 % interval -29.4 to -15.6): worse, by "
        "more than run-to-run noise explains. The gate fails.",
        "**Next:** look at 6 tasks that pass less often, most of all `ci-workflows/reusable-test` (95.0 % → "
        "25.0 %), and at the findings (1 error, 1 warning, 1 note).",
    ]
    assert first_paragraphs(samples.hold())[1] == "**Next:** look at what it costs."
    assert "**Next:**" not in markdown.render(samples.merge())


def test_numbers_are_no_headline_where_they_did_not_decide(samples) -> None:
    """A change that helps and has an error is blocked for the error."""
    good = samples.merge().reports[0]
    reason = "1 finding blocks at fail-on `error`; worst: name-format at SKILL.md:2:7: the name is wrong"
    verdict = Verdict(decision=Decision.BLOCK, reasons=(reason, *good.verdict.reasons))
    report = samples.gate(msgspec.structs.replace(good, verdict=verdict, findings=samples.findings("s")))
    shown = markdown.render(report).split("\n")
    assert shown[1] == f"### ⛔ block: {reason.replace('SKILL.md:2:7:', '`SKILL.md:2:7:`')}"
    assert shown[3] == "The gate fails."
    assert shown[5] == "**Next:** look at the findings (1 error, 1 warning, 1 note)."


def test_a_remark_of_a_rule_is_made_once(samples) -> None:
    report = samples.block().reports[0]
    (first, *_) = report.findings
    again = msgspec.structs.replace(first, where=Location(path=first.where.path, line=200))
    shown = markdown.render(samples.gate(msgspec.structs.replace(report, findings=(first, again))))
    assert shown.count("`template-anchoring`:") == 2
    assert (shown.count(first.hint), shown.count("finding 3: such templates")) == (1, 1)


def test_arms_are_in_the_head_of_the_overview_where_all_are_the_same(samples) -> None:
    assert "| skill | verdict | pass ratio, `base` → `head` | cost | findings |" in markdown.render(
        samples.two_skills()
    )
    assert "| skill | verdict | pass ratio | cost | findings |" in markdown.render(samples.several())


def test_first_screen_has_arms_pass_ratio_and_cost(samples) -> None:
    screen = first_screen(markdown.render(samples.block()))
    assert [line for line in screen.split("\n") if line.startswith("|")] == [
        "|  | `base` | `head` | change | 95 % interval |",
        "|---|--:|--:|--:|--:|",
        "| pass ratio, this suite (judged) | 95.0 % | 72.5 % | **-22.5 points** | -29.4 to -15.6 |",
        "| pass ratio, tasks like these |  |  | **-22.5 points** | -50.0 to +5.0 |",
        "| cost per run | $0.0167 | $0.0206 | **x1.23** | x1.19 to x1.27 |",
    ]
    assert "Also `none` → `head`: pass ratio 75.0 % → 72.5 %, -2.5 points (-9.5 to +4.5)." in screen


def test_a_verdict_of_the_gate_alone_is_on_top(samples) -> None:
    """The gate may be worse than its only skill, for a reason of its own."""
    reason = "The budget ended before every skill was judged."
    verdict = Verdict(decision=Decision.INCONCLUSIVE, reasons=(reason, "And more."))
    text = markdown.render(msgspec.structs.replace(samples.merge(), verdict=verdict))
    assert text.split("\n")[1] == f"### 🟡 inconclusive: {reason}"
    assert "- And more." in text


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (OnInconclusive.PASS, "The gate passes (`on-inconclusive: pass`)."),
        (OnInconclusive.FAIL, "The gate fails (`on-inconclusive: fail`)."),
    ],
)
def test_inconclusive_says_what_it_does(rule: OnInconclusive, sentence: str, samples) -> None:
    report = msgspec.structs.replace(samples.inconclusive(), policy=Policy(on_inconclusive=rule))
    assert sentence in markdown.render(report)


def test_few_changed_tasks_are_said_instead_of_not_significant(samples) -> None:
    text = markdown.render(samples.inconclusive())
    assert (
        "- Exact sign-flip test: 1 of 4 tasks changed; below 6 it cannot reach .05 whatever the "
        "skill does (least possible p = 1), so it decides nothing here. SWE-Skills-Bench would call that "
        "ineffective." in text
    )
    assert "significant" not in text


def test_unscored_runs_are_grouped_by_reason(samples) -> None:
    lines = markdown.render(samples.hold()).split("\n")
    start = lines.index("#### What it costs")
    assert [*lines[start + 2 : start + 3], *lines[start + 4 : start + 7]] == [
        "- 64 scored runs of 68 planned, 8 of them reused from earlier gates (same task, agent, model and "
        "image). Spent \\$1.20 of the \\$5.00 cap, \\$0.50 held for calls of unknown cost.",
        "- 2 invalid runs (no score): the model API was overloaded (such as: HTTP 529 after 3 attempts)",
        "- 1 invalid run (no score): the sandbox did not start: no space left on device",
        "- 1 skipped run (no score): not started: the rest of the budget could not pay for it",
    ]


def test_scripted_label_is_at_every_number_block(samples) -> None:
    text = markdown.render(samples.scripted())
    label = "scripted, not a measurement"
    assert label in "\n".join(text.split("\n")[:4])
    titles = [line for line in text.split("\n") if line.startswith(("#### ", "`fixtures/"))]
    assert len(titles) == 3
    assert all(label in title for title in titles)
    assert label not in markdown.render(samples.merge())


def test_scripted_label_stays_with_its_skill_among_several(samples) -> None:
    parts = (samples.merge().reports[0], samples.scripted().reports[0])
    text = markdown.render(samples.gate(*parts, verdict=parts[0].verdict))
    labelled = [line for line in text.split("\n") if "scripted, not a measurement" in line]
    assert [line[:40] for line in labelled] == [
        "**scripted, not a measurement** · From n",
        "| `fixtures/skills/careful-files` | ✅ me",
        "<summary>✅ <code>fixtures/skills/careful",
        "`fixtures/skills/careful-files` is new (",
        "#### Tasks (scripted, not a measurement)",
        "#### What it costs (scripted, not a meas",
    ]


def test_the_worst_skill_comes_first_and_open(samples) -> None:
    text = markdown.render(samples.several())
    assert re.findall(r"<details.*>\n<summary>(.*?) <code>(.*?)</code>", text) == [
        ("⛔", "skills/workflow-templates"),
        ("🟡", "skills/prose-style"),
        ("⚪", "skills/old-templates"),
        ("✅", "skills/careful-ci"),
    ]
    assert text.count("<details open>") == 1
    assert text.index("<details open>") < text.index("<code>skills/workflow-templates</code>")


def test_line_links_are_encoded_and_plain(samples) -> None:
    where = Location(path="skills/a b (1)/é[x].md", line=7, column=3)
    finding = Finding(rule="r", severity=Severity.NOTE, scope="spec", message="m", where=where)
    report = msgspec.structs.replace(samples.not_run().reports[0], findings=(finding,))
    page = Page(markdown.render(samples.gate(report), links=LINKS))
    assert page.links == [f"{BLOB}/skills/a%20b%20%281%29/%C3%A9%5Bx%5D.md?plain=1#L7", FULL]


def test_long_strings_are_clipped(samples) -> None:
    text = markdown.render(poison(samples.block(), "A" * 5000, "before"))
    assert max(map(len, re.findall("A+…?", text))) <= 500


def many_findings(report: Report, number: int) -> Report:
    findings = tuple(
        Finding(
            rule="broken-reference",
            severity=list(Severity)[index % 3],
            scope="spec",
            message=f"number {index}: `references/{index}.md` does not exist",
            where=Location(path=f"{report.skill}/SKILL.md", line=index + 1),
        )
        for index in range(number)
    )
    return msgspec.structs.replace(report, findings=findings)


def test_over_the_budget_rows_are_cut_and_counted(samples) -> None:
    text = markdown.render(samples.gate(many_findings(samples.block().reports[0], 2000)), links=LINKS)
    assert len(text) <= markdown.BUDGET
    assert "#### Findings: 666 errors, 667 warnings, 667 notes" in text
    shown = text.count(" `broken-reference`: ")
    note = f"*{2000 - shown:,} rows cut to stay under GitHub's limit: see the [full report]({FULL}).*"
    assert note in text
    assert shown > 150
    assert "🟧" not in text  # the errors alone fill it
    assert "#### What it costs" in text


def test_over_the_budget_without_a_link(samples) -> None:
    text = markdown.render(samples.gate(many_findings(samples.block().reports[0], 2000)))
    assert "rows cut to stay under GitHub's limit: see report.json.*" in text


@pytest.mark.parametrize("skills", [20, 500])
def test_many_skills_fit_and_the_missing_are_counted(skills: int, samples) -> None:
    part = many_findings(samples.block().reports[0], 100)
    reports = [msgspec.structs.replace(part, skill=f"skills/number-{n:03}") for n in range(skills)]
    text = markdown.render(samples.gate(*reports), links=LINKS)
    assert len(text) <= markdown.BUDGET
    shown = text.count("<details")
    assert shown == text.count("</details>") >= 10
    missing = f"*{skills - shown} skills cut to stay under GitHub's limit"
    assert (missing in text) is (shown < skills)
    listed = text.count("\n| `skills/number-")
    assert (f"*{skills - listed} rows cut to stay" in text) is (listed < skills)
    assert listed >= 20
    assert Page(text).tags["details"] == shown


def test_everything_oversized_still_fits(samples) -> None:
    """Two hundred long reasons, task names and paths at once."""
    huge = poison(samples.block(), "@<|`" * 2000, "before")
    verdict = Verdict(decision=Decision.BLOCK, reasons=tuple(f"@ {n} " * 300 for n in range(200)))
    report = msgspec.structs.replace(many_findings(huge.reports[0], 500), verdict=verdict)
    text = markdown.render(msgspec.structs.replace(huge, reports=(report, report, report), verdict=verdict))
    assert len(text) <= markdown.BUDGET


def test_same_report_same_comment(samples) -> None:
    """An unchanged comment is not edited."""
    assert markdown.render(samples.several()) == markdown.render(samples.several())


def test_clean_is_what_reaches_the_reader() -> None:
    assert clean("a\u202eb\tc\n d\x1b[0m\u200b") == "ab c d[0m"
