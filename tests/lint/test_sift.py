"""What silences a finding: a comment with a reason, the configuration of its path, the baseline."""

from __future__ import annotations

import time

import msgspec
import pytest

from skillgate.config import LintConfig
from skillgate.document import decode
from skillgate.errors import ConfigError
from skillgate.lint.engine import check_skill
from skillgate.lint.rule import Rule, configure, load_rules
from skillgate.lint.sift import Baseline, Sifted, merged, read_baseline, sift, write_baseline
from skillgate.shipped import shipped
from skillgate.skill import Files, parse
from skillgate.values import Severity

HEAD = "---\nname: demo\ndescription: Turns notes into prose. Use for notes.\n---\n"
ON = ("frontmatter-invalid", "hardcoded-path", "name-matches-folder", "suppression", "token-weight")
RULES = [rule for rule in load_rules(shipped("rules")) if rule.id in ON]
GUARD = """\
id: guard
title: A security rule
severity: error
scope: security
check: pattern
with: {patterns: {guard: "EVIL[0-9]"}, where: all}
message: "{match}"
hint: Remove it.
why: It harms.
evidence: [{source: us, says: so}]
since: 0.2.0
examples: {bad: [x], good: [y]}
"""
RULES.append(decode(GUARD, Rule, "guard.yml"))
BAD = "Run `/Users/alice/x`.\n"
WHY = "<!-- skillgate: ignore hardcoded-path: the folder is the same everywhere -->"


def sifted(
    body: str,
    config: str = "{}",
    *,
    files: dict[str, str] | None = None,
    baseline: str | None = None,
    trusted: list[str] | None = None,
    path: str = "skills/demo",
) -> Sifted:
    text = body if body.startswith("---") else HEAD + body
    raw = {name: content.encode() for name, content in {**(files or {}), "SKILL.md": text}.items()}
    checked = check_skill(parse(Files.from_map(raw), path), RULES)
    known = Baseline() if baseline is None else read_baseline(baseline, "known.json")
    lint = decode(config, LintConfig, "skillgate.yml")
    return sift(checked.findings, checked.comments, RULES, lint, baseline=known, trusted=trusted)


def suppressed(text: str, **files: str) -> list[str]:
    """Return what is said of the comments, with all rules known."""
    rules = configure(load_rules(shipped("rules")), LintConfig())
    raw = {name.replace("_", "."): content.encode() for name, content in {"SKILL_md": text, **files}.items()}
    checked = check_skill(parse(Files.from_map(raw), "demo"), rules)
    found = sift(checked.findings, checked.comments, rules, LintConfig()).findings
    return [f"{f.where.line} {f.message} | {f.hint}" for f in found if f.rule == "suppression"]


def told(found: Sifted) -> list[str]:
    return [f"{f.where.line} {f.rule} {f.match}".strip() for f in found.findings]


def counted(found: Sifted) -> tuple[int, int, int]:
    return len(found.findings), len(found.ignored), found.baselined


# --- comments


