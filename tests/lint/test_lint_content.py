"""What the instructions are made of: each rule finds its own, and the traps stay silent."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import pytest

from skillgate.core import Finding
from skillgate.lint.engine import lint_skill
from skillgate.lint.rule import Rule, load_rules
from skillgate.shipped import shipped
from skillgate.skill import Files, parse

HEAD = "---\nname: demo\ndescription: Turns notes into prose. Use for notes.\n---\n"
Find = Callable[..., list[Finding]]


@pytest.fixture(scope="module")
def by_id() -> dict[str, Rule]:
    return {rule.id: rule for rule in load_rules(shipped("rules"))}


@pytest.fixture
def find(by_id: dict[str, Rule]) -> Find:
    """Lint a body under a good frontmatter, or a whole SKILL.md, with one rule alone."""

    def run(rule: str, text: str, files: Mapping[str, str] | None = None) -> list[Finding]:
        raw = {"SKILL.md": text if text.startswith("---") else HEAD + text, **(files or {})}
        skill = parse(Files.from_map({name: content.encode() for name, content in raw.items()}), "demo")
        return list(lint_skill(skill, [by_id[rule]]))

    return run


def shown(found: list[Finding]) -> list[str]:
    return [f"{f.where.line}:{f.where.column} {f.match}" for f in found]


PLACEHOLDERS = [
    ("TODO: say more", ["5:1 TODO: say more"]),
    ("- **TODO**: say more", ["5:1 - **TODO**: say more"]),
    ("## Steps\n\nTBD", ["7:1 TBD"]),
    ("TODO write more\n\n- [ ] TODO: three", ["5:1 TODO write more", "7:1 - [ ] TODO: three"]),
    ("Ask {{COMPANY NAME}} or {{name}}.", ["5:7 COMPANY NAME"]),
    (
        "Say <your text here> to [Insert company name].",
        ["5:5 <your text here>", "5:25 [Insert company name]"],
    ),
    (
        "Set KEY=<your-key>; TODO comments and `{{NAME}}` stay. Click [Insert](x.md) or [insert row](y.md).",
        [],
    ),
    ("- TODO comments\n- TODO/FIXME\n\nTODO lists are for the user. TBD", []),
    ("<!-- TODO: say more -->", []),
    ("Do this. [TODO: and that]", ["5:10 [TODO: and that"]),
    ("[Your text here]", ["5:1 [Your text here]"]),
    (
        "Start with [insert your instructions for the agent].",
        ["5:12 [insert your instructions for the agent]"],
    ),
    ("Ask <insert name>.", ["5:5 <insert name>"]),
    ("Lorem ipsum dolor sit amet", ["5:1 Lorem ipsum dolor"]),
    (
        HEAD.replace("Turns notes into prose.", "'[TODO: Complete and informative explanation of it]'"),
        ["3:15 [TODO: Complete and informative explanation of it"],
    ),
    ("Look for `TODO: x` and `[TODO]` in the code; TODO comments are old. Use `context.TODO()`.", []),
    ("Never leave a TODO: in the text.\n\n## Mistakes\n\nTODO: without an owner", []),
    ("Make a to-do list. TODO lists and TBD entries are for the user.", []),
    ("```markdown\nTODO: x\n[Your text here]\n<insert name>\n```", []),
    ("See [your text here](a.md) and [Your Name], [Describe the goal] or <name>; use realistic text.", []),
    ("| Lorem ipsum-style copy | Realistic copy |", []),
]


@pytest.mark.parametrize(("text", "expected"), PLACEHOLDERS)
def test_leftover_placeholders(find: Find, text: str, expected: list[str]) -> None:
    assert shown(find("leftover-placeholder", text)) == expected


GENERATED = [
    ("# Insert instructions below", ["5:1 # Insert instructions below"]),
    ("## Structuring This Skill\n\nChoose one.", ["5:1 ## Structuring This Skill"]),
    (
        HEAD.replace("Turns notes into prose.", "Replace with description of the skill and more."),
        ["3:14 Replace with description of the skill"],
    ),
    ("Replace `X` with a description. Add your instructions here. A clear description helps.", []),
    ("Never leave 'Replace with description of the skill' in it.", []),
]


@pytest.mark.parametrize(("text", "expected"), GENERATED)
def test_text_of_generators(find: Find, text: str, expected: list[str]) -> None:
    assert shown(find("generator-text", text)) == expected


TIMES = [
    ("As of March 2024 it takes ten.", ["5:1 As of March 2024"]),
    ("It takes ten as of 2026, or as of mid-2026.", ["5:14 as of 2026"]),
    ("It takes ten as of this writing.", ["5:14 as of this writing"]),
    ("Until August 2025 use the old one.", ["5:1 Until August 2025"]),
    ("Starting in January 2027, use the new one.", ["5:1 Starting in January 2027"]),
    ("It is currently in beta.", ["5:7 currently in beta"]),
    ("Uploads are coming soon.", ["5:9 are coming soon"]),
    ("The latest version is 4.2.", ["5:5 latest version is 4.2."]),
    ("Current API version: `v2`", ["5:1 Current API version: `v2"]),
    ('```python\nmodel="claude-3-7-sonnet-20250219"\n```', ["6:8 claude-3-7-sonnet-20250219"]),
    ("Ask gpt-4o-2024-11-20 or gpt-4o.", ["5:5 gpt-4o-2024-11-20"]),
    ("As of March 2024 ten, as of May 2024 twelve.", ["5:1 As of March 2024"]),
    ("Do not start before March 2027 is over. Avoid `gpt-4o-2024-11-20`.", []),
    ("The old address is deprecated since March 2024 and gone as of June 2024.", []),
    ("## Anti-patterns\n\nAs of March 2024 it takes ten.", []),
    ("What was created before 2023? Since Go 1.21 use `slices`. Sort by newest version first.", []),
    ("If the user is currently logged in, use the latest version. It may change in 2025.", []),
    ("Run `date --before 2024-05-01`; `may 2024` is a month. Look at the most recent release.", []),
]


@pytest.mark.parametrize(("text", "expected"), TIMES)
def test_time_sensitive_text(find: Find, text: str, expected: list[str]) -> None:
    assert shown(find("time-sensitive", text)) == expected


def test_backticks_of_a_match_are_left_out_of_the_message(find: Find) -> None:
    (found,) = find("time-sensitive", "Current API version: `v2`")
    assert found.message.startswith("`Current API version: v2` speaks of one moment;")


def test_references_are_read_for_times_too(find: Find) -> None:
    (found,) = find(
        "time-sensitive", "See `a.md`.", {"a.md": "# A\n\nAs of May 2026 it fails.\n", "a.py": "# as of 2026"}
    )
    assert (found.where.path, found.where.line) == ("demo/a.md", 3)


LONG = "Sort what breaks code before what is new, and what is new before what was repaired. " * 2
OTHER = LONG.replace("Sort", "Put")


def test_a_repeated_paragraph(find: Find) -> None:
    assert find("repeated-paragraph", f"{LONG}\n\n{OTHER}\n\nshort\n\nshort\n") == []
    (found,) = find("repeated-paragraph", f"{LONG}\n\n# Again\n\n{LONG}\n")
    assert (found.where.line, found.message.partition(";")[0]) == (
        9,
        "this paragraph of 167 characters stands at SKILL.md:5 already",
    )
    (found,) = find("repeated-paragraph", f"{LONG}\n\n{OTHER}\n", {"a.md": f"# A\n\n{OTHER}\n\n{LONG}\n"})
    assert (found.where.path, found.where.line) == ("demo/a.md", 3)
    assert "stands at SKILL.md:7 already (1 more likewise)" in found.message


def test_what_may_be_repeated(find: Find) -> None:
    code = f"```\n{LONG}\n```\n\n"
    assert find("repeated-paragraph", code * 2, {"a.md": code}) == []
    assert find("repeated-paragraph", "See `a.md`.", {"a.md": LONG, "b.md": LONG, "c.txt": LONG}) == []
    assert find("repeated-paragraph", LONG, {"notes.txt": LONG}) == []
    assert find("repeated-paragraph", f"{LONG}\n{code}{LONG}\n")[0].where.line == 10


CREDITS = [
    ("- Never do a.\n- Don't do b.\n- Do not do c.", 3),
    ("Avoid a. You must not do b, never ever; but do c. Please do not do d.", 3),
    ("❌ a\n\n- **🚫 Not b**\n\n### ❌ C", 3),
    ("| a | ❌ |\n|---|---|\n| ❌ | ❌ b |\n\na ❌ b, but don't need c", 0),
    ("| **Never** a | x |\n|---|---|\n| Avoid b | Don’t c |", 3),
    ("- Never do a.\n- Don't do b.", 0),
    ("If you don't know a, and they do not have b, it will never do c. It cannot avoid d.", 0),
    ("Do not use this skill for a. Don't use it for b. Do not use when c.", 0),
    ("```\nnever a\ndon't b\navoid c\n```", 0),
]


@pytest.mark.parametrize(("text", "count"), CREDITS)
def test_rules_that_say_what_to_avoid(find: Find, text: str, count: int) -> None:
    found = find("anti-pattern-credit", text)
    assert [f.message.partition(" ")[0] for f in found] == ([str(count)] if count else [])
    assert {f.hint for f in found} <= {"Keep them."}


def test_the_credit_stands_at_the_first_of_them(find: Find) -> None:
    assert shown(find("anti-pattern-credit", "Do a.\n\n- **Never do b.** Avoid c, don't d. Don't e.")) == [
        "7:5 anti-patterns"
    ]


EXAMPLES = "- One of them turns a note into prose, and says where it came from.\n" * 40


def test_a_body_of_examples(find: Find) -> None:
    text = f"# Notes\n\nDo this.\n\n## Examples\n\n{EXAMPLES}\n### Another\n\n{EXAMPLES}\n"
    (found,) = find("example-heavy", text)
    assert (found.where.line, found.message.partition(",")[0]) == (9, "100 % of the body are examples")
    assert find("example-heavy", text + "## Rules\n\n" + EXAMPLES * 3) == []
    assert find("example-heavy", f"# Examples of notes\n\n## Rules\n\n{EXAMPLES}") == []
    assert find("example-heavy", "# Notes\n\n## Example\n\nOne.\n") == []


PERSONS = [
    ("I can turn notes into prose.", ["3:14 I can"]),
    ("Helps with notes. I'll turn them into prose.", ["3:32 I'll"]),
    ("Help me with notes.", ["3:14 Help me"]),
    ("Turns your notes into prose.", ["3:20 your"]),
    ("'You are an expert in notes.'", ["3:15 You"]),
    ('Use when a user says "help me with my notes" or "what do you think".', []),
    ("Handles I/O, i.e. files. Helps menders.", []),
]


@pytest.mark.parametrize(("description", "expected"), PERSONS)
def test_the_person_of_a_description(find: Find, description: str, expected: list[str]) -> None:
    text = f"---\nname: demo\ndescription: {description}\n---\n\nYou can do what I can.\n"
    assert shown(find("description-person", text)) == expected


def test_shouting(find: Find) -> None:
    assert [f.message[:7] for f in find("shouting", "You MUST do it.\n" * 8)] == ["8 times"]
    assert find("shouting", "You MUST do it.\n" * 7 + "`NEVER` is `GENERATED ALWAYS AS`; must, never.") == []
    assert find("shouting", "```\n" + "MUST\n" * 20 + "```\n") == []
    assert find("shouting", "You MUST do it.\n" * 8 + "word " * 3000) == []


HEADINGS = [
    ("# A\n\n### B\n\n# C\n\n## D\n\n#### E", ["7:1 B", "13:1 E"]),
    ("## A\n\n### B\n\n# C\n\n## D", []),
    ("```\n# A\n\n### B\n```", []),
    ("word " * 310, ["5:1 none"]),
    ("word " * 200, []),
]


@pytest.mark.parametrize(("text", "expected"), HEADINGS)
def test_heading_levels(find: Find, text: str, expected: list[str]) -> None:
    assert shown(find("heading-levels", text)) == expected


HOSTILE = {
    "brackets": "[your " * 100_000,
    "blank lines of blanks": (" " * 80 + "\n") * 9_000,
    "never": "never " * 100_000,
    "spans": "`" * 100_001 + "MUST!" * 10_000,
    "headings": "# example\n" * 9_000,
    "dates": "as of " * 100_000 + "until the end of " * 20_000,
    "models": "claude-" * 100_000,
    "homes": "/home/" * 100_000 + "/Users/a" * 50_000,
    "orders": "".join(f"Save it as `a{n}/b.md`.\n" for n in range(9_000)),
    "verbs": "save to " * 100_000,
    "a long path": "Save it to " + "a/" * 100_000 + " as `" + "b/" * 100_000,
    "modules": "```\nimport a\n" + "def a\n\n" * 4_500 + "```\n",
    "templates": ("```\n# a/b.yml\n" + "a: b\n" * 6 + "```\n\n") * 900,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_takes_long(by_id: dict[str, Rule], name: str) -> None:
    rules = [by_id[rule] for rule in MINE]
    files = {"SKILL.md": (HEAD + HOSTILE[name]).encode(), "a.md": HOSTILE[name].encode()}
    started = time.process_time()
    lint_skill(parse(Files.from_map(files), "demo"), rules)
    assert time.process_time() - started < 8


MINE = (
    "anti-pattern-credit",
    "description-person",
    "example-heavy",
    "hardcoded-path",
    "generator-text",
    "heading-levels",
    "leftover-placeholder",
    "repeated-paragraph",
    "shouting",
    "template-anchoring",
    "time-sensitive",
)
