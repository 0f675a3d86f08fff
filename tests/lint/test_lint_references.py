"""What a skill refers to: is it there, is it part of the skill, what leads to it and over how many files."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping

import pytest

from skillgate.core import Finding
from skillgate.lint.engine import lint_skill
from skillgate.lint.rule import Rule
from skillgate.skill import Files, parse

Lint = Callable[..., tuple[Finding, ...]]
HEAD = "---\nname: demo\ndescription: Turns notes into prose. Use for notes.\n---\n"
RULES = frozenset(
    {
        "broken-reference",
        "long-reference",
        "orphan-file",
        "reference-cycle",
        "reference-depth",
        "reference-outside",
        "reference-without-cue",
    }
)


def told(lint: Lint, body: str, files: Mapping[str, str] | None = None) -> list[str]:
    found = lint(HEAD + body, files=files)
    return [
        f"{f.where.path.removeprefix('skills/demo/')}:{f.where.line}:{f.where.column} {f.rule} {f.match}"
        for f in found
        if f.rule in RULES
    ]


def texts(lint: Lint, body: str, files: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(f.message, f.hint) for f in lint(HEAD + body, files=files) if f.rule in RULES]


TARGETS = [
    ("See [a](references/a.md), [dir](references/), [top](#top), [w](https://x.org/), [m](mailto:a@b).", []),
    ("See [up](../other/SKILL.md) and [abs](/etc/hosts) and [home](~/x.md) and [tmpl](<path>/x.md) {x}.", []),
    ("Write links as `[text](gone.md)`.\n\n```\n[x](gone.md)\n```\n\n~~~~\n```\n[x](gone.md)\n~~~~\n", []),
    ("- [Name](./c4-code-1.md) - [Description]", []),
    ("See [a](references/gone.md#part), ![b](assets/b.png).\n\nAgain [a](references/gone.md).",
     ["5:9 references/gone.md", "5:40 assets/b.png"]),
    ("[a]: gone%20now.md\n\nsee [a]", ["5:6 gone now.md"]),
    ("Use `references/gone.md` and `references/a.md`.", ["5:6 references/gone.md"]),
    ("Create `scripts/new.py`, then write notes to `references/new.md`.", []),
    ("The project keeps `src/gone.py` and `docs/gone.md`. The plugin has `scripts/gone.js`.", []),
    (r"See [a](references\a.md).", [r"5:9 references\a.md"]),
    (r"See `references\a.md`.", [r"5:6 references\a.md"]),
    ("See [a](References/A.md).", ["5:9 References/A.md"]),
    ("See [a](/references/a.md), [site](/docs/guide.md), [root](/).", ["5:9 /references/a.md"]),
    ("```bash\npython scripts/gone.py x\nbash scripts/run.sh\n```", ["6:8 scripts/gone.py"]),
    ("```bash\n./scripts/gone.sh\nuv run scripts/x.py\n```", ["6:3 scripts/gone.sh", "7:8 scripts/x.py"]),
    ("```bash\npython references/gone.py\npython assets/project.py\n```", ["6:8 references/gone.py"]),
    ("```python\n# scripts/new.py\nx = 1\n```\n\n```bash\npython scripts/new.py\n```", []),
    ("Run it: `python scripts/gone.py --all`. `cat other/scripts/gone.py`", ["5:17 scripts/gone.py"]),
    ("Run `python3 -u scripts/gone.py` or `bash scripts/run.sh`.", ["5:17 scripts/gone.py"]),
    ("See `refrences/style.md` and `refer/style.md`, `script/x.py`.",
     ["5:6 refrences/style.md", "5:49 script/x.py"]),
    ("Read references/gone.md, **references/no.md** and references/a.md.",
     ["5:6 references/gone.md", "5:28 references/no.md"]),
    ("See https://x.org/references/gone.md, src/scripts/gone.py, <a href=references/no.md>, 'scripts/no.py'.",
     []),
    ("Notes are saved to references/new.md. A folder like references/ or an import of scripts/x.", []),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), TARGETS)
def test_targets_in_the_instructions(lint: Lint, body: str, expected: list[str]) -> None:
    files = {"references/a.md": "# A\n", "scripts/run.sh": "#!/bin/sh\n"}
    found = [hit for hit in told(lint, body, files) if " broken-reference " in hit]
    assert found == [f"SKILL.md:{hit.replace(' ', ' broken-reference ', 1)}" for hit in expected]


def test_links_of_other_files_are_seen_from_the_file_and_from_the_skill(lint: Lint) -> None:
    files = {
        "references/a.md": "[b](b.md) [root](references/b.md) [up](../scripts/x.py) [gone](c.md)\n",
        "references/b.md": "```\n[x](no.md)\n```\n`[x](no.md)` func Map[T, R any](items []T) [d](d.md 'D')\n",
        "scripts/x.py": "# [x](gone.md)\n",
    }
    assert told(lint, "Read `references/a.md` and `references/b.md` first.", files) == [
        "references/a.md:1:64 broken-reference references/c.md",
        "references/b.md:4:48 broken-reference references/d.md",
    ]


def test_each_kind_of_wrong_path_says_what_to_write(lint: Lint) -> None:
    body = "[a](Refs/A.md) [b](refs\\a.md) [c](/refs/a.md) [d](refs/b.md)\n"
    assert texts(lint, body, {"refs/a.md": ""}) == [
        ("`Refs/A.md` is `refs/a.md` in this skill; the path works on macOS and Windows but not on Linux",
         "Write `refs/a.md`."),
        ("`refs\\a.md` has backslashes; the path works on Windows alone", "Write `refs/a.md`."),
        ("`/refs/a.md` is an absolute path; on the machine of an agent it leads away from the skill",
         "Write `refs/a.md`."),
        ("`refs/b.md` is not in this skill; an agent may waste turns looking for it",
         "Did you mean `refs/a.md`? Correct the path, add the file, or drop the reference."),
    ]  # fmt: skip


def test_one_wrong_folder_is_one_finding(lint: Lint) -> None:
    names = [f"part-{n}.md" for n in range(10)]
    body = (
        "".join(f"- When in need: `reference/{name}`\n" for name in names) + "- If not: `reference/gone.md`\n"
    )
    found = lint(HEAD + body, files={f"references/{name}": "# A\n" for name in names})
    assert [(f.where.line, f.rule, f.match, f.hint) for f in found if f.rule == "broken-reference"] == [
        (5, "broken-reference", "reference", "Write `references/`."),
        (
            15,
            "broken-reference",
            "reference/gone.md",
            "Correct the path, add the file, or drop the reference.",
        ),
    ]
    assert found[0].message.startswith(
        "10 references look in `reference/`, their files lie in `references/`;"
    )


OUTSIDE = [
    ("[a](../../docs/a.md) and [b](../../../b.md)", ["SKILL.md:5:5 reference-outside ../../docs/a.md"]),
    ("[a](../notes.md)", ["SKILL.md:5:5 reference-outside ../notes.md"]),
    ("[a](../other/SKILL.md) [b](../other/) [c](../other/references/c.md) [d](../)", []),
    ("[a](../../<team>/a.md) `../../docs/a.md`", []),
]


@pytest.mark.parametrize(("body", "expected"), OUTSIDE)
def test_links_that_leave_the_skill(lint: Lint, body: str, expected: list[str]) -> None:
    assert told(lint, body) == expected


def test_links_that_leave_are_told_once_with_the_others(lint: Lint) -> None:
    body = " ".join(f"[x](../../docs/{name}.md)" for name in "abcdef")
    ((message, _),) = texts(lint, body, {})
    assert message == (
        "`../../docs/a.md` leads out of the folder of the skill (also `../../docs/b.md`, `../../docs/c.md`,"
        " `../../docs/d.md` and 2 more); where the skill is installed alone there is nothing"
    )


ORPHANS = [
    ("Nothing.", {"references/a-style.md": ""}, ["references/a-style.md"]),
    ("Nothing.", {"references/a-style.md": "See [it](a-style.md)."}, ["references/a-style.md"]),
    ("Nothing.", {"one-file.md": "[x](two-file.md)", "two-file.md": "[x](one-file.md)"}, ["one-file.md"]),
    ("See the `a-style` reference.", {"references/a-style.md": ""}, []),
    ("See [it](references/a-style.md).", {"references/a-style.md": ""}, []),
    ("See references/ for more.", {"references/a-style.md": ""}, []),
    ("See `references/*.md`.", {"references/deep/a-style.md": ""}, []),
    ("See `references/<topic>.md`.", {"references/a-style.md": ""}, []),
    ("Files are in `references`.", {"references/a-style.md": ""}, []),
    ("The word references alone says nothing.", {"references/a-style.md": ""}, ["references/a-style.md"]),
    ("Run `run-all.py`.", {"run-all.py": "from lib.words_of import x", "lib/words_of.py": ""}, []),
    ("Run `run-all.sh`.", {"run-all.sh": ". ./common-part.sh", "common-part.sh": ""}, []),
    ("Run `run-all.js`.", {"run-all.js": "require('./my-part')", "my-part.js": ""}, []),
    ("Run it.", {"package.json": '{"bin": "bin/start-it.js"}', "bin/start-it.js": ""}, []),
    ("Nothing.", {"LICENSE": "", "README.md": "", "tests/test_x.py": "", "scripts/__init__.py": "",
                  ".gitignore": "", "poetry.lock": "", "agents/openai.yaml": "", "evals/evals.json": "",
                  "parse.test.ts": "", "requirements.txt": ""}, []),
    ("Nothing.", {"license-picker.md": "", "security-rules.md": ""}, ["license-picker.md"]),
    ("---\nlicense: no", {"A-STYLE.md": ""}, ["A-STYLE.md"]),
    ("See a-style.MD.", {"A-Style.md": ""}, []),
]  # fmt: skip


@pytest.mark.parametrize(("body", "files", "expected"), ORPHANS)
def test_files_that_nothing_leads_to(
    lint: Lint, body: str, files: Mapping[str, str], expected: list[str]
) -> None:
    found = [hit for hit in told(lint, body, files) if " orphan-file " in hit]
    assert found == [f"{name}:1:1 orphan-file {name}" for name in expected]


def test_orphans_are_told_once_and_not_where_a_file_was_cut(lint: Lint) -> None:
    files = {f"old/part-{n}.md": "" for n in range(6)}
    ((message, _),) = texts(lint, "Nothing.", files)
    assert message == (
        "neither SKILL.md nor a file that it leads to mentions `old/part-0.md` (also `old/part-1.md`,"
        " `old/part-2.md`, `old/part-3.md` and 2 more); an agent may never look at it"
    )
    assert told(lint, "See [data](data.md).", {**files, "data.md": "x " * 600_000}) == []
    project = {f"src/part-{n}.py": "" for n in range(51)}
    assert told(lint, "Nothing.", project) == []
    assert len(told(lint, "See part-0.", project)) == 1


def test_a_file_behind_another_one(lint: Lint) -> None:
    files = {
        "one-file.md": "[x](two-file.md) [y](three-file.md)",
        "two-file.md": "[x](four-file.md)",
        "three-file.md": "",
        "four-file.md": "",
        "data.json": '"five-file.md"',
        "five-file.md": "",
    }
    assert told(lint, "See [x](one-file.md), `data.json` and three-file.", files) == [
        "one-file.md:1:5 reference-depth two-file.md",
        "two-file.md:1:5 reference-depth four-file.md",
    ]


def test_files_that_each_want_another_first(lint: Lint) -> None:
    def circles(**files: str) -> list[str]:
        found = lint(HEAD + "See `*.md` in `.`", files={f"{name}.md": text for name, text in files.items()})
        return [f"{f.where.line}:{f.where.column} {f.message}" for f in found if f.rule == "reference-cycle"]

    first, before = "Read [x]({}.md) first.", "Well. Before you start, follow [x]({}.md)."
    assert circles(a="Before a, see [b](b.md).", b=first.format("c"), c=before.format("b")) == [
        "1:36 `b.md` -> `c.md` -> `b.md`: each says to read the next one first, which an agent cannot do;"
        " it may read the same files again"
    ]
    assert circles(a="See [b](b.md).", b="Read [a](a.md) first.") == []
    assert circles(a="First sort. Then see [b](b.md).", b="Read [a](a.md) first.") == []
    assert circles(a="Read [s](SKILL.md) first. Read [a](a.md#x) first.") == []
    chain = {f"n{n}": first.format(f"n{n + 1}") for n in range(2_000)}
    assert len(circles(**chain)) == 0
    assert len(circles(**chain, n2000=first.format("n0"))) == 1


CUES = [
    ("## References\n\n- `x-file.md`\n- [y-file.md](y-file.md)\n", ["SKILL.md:7:1"]),
    ("## References\n\n- x-file.md\n", ["SKILL.md:7:1"]),
    ("## References\n\n- `x-file.md`: the style\n- [The style](y-file.md)\n", []),
    ("## References\n\n- `x-file.md`\n  is the style\n", []),
    ("## When a test fails\n\n- `x-file.md`\n", []),
    ("Read these if a test fails:\n\n- `x-file.md`\n- `y-file.md`\n", []),
    ("- If a test fails:\n  - `x-file.md`\n", []),
    ("## References\n\n- `x-file.md`\n\nWhen a test fails, read `x-file.md`. See x-file.md for more.\n", []),
    ("```\n- x-file.md\n- y-file.md\n```\n", []),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), CUES)
def test_files_without_a_word_on_when_to_read_them(lint: Lint, body: str, expected: list[str]) -> None:
    found = told(lint, body, {"x-file.md": "", "y-file.md": ""})
    wanted = [f"{place} reference-without-cue x-file.md" for place in expected]
    assert [hit for hit in found if "cue" in hit] == wanted


SECTIONS = "## Words\n\n## Order\n\n## Tone\n\n## Length\n"
LONG = {
    "blank": ("# Style\n" + "\n" * 300 + SECTIONS, True),
    "short": ("# Style\n" + "\n" * 200 + SECTIONS, False),
    "contents": ("# Style\n\n## Table of contents\n" + "\n" * 300 + SECTIONS, False),
    "anchors": ("# Style\n[a](#words) [b](#order) [c](#tone)\n" + "\n" * 300 + SECTIONS, False),
    "listed": ("# Style\n\n- **Words**: a\n- Order\n- Tone\n" + "\n" * 300 + SECTIONS, False),
    "late contents": ("# Style\n" + "\n" * 300 + "## Contents\n" + SECTIONS, True),
    "few headings": ("# Style\n" + "\n" * 300 + "## Words\n", False),
    "headings in a tilde fence": ("# Style\n~~~\n```\n" + SECTIONS + "~~~\n" + "\n" * 300, False),
    "headings in four ticks": ("# Style\n````md\n```\n" + SECTIONS + "```\n````\n" + "\n" * 300, False),
    "headings after a fence": ("# Style\n````md\n```\n````\n" + SECTIONS + "\n" * 300, True),
}


@pytest.mark.parametrize("name", LONG)
def test_long_files_without_contents(lint: Lint, name: str) -> None:
    text, is_told = LONG[name]
    text += "x\n"
    found = told(lint, "When it is long read [the style](style.md).", {"style.md": text})
    assert found == (["style.md:1:1 long-reference style.md"] if is_told else [])


def test_forms_and_files_that_nothing_leads_to_need_no_contents(lint: Lint) -> None:
    text = LONG["blank"][0]
    assert (
        told(lint, "Fill `assets/form.md`, see README.md.", {"assets/form.md": text, "README.md": text}) == []
    )
    assert [hit.split()[1] for hit in told(lint, "Nothing.", {"my-style.md": text})] == ["orphan-file"]


def cpu_seconds(rules: tuple[Rule, ...], body: str, files: Mapping[str, str]) -> tuple[float, Counter[str]]:
    """Lint with the rules of this file alone."""
    raw = {name: text.encode() for name, text in {"SKILL.md": HEAD + body, **files}.items()}
    started = time.process_time()
    found = lint_skill(parse(Files.from_map(raw), "demo"), [rule for rule in rules if rule.id in RULES])
    return time.process_time() - started, Counter(finding.rule for finding in found)


def test_a_skill_of_3607_files_ends(rules: tuple[Rule, ...]) -> None:
    files = {
        f"references/part-{n % 60}/file-{n}.md": f"# File {n}\n\nSee [next](file-{n + 60}.md).\n"
        for n in range(3_606)
    }
    took, found = cpu_seconds(rules, "See [the first](references/part-0/file-0.md).", files)
    assert took < 5  # no benchmark: five times what it takes, to tell a hang on any machine
    assert found == {"reference-depth": 10, "broken-reference": 60}


HOSTILE = {
    "one word": "a" * 900_000,
    "slashes": "a/" * 400_000,
    "quotes": "`a/" * 300_000,
    "commands": "```\n" + "scripts/" * 100_000 + "\n```\n",
    "spans": "`scripts/a.py` " * 60_000,
    "runs": "`python -u scripts/" * 40_000,
    "bare": "scripts/a " * 60_000 + "scripts/a-" * 60_000,
    "folders": "".join(f"`script{n}/" for n in range(60_000)),
    "links": "](a" * 300_000,
    "open links": "[x](" * 200_000,
    "fences": "```\n~~~\n" * 4_000,
    "headings": "# \n## Contents of it\n" * 4_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_takes_long(name: str, rules: tuple[Rule, ...]) -> None:
    took, _ = cpu_seconds(rules, HOSTILE[name], {"scripts/x.py": "", "style.md": HOSTILE[name]})
    assert took < 5
