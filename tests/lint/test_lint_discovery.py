"""Does an agent find the right skill? What the rules find in descriptions and what they let pass."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from skillgate.core import Finding
from skillgate.lint.check import Library, Listed
from skillgate.lint.engine import lint_library
from skillgate.lint.rule import Rule
from skillgate.values import Location

Lint = Callable[..., tuple[Finding, ...]]
ABOUT = ("trigger-cue", "vague-description", "keyword-stuffing")


def rules_hit(lint: Lint, description: str, name: str = "demo", *lines: str) -> list[str]:
    head = ["---", f"name: {name}", f"description: {description}", *lines, "---", "", "# Demo", ""]
    found = lint("\n".join(head), path=f"skills/{name}")
    assert {f.where.line for f in found if f.rule in ABOUT} <= {3}
    return [f.rule for f in found if f.rule in ABOUT]


@pytest.mark.parametrize(
    "description",
    [
        "Release notes from a changelog, grouped and linked.",
        "Release notes from a changelog. Do not use when the changelog is empty.",
        "Release notes from a changelog. Never use for blog posts, nor when asked for slides.",
        "Release notes from a changelog. Don't invoke it if there are no commits.",
        "Release notes from a changelog. NOT for blog posts.",
        "Writes notes for a changelog.",
        "Google Docs. Append text to a document.",
    ],
)
def test_descriptions_that_never_say_when(lint: Lint, description: str) -> None:
    assert rules_hit(lint, description) == ["trigger-cue"]


@pytest.mark.parametrize(
    "description",
    [
        "Release notes from a changelog. Use when a version goes out.",
        "Release notes from a changelog. Use when a version goes out, not for blog posts.",
        "Do not use when drafting posts. Use when a version goes out with a changelog.",
        "Release notes from a changelog. Use this skill for tags and milestones.",
        "Release notes from a changelog. USE FOR milestones. DO NOT USE FOR posts.",
        "Release notes from a changelog before publishing a version.",
        "Release notes from a changelog, for maintainers of packages.",
        "Guide for writing release notes from a changelog.",
        "Release notes from a changelog. Triggers - 'what is new'.",
        "Release notes from a changelog, whenever the user asks.",
        "The user wants release notes from a changelog.",
        "Must be used after tagging a milestone of the changelog.",
        "Only activate in repositories that have a changelog.",
        "Notas de cambios del registro. Usar cuando sale una nueva entrega.",
        "Versionshinweise aus dem Verlauf. Verwenden, wenn ein Stand erscheint.",
        "变更日志生成发布说明。",
        "Заметки о выпуске из журнала изменений.",
        "リリースノートを書きます。",
    ],
)
def test_descriptions_that_say_when_or_cannot_be_judged(lint: Lint, description: str) -> None:
    assert rules_hit(lint, description) == []


def test_where_no_model_chooses_nothing_is_asked(lint: Lint) -> None:
    assert rules_hit(lint, "Release notes from a changelog.", "demo", "disable-model-invocation: true") == []
    assert rules_hit(lint, "Release notes from a changelog.", "demo", "when_to_use: Before a release.") == []
    assert rules_hit(lint, "Helps.", "demo", "disable-model-invocation: true") == []
    assert rules_hit(lint, "Notes: from a changelog.") == []  # broken YAML is told elsewhere
    assert rules_hit(lint, "[a, list]") == []


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ("Helps with PDFs.", "demo"),
        ("Use this skill when the user needs help with files.", "demo"),
        ("A comprehensive tool that helps users do various things.", "demo"),
        ("Release Notes Writer", "release-notes-writer"),
        ("Env & Secrets Manager", "env-secrets-manager"),
        ("x", "demo"),
        ('"!!!"', "demo"),
    ],
)
def test_vague_descriptions(lint: Lint, description: str, name: str) -> None:
    assert rules_hit(lint, description, name) == ["vague-description"]


HOSTILE = {
    "negations": "do not " * 4_000,
    "open quotes": "'a " * 8_000,
    "open brackets": "(a" * 12_000,
    "one long word": "for " + "a" * 30_000,
    "uses": "use a a a " * 3_000,
    "commas": "a," * 15_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_description_takes_long(lint: Lint, name: str) -> None:
    started = time.process_time()
    lint(f"---\nname: demo\ndescription: >-\n  {HOSTILE[name]}\n---\n\n# Demo\n")
    assert time.process_time() - started < 3  # a hundredth of it here


def test_short_is_not_vague(lint: Lint) -> None:
    assert rules_hit(lint, "Use to merge PDF files.") == []
    assert rules_hit(lint, "Use when writing Rust macros.") == []
    assert rules_hit(lint, "Review API designs. Use before merging.", "api-design-reviewer") == []


@pytest.mark.parametrize(
    ("description", "match"),
    [
        ("PDF skill, PDF reader, PDF writer, PDF merge, PDF split, PDF forms. Use for any PDF.", "pdf"),
        ("Use for " + ", ".join(f"word{chr(97 + n)}" for n in range(15)) + ".", "list"),
        ("seo, SEO tips, seo audit, best seo, seo tool, seo expert, SEO help, when you want seo", "seo"),
    ],
)
def test_stuffed_descriptions(lint: Lint, description: str, match: str) -> None:
    found = lint(f"---\nname: demo\ndescription: {description}\n---\n\n# Demo\n")
    assert [(f.rule, f.match) for f in found] == [("keyword-stuffing", match)]


@pytest.mark.parametrize(
    "description",
    [
        '\'Merges files. Use when the user says "merge PDF", "split PDF", "PDF form", "sign PDF", "PDF".\'',
        "Use for " + ", ".join(f"word{chr(97 + n)}" for n in range(14)) + ".",
        "Use for caches (LRU, LFU, ARC, FIFO, TTL, SIEVE, a, b, c, d, e, f, g, h, i, j, k) in big programs.",
        "Use for build, edit, run, debug, fix, test. Then list, show, move, drop. Also tag, push, pull.",
        "Product vision and product strategy. Use when setting goals, measuring fit, hiring a product team.",
    ],
)
def test_lists_and_quotes_that_are_fine(lint: Lint, description: str) -> None:
    assert rules_hit(lint, description) == []


# --- skills against each other ----------------------------------------------------


def skill(path: str, description: str = "", *, name: str = "", hidden: bool = False) -> Listed:
    where = Location(path=f"{path}/SKILL.md", line=3)
    called = name or path.rpartition("/")[2]
    return Listed(
        path=path, name=called, description=description, name_at=where, description_at=where, hidden=hidden
    )


def found_in(rules: tuple[Rule, ...], *skills: Listed) -> list[str]:
    found = lint_library(Library(skills), rules)
    return [f"{f.where.path.removesuffix('/SKILL.md')} {f.severity} {f.rule} {f.match}" for f in found]


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["skills/a/x", "skills/b/x"], ["skills/b/x warning duplicate-name x"]),
        (["skills/a/x", "skills/b/x", "skills/c/x"],
         ["skills/b/x warning duplicate-name x", "skills/c/x warning duplicate-name x"]),
        (["a/x", "b/x"], ["b/x warning duplicate-name x"]),
        (["plugins/a/skills/x", "plugins/b/skills/x"], []),
        ([".claude/skills/x", ".agents/skills/x", "skills/x"], []),
        (["docs/ja/skills/x", "docs/de/skills/x"], []),
        (["packages/web/.claude/skills/x", ".claude/skills/x"], []),
        (["examples/x", "skills/x"], []),
        ([".", "skills/x"], []),
    ],
)  # fmt: skip
def test_two_skills_of_one_name(rules: tuple[Rule, ...], paths: list[str], expected: list[str]) -> None:
    assert found_in(rules, *map(skill, paths)) == expected


def test_the_name_counts_not_the_folder(rules: tuple[Rule, ...]) -> None:
    same = [skill("skills/one", name="deploy"), skill("skills/two", name="Deploy")]
    (found,) = lint_library(Library(tuple(same)), rules)
    assert (found.where.path, found.rule) == ("skills/two/SKILL.md", "duplicate-name")
    assert found.message.startswith("the skill in `skills/one/SKILL.md` is called `Deploy` too;")
    nameless = Location(path="x", line=1)
    empty = [Listed(path=f"skills/{n}", name="", description="", name_at=nameless, description_at=nameless)
             for n in "ab"]  # fmt: skip
    assert found_in(rules, *empty) == []


NOTES = "Writes release notes from the changelog, grouped by subject, with links. Use before a release."
COMMITS = "Writes release notes from commits and the changelog, grouped by subject. Use after a release."
CHECK = "Checks that every merged change has a line in the changelog. Use when reviewing a change."


def test_descriptions_that_say_the_same(rules: tuple[Rule, ...]) -> None:
    skills = (skill("notes", NOTES), skill("check", CHECK), skill("commits", COMMITS))
    (found,) = lint_library(Library(skills), rules)
    assert (found.where.path, found.rule, found.severity, found.match) == (
        "commits/SKILL.md",
        "overlapping-descriptions",
        "note",
        "notes",
    )
    assert found.message == (
        "the description says much of what that of `notes` (notes/SKILL.md) says, with the words `grouped`,"
        " `notes`, `release`, `subject`, `writes`, `changelog`; an agent may choose the one where the other"
        " fits"
    )


@pytest.mark.parametrize(
    "skills",
    [
        (skill("notes", NOTES), skill("other", COMMITS, name="notes")),  # a copy, or the name is told
        (skill("notes", NOTES, hidden=True), skill("commits", COMMITS)),
        (skill("notes", NOTES), skill("check", CHECK)),
        (skill("a", "Use when testing."), skill("b", "Use when testing.")),  # vague, and told as that
        (skill("a", ""), skill("b", "")),
        (
            skill("ja", "変更ログからリリースノートを書きます"),
            skill("zh", "変更ログからリリースノートを書きます"),
        ),
        (
            skill("to-nine", "Migrates a project from version 8 to 9. Use for upgrades of the framework."),
            skill("mail", "Sends the weekly summary to all subscribers of the list. Use on Fridays."),
        ),
    ],
)
def test_descriptions_that_are_let_pass(rules: tuple[Rule, ...], skills: tuple[Listed, ...]) -> None:
    found = lint_library(Library(tuple(skills)), rules)
    assert [f.rule for f in found if f.rule == "overlapping-descriptions"] == []


def test_words_that_all_skills_share_weigh_little(rules: tuple[Rule, ...]) -> None:
    kinds = "alarms budgets calendars documents forms groups mails sheets todos videos"
    shared = (
        "Reads and writes {} of the Acme cloud platform by its command line. Use when the user names Acme."
    )
    skills = [skill(kind, shared.format(kind)) for kind in kinds.split()]
    assert found_in(rules, *skills) == []
    (found,) = lint_library(Library((skills[0], skill("other", shared.format("wakes")))), rules)
    assert found.rule == "overlapping-descriptions"


def test_many_copies_are_each_told_once(rules: tuple[Rule, ...]) -> None:
    found = lint_library(Library(tuple(skill(f"s{n:03}", NOTES) for n in range(200))), rules)
    assert [f.rule for f in found] == ["overlapping-descriptions"] * 199


@pytest.mark.parametrize("kind", ["distinct", "equal", "nearly equal"])
def test_a_thousand_skills_take_no_time(rules: tuple[Rule, ...], kind: str) -> None:
    def description(number: int) -> str:
        own = [f"word{chr(97 + (number * step) % 26)}{number * step % 997}" for step in range(1, 40)]
        return NOTES if kind == "equal" else " ".join(own if kind == "distinct" else [*own[:5], NOTES])

    skills = tuple(skill(f"s{n}", description(n)) for n in range(1_000))
    started = time.process_time()
    lint_library(Library(skills), rules)
    assert time.process_time() - started < 5  # a tenth of it here: tells a square of them on any machine
