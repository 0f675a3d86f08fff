"""The engine and the loader of rules: sorted findings, overrides, errors with path and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillgate.config import LintConfig
from skillgate.core import Finding
from skillgate.errors import ConfigError, RuleError, SkillgateError
from skillgate.lint.check import Library
from skillgate.lint.engine import lint_library, lint_skill
from skillgate.lint.rule import Rule, configure, load_rules
from skillgate.shipped import shipped
from skillgate.skill import Files, parse, scan
from skillgate.values import Location, Severity

RULES = shipped("rules")
LOADED = load_rules(RULES)
GOOD = "---\nname: {name}\ndescription: Turns notes into prose. Use for notes.\n---\n"


def test_a_finding_is_worded_by_the_rule_file(rules: tuple[Rule, ...]) -> None:
    text = "---\nname: demo\ndescription: Turns notes: into prose.\n---\n"
    assert lint_skill(parse(Files.from_map({"SKILL.md": text.encode()}), "skills/demo"), rules) == (
        Finding(
            rule="frontmatter-invalid",
            severity=Severity.ERROR,
            scope="spec",
            message="the value of `description` holds `: ` without quotes, so the frontmatter is not valid"
            " YAML; a client may lose every field, allowed-tools too",
            where=Location(path="skills/demo/SKILL.md", line=3, column=25),
            hint='Quote the value: `description: "..."`.',
            evidence="57 of 76 frontmatters that fail to parse have an unquoted colon"
            " (32,783 published SKILL.md, November 2026)",
            match="description",
        ),
    )


def test_a_bad_skill_does_not_stop_the_others(tmp_path: Path, rules: tuple[Rule, ...]) -> None:
    contents = {
        "a": b"\xff\xfe\x00",
        "b": GOOD.format(name="b").encode() + b"caf\xe9\n",
        "c": b"",
        "d": b"---\nname: d\ndescription: !!python/object:os.system [x]\n---\n",
        "e": GOOD.format(name="wrong").encode() + b"Text.\n",
        "f": GOOD.format(name="f").encode() + b"Text.\n",
    }
    for name, content in contents.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_bytes(content)
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "SKILL.md").symlink_to("nowhere")
    skills = [parse(Files.from_folder(tmp_path / folder), folder) for folder in scan(tmp_path).skills]
    found = [finding for skill in skills for finding in lint_skill(skill, rules)]
    assert [(f.where.path, f.where.line, f.rule) for f in found] == [
        ("a/SKILL.md", 1, "frontmatter-missing"),
        ("a/SKILL.md", 1, "not-fully-read"),
        ("b/SKILL.md", 1, "not-fully-read"),
        ("c/SKILL.md", 1, "frontmatter-missing"),
        ("d/SKILL.md", 3, "frontmatter-invalid"),
        ("e/SKILL.md", 2, "name-matches-folder"),
        ("g/SKILL.md", 1, "not-fully-read"),
    ]
    assert [finding for skill in skills for finding in lint_skill(skill, rules[::-1])] == found


def test_a_search_without_a_skill_is_an_error(rules: tuple[Rule, ...]) -> None:
    (found,) = lint_library(Library((), folder="skills"), rules)
    assert (found.rule, found.severity, found.where) == (
        "no-skills-found",
        Severity.ERROR,
        Location(path="skills"),
    )
    assert lint_library(Library(()), tuple(by_id({"no-skills-found": False}).values())) == ()


@settings(deadline=None)  # the machine may be busy
@given(
    st.binary(max_size=300)
    | st.text(max_size=200).map(lambda t: f"---\nname: {t}\n---\n{t}".encode("utf-8", "replace"))
)
def test_no_bytes_make_a_rule_raise(raw: bytes) -> None:
    for finding in lint_skill(parse(Files.from_map({"SKILL.md": raw, "x.py": raw}), "demo"), LOADED):
        finding.message.encode()
        assert finding.where.line >= 1


def test_a_skill_of_thousands_of_files_is_fine(rules: tuple[Rule, ...]) -> None:
    files = {f"references/{n}.md": b"text\n" for n in range(3_607)}
    files["SKILL.md"] = (
        GOOD.format(name="demo").encode() + b"See [none](references/x.md), else references/.\n"
    )
    found = lint_skill(parse(Files.from_map(files), "demo"), rules)
    assert [(f.rule, f.match) for f in found] == [("broken-reference", "references/x.md")]


def test_rules_are_discovered_and_sorted() -> None:
    ids = [rule.id for rule in load_rules(RULES)]
    assert ids == sorted(path.stem for path in RULES.glob("*.yml"))
    assert len(ids) >= 12


def by_id(options: dict[str, object]) -> dict[str, Rule]:
    config = LintConfig(rules=options)  # type: ignore[arg-type]  # wrong ones are the test
    return {rule.id: rule for rule in configure(LOADED, config)}


def test_a_user_switches_off_and_overrides() -> None:
    changed = by_id(
        {
            "unknown-key": False,
            "name-format": True,
            "hardcoded-path": "error",
            "token-weight": {"max-tokens": 10, "severity": "note"},
        }
    )
    assert "unknown-key" not in changed
    assert changed["name-format"] == by_id({})["name-format"]
    assert {v.severity for v in changed["hardcoded-path"].variants.values()} == {None}
    assert changed["token-weight"].severity is Severity.NOTE
    skill = parse(Files.from_map({"SKILL.md": GOOD.format(name="demo").encode() + b"word " * 20}), "demo")
    found = lint_skill(skill, tuple(changed.values()))
    assert [(f.rule, f.severity) for f in found] == [("token-weight", Severity.NOTE)]


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (
            {"token-wieght": False},
            "`lint.rules` names `token-wieght`, which is no rule",
            "Did you mean `token-weight`?",
        ),
        (
            {"token-weight": {"max-token": 1}},
            "`lint.rules.token-weight`: unknown option `max-token`",
            "Did you mean `max-tokens`?",
        ),
        (
            {"token-weight": {"max-tokens": "many"}},
            "`lint.rules.token-weight`: expected `int`, got `str` - at `$.max-tokens`",
            "Correct the value.",
        ),
        (
            {"token-weight": {"severity": "fatal"}},
            "`lint.rules.token-weight`: invalid enum value 'fatal'",
            "Correct the value.",
        ),
    ],
)
def test_wrong_options_name_the_nearest(options: dict[str, object], message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        by_id(options)
    assert (caught.value.message, caught.value.hint) == (message, hint)


RULE = """\
id: house
title: A house rule
severity: note
scope: style
check: field-length
with:
  field: license
  max-chars: 3