@pytest.mark.parametrize(
    "body",
    [
        f"{WHY}\n{BAD}",
        f"{WHY}\n\n\n{BAD}",
        f"Run `/Users/alice/x`. {WHY}\n",
        f"Some prose\n{WHY}\nand more\n{BAD}",
        f"{WHY}\n```sh\n\ncd /Users/alice/x\n\n```\n",
        f"{WHY}\n\n~~~~sh\n~~~\n\ncd /Users/alice/x\n~~~~\n",
        f"{WHY}\n```sh\n```js\n\ncd /Users/alice/x\n```\n",
        f"{WHY}\n```sh\n\ncd /Users/alice/x",
        f"- item\n\n  {WHY}\n  {BAD}",
        "<!--skillgate:ignore hardcoded-path:x-->\n" + BAD,
        "<!-- skillgate: ignore token-weight, hardcoded-path, guard: x -->\nEVIL1 " + BAD,
        "<!-- skillgate: ignore guard hardcoded-path : x: y -->\nEVIL1 " + BAD,
        "<!-- skillgate: ignore guard: x --> <!-- skillgate: ignore hardcoded-path: y -->\nEVIL1 " + BAD,
        WHY.replace("path:", "path:\t") + "\n" + BAD,
        WHY.replace("the folder", "never do this elsewhere, the folder") + " " + BAD,
        WHY.replace("the folder", "/Users/alice") + " " + BAD,
    ],
)
def test_a_comment_with_a_reason_silences_its_line_or_what_follows(body: str) -> None:
    found = sifted(body)
    assert told(found) in ([], ["5 suppression token-weight"])
    assert "hardcoded-path" in {finding.rule for finding in found.ignored}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            f"<!-- skillgate: ignore hardcoded-path -->\n{BAD}",
            ["5 suppression hardcoded-path", "6 hardcoded-path"],
        ),
        (
            f"<!-- skillgate: ignore hardcoded-path: -->\n{BAD}",
            ["5 suppression hardcoded-path", "6 hardcoded-path"],
        ),
        (f"<!-- skillgate: ignore: a reason -->\n{BAD}", ["5 suppression", "6 hardcoded-path"]),
        (f"<!-- skillgate: ignored hardcoded-path: x -->\n{BAD}", ["6 hardcoded-path"]),
        (f"<!-- skillgate: ignore guard: x -->\n{BAD}", ["5 suppression guard", "6 hardcoded-path"]),
        (f"{WHY}\nNothing.\n\n{BAD}", ["5 suppression hardcoded-path", "8 hardcoded-path"]),
        (f"Nothing. {WHY}\n{BAD}", ["5 suppression hardcoded-path", "6 hardcoded-path"]),
        (f"{BAD}\n{WHY}\n", ["5 hardcoded-path", "7 suppression hardcoded-path"]),
        (f"{WHY}\n```sh\n```\n\n{BAD}", ["5 suppression hardcoded-path", "9 hardcoded-path"]),
        (f"# skillgate: ignore hardcoded-path: x\n{BAD}", ["6 hardcoded-path"]),
        (f"```html\n{WHY}\n```\n{BAD}", ["8 hardcoded-path"]),
        ("```sh\n# skillgate: ignore hardcoded-path: x\ncd /Users/alice/x\n```\n", ["7 hardcoded-path"]),
        (f"~~~\n```\n{WHY}\n~~~\n{BAD}", ["9 hardcoded-path"]),
        (f"    {WHY}\n\n{BAD}", ["7 hardcoded-path"]),
        ("<!-- skillgate: ignore frontmatter-missing: it is off -->\n", []),
        ("<!-- skillgate: ignore no-such-rule: x -->\n", []),
        (f"{WHY}\n", ["5 suppression hardcoded-path"]),
        (
            WHY.replace("path", "path token-weight guard"),
            ["5 suppression hardcoded-path, token-weight, guard"],
        ),
    ],
)
def test_a_comment_that_does_not_count_or_silences_nothing(body: str, expected: list[str]) -> None:
    assert [row.replace(" /Users/alice", "") for row in told(sifted(body))] == expected


NOTHING = "this comment silences nothing"
NAMES = "Correct the name (`skillgate rules` lists them), or remove the comment: it silences nothing for it."
HTML = "Write `<!-- skillgate: ignore rule-id: why it is fine here -->`."


@pytest.mark.parametrize(
    ("comment", "message", "hint"),
    [
        ("ignore hardcoded-paths: x", "no rule `hardcoded-paths`; did you mean `hardcoded-path`?", NAMES),
        ("ignore hardcoded-path, zzzz: x", "no rule `zzzz`", NAMES),
        ("ignore: x", f"{NOTHING}, as it names no rule", HTML),
        ("ignore", f"{NOTHING}, as it names no rule", HTML),
        ("ignore hardcoded-path", f"{NOTHING}, as it gives no reason", HTML),
        ("ignore hardcoded-paths:", f"{NOTHING}, as it gives no reason", HTML),
        ("ignore shouting: it is off", "", ""),
        ("ignore duplicate-name: others show it", "", ""),
    ],
)
def test_what_is_wrong_with_a_comment(comment: str, message: str, hint: str) -> None:
    said = suppressed(f"{HEAD}<!-- skillgate: {comment} -->\n{BAD}")
    assert said == ([f"5 {message} | {hint}"] if message else [])


