"""What a client does with a skill: keys, places, names and lists, each client alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from skillgate.config import Client, LintConfig
from skillgate.core import Finding
from skillgate.lint.check import Library, Listed, listed
from skillgate.lint.engine import lint_library, lint_skill
from skillgate.lint.rule import Rule, configure, load_rules
from skillgate.shipped import shipped
from skillgate.skill import Files, parse
from skillgate.values import Location

LOADED = load_rules(shipped("rules"))
Check = Callable[..., tuple[Finding, ...]]


def rules_of(client: str) -> tuple[Rule, ...]:
    rules = configure(LOADED, LintConfig(clients=(Client(client),)))
    return tuple(rule for rule in rules if rule.scope == f"client:{client}")


def check(client: str, *lines: str, files: Mapping[str, str] | None = None) -> tuple[Finding, ...]:
    head = [
        "---",
        "name: demo",
        "description: Turns notes into prose. Use for notes.",
        *lines,
        "---",
        "",
        "x",
    ]
    raw = {name: text.encode() for name, text in (files or {}).items()}
    raw["SKILL.md"] = "\n".join(head).encode()
    return lint_skill(parse(Files.from_map(raw), "demo"), rules_of(client))


def test_rules_of_clients_are_off_until_named() -> None:
    assert [rule.id for rule in configure(LOADED, LintConfig()) if rule.scope.startswith("client:")] == []
    assert [rule.id for rule in rules_of("cursor")] == ["cursor-keys", "cursor-location"]


ALL_KEYS = (
    "license: MIT", "compatibility: git", "metadata: {a: b}", "allowed-tools: Read", "when_to_use: now",
    "disable-model-invocation: true", "user-invocable: false", "disallowed-tools: Bash", "argument-hint: x",
    "arguments: a", "model: x", "effort: low", "context: fork", "agent: x", "background: true", "shell: bash",
    "paths: x", "hooks: {}",
)  # fmt: skip


@pytest.mark.parametrize(
    ("client", "ignored"),
    [
        ("claude-code", ""),
        (
            "codex",
            "disable-model-invocation, disallowed-tools, allowed-tools, paths, when_to_use, context, agent,"
            " model, effort, background, hooks, shell, arguments, argument-hint, user-invocable",
        ),
        (
            "copilot",
            "disallowed-tools, paths, when_to_use, agent, model, effort, background, hooks, shell, arguments",
        ),
        (
            "cursor",
            "disallowed-tools, allowed-tools, when_to_use, context, agent, model, effort, background, hooks,"
            " shell, arguments, argument-hint, user-invocable",
        ),
        (
            "gemini",
            "disable-model-invocation, disallowed-tools, allowed-tools, paths, when_to_use, context, agent,"
            " model, effort, background, hooks, shell, arguments, argument-hint, user-invocable",
        ),
    ],
)
def test_each_client_ignores_what_its_documentation_does_not_name(client: str, ignored: str) -> None:
    found = [f.match for f in check(client, *ALL_KEYS) if f.rule == f"{client}-keys"]
    assert found == ([ignored] if ignored else [])


def test_the_worst_ignored_key_is_where_the_finding_stands() -> None:
    (found,) = check("codex", "argument-hint: x", "disable-model-invocation: true")
    assert (found.where.line, found.severity) == (5, "warning")
    assert found.message.startswith(
        "Codex ignores `disable-model-invocation` (also `argument-hint`); without `disable-model-"
    )
    assert "agents/openai.yaml" in found.hint


def test_a_sidecar_of_codex_stands_in_for_the_key() -> None:
    sidecar = {"agents/openai.yaml": "policy:\n  allow_implicit_invocation: false\n"}
    assert check("codex", "disable-model-invocation: true", files=sidecar) == ()
    (found,) = check("codex", "disable-model-invocation: true", "model: x", files=sidecar)
    assert (found.match, found.severity) == ("model", "note")


def test_broken_frontmatter_is_not_told_twice() -> None:
    assert check("gemini", "allowed-tools: a: b") == ()


@pytest.mark.parametrize(
    ("name", "word"),
    [("claude-helper", "claude"), ("my-claude", "claude"), ("Anthropic-x", "anthropic"), ("clauses", "")],
)
def test_reserved_names(name: str, word: str) -> None:
    text = f"---\nname: {name}\ndescription: Turns notes into prose. Use for notes.\n---\nx\n"
    found = lint_skill(parse(Files.from_map({"SKILL.md": text.encode()}), "demo"), rules_of("claude-code"))
    assert [(f.rule, f.match) for f in found] == ([("claude-code-reserved-name", name)] if word else [])


@pytest.mark.parametrize(
    ("description", "when_to_use", "line"),
    [(1000, 536, 0), (1000, 537, 4), (1537, 0, 3), (1536, 0, 0)],
)
def test_the_text_of_one_skill_is_cut(description: int, when_to_use: int, line: int) -> None:
    lines = [
        f"description: {'d' * description}",
        *([f"when_to_use: {'w' * when_to_use}"] if when_to_use else []),
    ]
    text = "\n".join(["---", "name: demo", *lines, "---", "x"])
    found = lint_skill(parse(Files.from_map({"SKILL.md": text.encode()}), "demo"), rules_of("claude-code"))
    assert [(f.rule, f.where.line) for f in found] == ([("claude-code-listing-cut", line)] if line else [])


# --- lists ------------------------------------------------------------------------


def skill(path: str, *, chars: int = 10, when_to_use: int = 0, hidden: bool = False) -> Listed:
    where = Location(path=f"{path}/SKILL.md", line=3)
    return Listed(
        path=path,
        name=path.rpartition("/")[2],
        description="d" * chars,
        when_to_use="w" * when_to_use,
        name_at=where,
        description_at=where,
        hidden=hidden,
    )


def found_in(client: str, *skills: Listed) -> list[str]:
    return [f"{f.where.path} {f.severity} {f.rule}" for f in lint_library(Library(skills), rules_of(client))]


def test_the_list_of_claude_code() -> None:
    eight = [skill(f"s{n}", chars=998) for n in range(8)]
    assert found_in("claude-code", *eight) == []
    assert found_in("claude-code", *eight, skill("s9", chars=1, hidden=True)) == []
    assert found_in("claude-code", *eight, skill("s9", chars=1)) == [
        "s0/SKILL.md note claude-code-listing-budget"
    ]
    (found,) = lint_library(Library((*eight, skill("s8"), skill("s9"))), rules_of("claude-code"))
    assert found.message == (
        "names and descriptions of all 10 skills that a model may choose have 8,024 characters, Claude Code"
        " has room for about 8,000; where all are installed it may drop descriptions (counted by path, no"
        " room is left for 2: `s8`, `s9`)"
    )


def test_one_long_text_counts_only_as_far_as_it_is_shown() -> None:
    assert found_in("claude-code", *(skill(f"s{n}", chars=1000, when_to_use=9000) for n in range(5))) == []
    assert found_in("claude-code", *(skill(f"s{n}", chars=1000, when_to_use=600) for n in range(6))) == [
        "s0/SKILL.md note claude-code-listing-budget"
    ]


def test_the_list_of_codex_counts_paths_and_skills_that_others_hide() -> None:
    four = [skill(f"s{n}", chars=1987) for n in range(4)]
    assert found_in("codex", *four) == []  # 1987 + 2 for the name + 11 for the path
    assert found_in("codex", *four, skill("x", chars=0, hidden=True)) == [
        "s0/SKILL.md note codex-listing-budget"
    ]


def test_many_lost_skills_are_counted() -> None:
    (found,) = lint_library(Library(tuple(skill(f"s{n}", chars=8000) for n in range(20))), rules_of("codex"))
    assert "no room is left for 20: `s0`, `s1`, `s10` and 17 more)" in found.message


def test_the_finding_of_the_list_stays_where_it_is() -> None:
    skills = [skill(f"s{n}", chars=1500) for n in range(9)]
    rules = rules_of("codex")
    (before,) = lint_library(Library((*skills[:7],)), rules)
    (after,) = lint_library(Library((*skills[:2:-1], *skills[:3])), rules)
    assert (before.fingerprint, before.where.path) == (after.fingerprint, "s0/SKILL.md")
    assert before.message != after.message


@pytest.mark.parametrize(("judged", "expected"), [("s0", []), ("s4", []), ("s5", ["s5/SKILL.md"])])
def test_a_change_hears_of_the_list_where_it_loses_its_own_place(judged: str, expected: list[str]) -> None:
    skills = tuple(skill(f"s{n}", chars=1500) for n in range(6))
    found = lint_library(Library(skills, about=judged), rules_of("codex"))
    assert [f.where.path for f in found] == expected


# --- places -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "paths", "expected"),
    [
        (
            "claude-code",
            [".claude/skills/a", "apps/web/.claude/skills/b", "skills/c", "plugins/p/skills/x/d"],
            [],
        ),
        ("claude-code", [".claude/skills/group/a"], [".claude/skills/group/a warning"]),
        (
            "claude-code",
            [".claude/skills/a", ".claude/skills/a/skills/b"],
            [".claude/skills/a/skills/b warning"],
        ),
        ("claude-code", [".agents/skills/a", ".agents/skills/b"], [".agents/skills/a note"]),
        ("claude-code", [".agents/skills/a", ".claude/skills/a"], []),
        ("claude-code", [".cursor/skills/a", "skills/a"], []),
        ("codex", [".agents/skills/group/a", ".codex/skills/b"], []),
        (
            "codex",
            [".claude/skills/a", ".github/skills/b"],
            [".claude/skills/a note", ".github/skills/b note"],
        ),
        ("copilot", [".github/skills/a", ".claude/skills/b", ".agents/skills/group/c"], []),
        ("copilot", [".codex/skills/a"], [".codex/skills/a note"]),
        ("cursor", [".cursor/skills/group/a", ".agents/skills/b", ".claude/skills/c", ".codex/skills/d"], []),
        ("cursor", [".gemini/skills/a"], [".gemini/skills/a note"]),
        ("gemini", [".gemini/skills/a", ".agents/skills/b"], []),
        ("gemini", [".gemini/skills/group/a"], [".gemini/skills/group/a warning"]),
        ("gemini", [".", "demo", "./.x", "a/.hidden/b"], []),
    ],
)
def test_where_each_client_looks(client: str, paths: list[str], expected: list[str]) -> None:
    found = lint_library(Library(tuple(map(skill, paths))), rules_of(client))
    assert [f"{f.where.path.removesuffix('/SKILL.md')} {f.severity}" for f in found] == expected
    assert {f.rule for f in found} <= {f"{client}-location"}


def test_what_a_client_needs_is_taken_from_the_frontmatter() -> None:
    text = "---\nname: demo\ndescription: d\nwhen_to_use: w\ndisable-model-invocation: true\n---\n"
    one = listed(parse(Files.from_map({"SKILL.md": text.encode()}), "demo"))
    assert (one.when_to_use, one.hidden) == ("w", True)