message: "`{field}` has {chars} characters"
hint: Cut it.
why: Because.
evidence: [{source: us, says: so}]
since: 0.1.0
examples: {bad: [x], good: [y]}
"""


def test_a_folder_of_ones_own_is_read_the_same(tmp_path: Path) -> None:
    (tmp_path / "house.yml").write_text(RULE, encoding="utf-8")
    (rule,) = load_rules(tmp_path)
    skill = parse(Files.from_map({"SKILL.md": b"---\nname: demo\nlicense: Apache-2.0\n---\n"}), "demo")
    (found,) = lint_skill(skill, [rule])
    assert (found.message, found.where.line, found.evidence) == ("`license` has 10 characters", 3, "so (us)")


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        (
            "check: field-length",
            "check: field-lenght",
            ":5: there is no check `field-lenght`",
            "Did you mean `field-length`?",
        ),
        ("max-chars: 3", "max-char: 3", ":6: unknown option `max-char`", "Did you mean `max-chars`?"),
        (
            "max-chars: 3",
            "max-chars: no",
            ":6: expected `int`, got `bool` - at `$.max-chars`",
            "Correct the value.",
        ),
        ("id: house", "id: mouse", ":1: the id is `mouse`, the file is `house.yml`", "Write `id: house`."),
        ("title:", "titel:", ":2: unknown key `titel`", "Did you mean `title`?"),
        ("bad: [x]", "bad: []", ":14: `examples.bad`: expected `array` of length >= 1", "Correct the value."),
        ("severity: note", "severity: [", ":5: expected", "Correct the YAML."),
    ],
)
def test_a_wrong_rule_file_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, message: str, hint: str
) -> None:
    path = tmp_path / "house.yml"
    path.write_text(RULE.replace(old, new), encoding="utf-8")
    with pytest.raises(RuleError) as caught:
        load_rules(tmp_path)
    assert caught.value.message.startswith(f"{path}{message}")
    assert caught.value.hint == hint


def test_a_folder_without_rules_and_a_binary_rule_are_errors(tmp_path: Path) -> None:
    with pytest.raises(SkillgateError, match="there is no rule file"):
        load_rules(tmp_path)
    (tmp_path / "x.yml").write_bytes(b"\xff")
    with pytest.raises(RuleError, match=r"x\.yml:1: cannot be read"):
        load_rules(tmp_path)