def test_an_unused_comment_and_how_comments_are_written_elsewhere() -> None:
    unused = "Remove the comment, or move it to the line before the finding; in the frontmatter it is"
    assert suppressed(f"{HEAD}{WHY}\nText.\n") == [
        "5 this comment silences `hardcoded-path`, which finds nothing here"
        f" | {unused} `# skillgate: ignore ...`."
    ]
    assert suppressed(HEAD.replace("name:", "# skillgate: ignore name-format\nname:")) == [
        f"2 {NOTHING}, as it gives no reason | Write `# skillgate: ignore rule-id: why it is fine here`."
    ]
    quoted = '"Turns notes. <!-- skillgate: ignore vague-description: x -->"'
    assert suppressed(HEAD.replace("Turns notes into prose. Use for notes.", quoted)) == [
        "3 the frontmatter is YAML, where this is no comment; it silences nothing"
        " | Write `# skillgate: ignore rule-id: why it is fine here`."
    ]
    assert suppressed(f"{HEAD}Use `a.js`.\n", a_js="// skillgate: ignore\n") == [
        f"1 {NOTHING}, as it names no rule | Write `// skillgate: ignore rule-id: why it is fine here`."
    ]


def test_of_equal_findings_each_is_silenced_alone() -> None:
    bob = "See `/Users/bob/x`.\n\n"
    why = WHY.replace("alice", "bob")
    last = sifted(f"{bob}{bob}{why}\n{bob}")
    assert told(last) == ["5 hardcoded-path /Users/bob", "7 hardcoded-path /Users/bob"]
    assert [f.message[-17:] for f in merged(last.findings)] == [" (also on line 7)"]
    first = sifted(f"{why}\n{bob}{bob}{bob}")
    assert told(first) == ["8 hardcoded-path /Users/bob", "10 hardcoded-path /Users/bob"]
    known = write_baseline(sifted(bob).findings)
    assert told(sifted(bob * 3, baseline=known)) == [
        "7 hardcoded-path /Users/bob",
        "9 hardcoded-path /Users/bob",
    ]


def test_what_a_baseline_knows_and_is_gone_is_said() -> None:
    known = write_baseline(sifted(f"EVIL1\n\nEVIL1\n\n{BAD}").findings)
    found = sifted("EVIL1\n", baseline=known)
    assert (found.baselined, [(line.rule, line.count) for line in found.gone]) == (
        1,
        [("guard", 1), ("hardcoded-path", 1)],
    )


@pytest.mark.parametrize("filler", ["\n", "z\n"])
def test_a_comment_covers_a_block_of_bounded_length(filler: str) -> None:
    fences = "".join(f"<!-- skillgate: ignore guard: b -->\n{'~' * (203 - n)}\n" for n in range(200))
    started = time.perf_counter()
    sifted("x\n", files={"a.md": fences + filler * 90_000})
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    ("front", "expected"),
    [
        ("# skillgate: ignore name-matches-folder: it is called so\nname: wrong\nmodel: x\n", []),
        ("name: wrong\n\n# skillgate: ignore name-matches-folder: it is called so\n", []),
        ("name: wrong # skillgate: ignore name-matches-folder: it is called so\n", []),
        ("name: wrong # skillgate: ignore name-matches-folder\n", ["2 name-matches-folder", "2 suppression"]),
        (
            "model: x # skillgate: ignore name-matches-folder: x\nname: wrong\n",
            ["2 suppression", "3 name-matches-folder"],
        ),
        ("name: demo\n# skillgate: ignore name-matches-folder: x\n", ["3 suppression"]),
    ],
)
def test_a_comment_in_the_frontmatter_covers_all_of_it(front: str, expected: list[str]) -> None:
    rows = told(sifted(f"---\n{front}---\n\n# Body\n"))
    assert [" ".join(row.split()[:2]) for row in rows] == expected


def test_a_comment_in_the_frontmatter_covers_what_is_told_of_the_whole_body() -> None:
    front = HEAD.replace("name:", "# skillgate: ignore token-weight, hardcoded-path: it is a book\nname:")
    found = sifted(front + "\nword\n" * 600 + BAD)
    assert [finding.rule for finding in found.ignored] == ["token-weight"]
    assert [row.split()[1] for row in told(found)] == ["suppression", "hardcoded-path"]


