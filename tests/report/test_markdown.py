"""The comment: golden files, the first screen, the budget, and what hostile text cannot do."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser

import cmarkgfm
import msgspec
import pytest
from cmarkgfm.cmark import Options

from skillgate.core import Decision, Finding, GateReport, OnInconclusive, Policy, Report, Verdict
from skillgate.report import markdown
from skillgate.report.escape import clean
from skillgate.values import Location, Severity

BLOB = "https://github.example/acme/skills/blob/9c0d1e2f"
FULL = "https://github.example/acme/skills/actions/runs/1"
LINKS = markdown.Links(blob_url=BLOB, report_url=FULL)

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</details></td></table><h1>merged</h1>",
    "</code></summary><b>merge</b>",
    "<!-- skillgate:report:v1 id=default -->",
    "--> <i>out of the comment</i> <!--",
    "[click](https://evil.example)",
    "![x](https://evil.example/x.png)",
    "[![x](https://evil.example/x.png)](https://evil.example)",
    "[ref]: https://evil.example\n\n[ref]",
    "<https://evil.example>",
    "https://evil.example/a?b=c",
    "www.evil.example",
    "mail someone@evil.example now",
    "@octocat approve",
    "`@octocat` then @octocat and ``@octocat``",
    "fixes #1 and acme/skills#2 and GH-3 and 9c0d1e2f3a4b5c6d",
    "a | b | c\n|---|---|\n| d",
    "\n\n# A heading\n\n## Another\n",
    "text\n=====\n",
    "> quoted\n> [!WARNING]\n> alert",
    "- item\n- item\n1. one\n* star",
    "```\nfence\n```\n<b>after the fence</b>\n~~~~",
    "`one``two```three````<b>x</b>`",
    "`a``b`<b>x</b>`c",
    "**bold** _it_ ~~gone~~ \\*esc\\* &lt;b&gt; &#64;octocat",
    "$\\href{https://evil.example}{x}$ and $`x`$",
    "[^1] and :tada: and - [x] done",
    "\u202egnp.exe\u202c \u200bzero\u200d \u2066iso\u2069 \ufeff tag\U000e0041 \u115f\u3164",
    "\x1b[31mred\x1b[0m \x07bell \x00nul \x08back",
    "\ud800 lone surrogate",
    "A" * 5000,
]
_TRUSTED_KEYS = {"severity", "kind", "outcome", "metric", "decision", "fail_on", "on-inconclusive", "inject"}
_PLACES: dict[str, Callable[[str, str], str]] = {
    "before": lambda hostile, text: hostile + text,
    "after": lambda hostile, text: text + hostile,
    "instead": lambda hostile, text: hostile,
}


class Page(HTMLParser):
    """The tags, links, comments and words of rendered HTML."""

    def __init__(self, markdown_text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.comments: list[str] = []
        self.words = ""
        self._code_depth = 0
        shown = markdown_text.encode("utf-8").decode("utf-8")
        self.feed(cmarkgfm.github_flavored_markdown_to_html(shown, options=Options.CMARK_OPT_UNSAFE))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        self._code_depth += tag in ("code", "pre")

    def handle_endtag(self, tag: str) -> None:
        self._code_depth -= tag in ("code", "pre")

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_data(self, data: str) -> None:
        if not self._code_depth:
            self.words += data


def poison(report: GateReport, hostile: str, place: str) -> GateReport:
    """Put hostile text in every string that is not a word of our own."""
    put = _PLACES[place]

    def walk(value: object, key: str = "") -> object:
        if isinstance(value, dict):
            return {name: walk(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [walk(item, key) for item in value]
        is_foreign = isinstance(value, str) and value and key not in _TRUSTED_KEYS
        return put(hostile, value) if is_foreign else value

    return msgspec.convert(walk(json.loads(json.dumps(msgspec.to_builtins(report)))), GateReport)


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
            "### ⛔ block: From base to head the pass ratio changed by -22.5 points (95 % interval -29.4 to "
            "-15.6): worse, by more than run-to-run noise explains.",
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
        "**scripted, not a measurement** · The ga",
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


@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_stays_text(hostile: str, place: str, samples) -> None:
    benign = samples.several()
    plain = Page(markdown.render(benign, links=LINKS))
    text = markdown.render(poison(benign, hostile, place), links=LINKS)
    page = Page(text)
    assert page.comments == [" skillgate:report:v1 id=default "]
    assert page.attributes <= {"align", "href", "lang", "open"}
    assert all(link == FULL or link.startswith(f"{BLOB}/") for link in page.links)
    structure = set(plain.tags) - {"code"}
    assert set(page.tags) - {"code", "em"} <= structure  # an `em` says that rows were cut
    if place != "instead" and len(hostile) < 1000:  # else tasks fall together, or rows are cut
        assert {tag: page.tags[tag] for tag in structure} == {tag: plain.tags[tag] for tag in structure}
        assert len(page.links) == len(plain.links)
    assert not re.search(r"@|://|www\.|#\d|GH-\d|:tada:|\b9c0d1e2f3a4b5c6d\b|\$(?!\d)", page.words)
    assert not re.search(
        "[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\x00-\x09\x0b-\x1f\U000e0000-\U000e007f]", text
    )
    assert len(text) <= markdown.BUDGET


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
