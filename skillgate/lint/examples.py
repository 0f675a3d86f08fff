"""The examples of a rule -> what is wrong with them: they are its tests.

An example is the text of the SKILL.md in a folder `demo`, or a map from paths to texts; `-> x` is a link.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from skillgate.config import LintConfig
from skillgate.core import Finding
from skillgate.lint.check import Check, Hit, Library, listed
from skillgate.lint.engine import check_skill, lint_library
from skillgate.lint.rule import Example, Rule, configure
from skillgate.lint.sift import sift
from skillgate.skill import Files, Skill, Stray, parse
from skillgate.skill.files import is_misspelt

FOLDER = "demo"


def describe(named: Sequence[Rule], rules: Sequence[Rule], folders: Iterable[Path]) -> Iterator[str]:
    """Say what is wrong with the examples of these rules, a line each, with the file of the rule."""
    paths = {path.stem: path for folder in folders for path in folder.glob("*.yml")}
    for rule in named:
        yield from (f"{paths[rule.id]}: {problem}\n" for problem in problems(rule, rules))


def problems(rule: Rule, rules: Sequence[Rule]) -> Iterator[str]:
    """Say which examples do not do what they are for, and what the rule says that nobody fills."""
    applied = with_rule(rule, rules)
    for number, example in enumerate(rule.examples.bad, 1):
        if not any(finding.rule == rule.id for finding in lint_example(rule, example, applied)):
            yield f"bad example {number} does not give `{rule.id}`"
    for number, example in enumerate(rule.examples.good, 1):
        for finding in lint_example(rule, example, applied):
            if finding.rule == rule.id:
                yield f"good example {number} gives `{rule.id}`, line {finding.where.line}: {finding.message}"
    unfilled = {
        slot for example in rule.examples.bad for hit in hits(rule, example) for slot in rule.unfilled(hit)
    }
    for slot in sorted(unfilled):
        yield f"`{{{slot}}}` is filled by nothing: the check `{rule.check}` gives no such value"


def with_rule(rule: Rule, rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules that are on by default, and this one."""
    return configure(rules, LintConfig(rules={rule.id: True}))


def lint_example(rule: Rule, example: Example, rules: Sequence[Rule]) -> tuple[Finding, ...]:
    """Lint an example of a rule with these rules."""
    skills, strays = make_example(example)
    checked = [check_skill(skill, rules, rule.examples.tasks) for skill in skills]
    library = Library(tuple(one.listed for one in checked), strays, FOLDER)
    found = [*lint_library(library, rules), *(f for one in checked for f in one.findings)]
    comments = [comment for one in checked for comment in one.comments]
    return sift(found, comments, rules, LintConfig()).findings


def hits(rule: Rule, example: Example) -> list[Hit]:
    """Return what the check of a rule gives for an example, before any of it is worded or silenced."""
    skills, strays = make_example(example)
    check = rule.checker
    if isinstance(check, Check):
        return [hit for skill in skills for hit in check(skill, rule.examples.tasks)]
    return [*check(Library(tuple(map(listed, skills)), strays, FOLDER))]


def make_example(example: Example) -> tuple[list[Skill], tuple[Stray, ...]]:
    """Return the skills of an example, and what looks like one."""
    given = example if isinstance(example, Mapping) else {f"{FOLDER}/SKILL.md": example}
    links = {name: text for name, text in given.items() if text.startswith("-> ")}
    files = {name: text for name, text in given.items() if name not in links}
    folders = sorted(name.removesuffix("/SKILL.md") for name in files if name.endswith("/SKILL.md"))
    skills = []
    for folder in folders:
        inside = {n: text for n, text in files.items() if n.startswith(f"{folder}/")}
        raw = {n.removeprefix(f"{folder}/"): t.encode("utf-8", "surrogateescape") for n, t in inside.items()}
        skills.append(parse(Files.from_map(raw), folder))
    strays = [Stray(name, "case") for name in files if is_misspelt(name.rpartition("/")[2])]
    strays += [Stray(name, "outside" if "../.." in text else "dangling") for name, text in links.items()]
    return skills, tuple(strays)