def test_a_comment_in_another_file_stands_as_that_file_has_them() -> None:
    script = "import os\n\n# skillgate: ignore guard: a test\nEVIL1 = 1\nEVIL2 = 2\n\nEVIL3 = 3\n"
    found = sifted(
        "x\n", files={"scripts/x.py": script, "lib/x.js": "EVIL1 // skillgate: ignore guard: no\nEVIL2\n"}
    )
    assert told(found) == ["2 guard EVIL2", "7 guard EVIL3"]
    assert counted(found) == (2, 3, 0)
    headings = "# skillgate: ignore guard: a heading\nEVIL1\n\n<!-- skillgate: ignore guard: x -->\nEVIL2\n"
    found = sifted("x\n", files={"references/x.md": headings})
    assert told(found) == ["2 guard EVIL1"]
    found = sifted(WHY + "\n", files={"references/x.md": BAD, "x.py": 'x = "/Users/alice/x"\n'})
    assert [finding.rule for finding in found.findings if finding.where.path.endswith("SKILL.md")] == [
        "suppression"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "<!-- skillgate: ignore" + " " * 100_000 + "!",
        "<!-- skillgate: ignore x:" + " " * 100_000 + "!",
        "<!-- skillgate: ignore x: y " * 8_000,
        "#" * 200_000 + " skillgate: ignore",
        "<!-- skillgate: ignore a: b -->" * 6_000,
    ],
)
def test_hostile_comments_take_no_time(line: str) -> None:
    started = time.perf_counter()
    sifted(f"x\n{line}\ny")
    assert time.perf_counter() - started < 5


# --- the configuration of a path


def test_a_rule_is_off_or_of_another_severity_where_a_pattern_says_so() -> None:
    for pattern, expected in {
        "skills/**": ["note"],
        "skills/demo": ["note"],
        "skills/demo/SKILL.md": ["note"],
        "**": ["note"],
        "skills/other/**": ["warning"],
        "SKILL.md": ["warning"],
    }.items():
        found = sifted(BAD, f"paths: {{'{pattern}': {{hardcoded-path: note}}}}")
        assert [finding.severity.value for finding in found.findings] == expected, pattern
    assert counted(sifted(BAD, "paths: {'skills/**': {hardcoded-path: off}}")) == (0, 0, 0)


def test_the_last_pattern_that_matches_wins_and_others_rules_stay() -> None:
    both = "paths: {'skills/**': {hardcoded-path: off}, 'skills/demo/**': {hardcoded-path: error}}"
    (finding,) = sifted(BAD, both).findings
    assert finding.severity is Severity.ERROR
    config = "paths: {'skills/demo/**': {hardcoded-path: on}, '**': {hardcoded-path: off}}"
    assert told(sifted(f"EVIL1 {BAD}", config)) == ["5 guard EVIL1"]


def test_a_comment_about_a_rule_that_is_off_in_its_path_is_not_unused() -> None:
    config = "paths: {'skills/**': {hardcoded-path: off}}"
    assert told(sifted(f"{WHY}\n{BAD}", config)) == []
    assert told(sifted(f"{WHY}\n", "paths: {'skills/**': {suppression: off}}")) == []


# --- the baseline


def test_what_is_written_down_is_known_wherever_its_line_moves() -> None:
    known = write_baseline(sifted(f"EVIL1\n{BAD}").findings)
    assert counted(sifted(f"EVIL1\n{BAD}", baseline=known)) == (0, 0, 2)
    moved = sifted(f"One.\n\n{BAD}\nMore.\n\nEVIL1 EVIL2\n", baseline=known)
    assert (told(moved), moved.baselined) == (["11 guard EVIL2"], 2)


def test_a_known_finding_hides_no_second_equal_one() -> None:
    body = "EVIL1\n"
    known = write_baseline(sifted(body, files={"a.py": "EVIL1"}).findings)
    found = check_twice(body, known)
    assert (told(found), found.baselined) == (["6 guard EVIL1"], 1)
    twice = write_baseline(check_twice(body, None).findings)
    assert '"count":2' in twice
    assert counted(check_twice(body, twice)) == (0, 0, 2)


def check_twice(body: str, known: str | None, trusted_times: int | None = None) -> Sifted:
    """Sift the findings of a skill as if each stood in the next line too."""
    checked = check_skill(parse(Files.from_map({"SKILL.md": (HEAD + body).encode()}), "skills/demo"), RULES)
    replace = msgspec.structs.replace
    again = [replace(f, where=replace(f.where, line=f.where.line + 1)) for f in checked.findings]
    baseline = read_baseline(known, "known.json") if known else Baseline()
    prints = [f.fingerprint for f in checked.findings]
    trusted = None if trusted_times is None else prints * trusted_times
    both = (*checked.findings, *again)
    return sift(both, checked.comments, RULES, LintConfig(), baseline=baseline, trusted=trusted)


def test_a_file_that_moved_and_another_rule_are_shown_again() -> None:
    known = write_baseline(sifted(BAD).findings)
    assert told(sifted(BAD, baseline=known, path="skills/moved/demo")) == ["5 hardcoded-path /Users/alice"]
    assert counted(sifted(f"EVIL1 {BAD}", baseline=known)) == (1, 0, 1)


def test_a_baseline_has_a_line_for_each_finding_and_does_not_depend_on_order() -> None:
    findings = sifted(f"EVIL2 EVIL1 {BAD}").findings
    text = write_baseline(findings)
    assert text == write_baseline(reversed(findings))
    assert [line.split('"')[3] for line in text.splitlines() if "rule" in line] == [
        "guard",
        "guard",
        "hardcoded-path",
    ]
    assert read_baseline(write_baseline(()), "x") == Baseline()
    assert len(read_baseline(text, "x").findings) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema": 1,\n"findings": [', "known.json:2: "),
        ('{"findings": [\n{"rule": "x"}]}', "known.json:2: `findings[0]`: "),
        ('{"findings": [],\n"more": 1}', "known.json:2: unknown key `more`"),
        ("[]", "known.json:1: expected `object`, got `array`"),
    ],
)
def test_a_damaged_baseline_is_named_by_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_baseline(text, "known.json")
    assert caught.value.message.startswith(message)


def test_a_large_baseline_is_read_at_once() -> None:
    line = '{"rule":"guard","path":"skills/demo/SKILL.md","fingerprint":"%032x","count":1}'
    text = f'{{"schema": 1, "findings": [{",".join(line % number for number in range(20_000))}]}}'
    started = time.perf_counter()
    assert len(read_baseline(text, "known.json").findings) == 20_000
    assert time.perf_counter() - started < 2


# --- what a pull request may silence


def test_a_comment_silences_a_security_finding_only_where_it_is_trusted() -> None:
    body = f"<!-- skillgate: ignore guard, hardcoded-path: x -->\nEVIL1 EVIL2 {BAD}"
    everywhere = sifted(body)
    assert counted(everywhere) == (0, 3, 0)
    trusted = [finding.fingerprint for finding in everywhere.ignored if finding.match == "EVIL1"]
    found = sifted(body, trusted=trusted)
    assert (told(found), len(found.ignored)) == (["6 guard EVIL2"], 2)
    assert told(sifted(body, trusted=[])) == ["6 guard EVIL1", "6 guard EVIL2"]


def test_a_trusted_finding_hides_no_second_equal_one() -> None:
    body = "<!-- skillgate: ignore guard: x -->\nEVIL1\nmore\n"
    for times, shown in (2, []), (1, ["7 guard EVIL1"]), (0, ["6 guard EVIL1", "7 guard EVIL1"]):
        found = check_twice(body, None, trusted_times=times)
        assert (told(found), len(found.ignored)) == (shown, times)


def test_equal_findings_of_a_file_are_shown_once_with_their_lines() -> None:
    found = sifted("EVIL1\n\nEVIL2\n\nEVIL1 and EVIL1\n", files={"x.md": "EVIL1\n"})
    assert [f"{f.where} {f.message}" for f in merged(found.findings)] == [
        "skills/demo/SKILL.md:5:1 EVIL1 (also on line 9)",
        "skills/demo/SKILL.md:7:1 EVIL2",
        "skills/demo/x.md:1:1 EVIL1",
    ]
    known = read_baseline(write_baseline(found.findings), "known.json")
    assert sorted(one.count for one in known.findings) == [1, 1, 3]
