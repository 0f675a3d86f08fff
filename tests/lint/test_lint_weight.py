"""What a skill weighs: tokens of its parts, blocks of code, fences that are left open."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

import pytest

from skillgate import tokens
from skillgate.core import Finding
from skillgate.lint.engine import lint_skill
from skillgate.lint.rule import Rule
from skillgate.skill import Files, parse

HEAD = "---\nname: demo\ndescription: Turns notes into prose. Use for notes.\n---\n"
RULES = frozenset({"code-share", "long-code-block", "token-weight", "unclosed-fence"})
Found = Callable[..., tuple[Finding, ...]]


@pytest.fixture
def found(rules: tuple[Rule, ...]) -> Found:
    """Lint with the rules of this file alone."""
    own = [rule for rule in rules if rule.id in RULES]

    def run(text: str, files: Mapping[str, str] | None = None) -> tuple[Finding, ...]:
        raw = {name: content.encode() for name, content in {"SKILL.md": text, **(files or {})}.items()}
        return lint_skill(parse(Files.from_map(raw), "demo"), own)

    return run


@pytest.fixture
def told(found: Found) -> Callable[..., list[str]]:
    """Lint a body; each finding as `file:line severity rule match`."""

    def run(body: str, files: Mapping[str, str] | None = None) -> list[str]:
        return [
            f"{f.where.path.removeprefix('demo/')}:{f.where.line} {f.severity} {f.rule} {f.match}"
            for f in found(HEAD + body, files)
        ]

    return run


def lines(count: int) -> str:
    return "".join(f"{n}. Compare the totals of every region.\n" for n in range(count))


def test_tokens_count_and_not_lines(found: Found) -> None:
    assert found(HEAD + lines(442)) == ()
    (heavy,) = found(HEAD + "# All\n" + lines(442) * 2)
    assert (heavy.where.line, heavy.severity, heavy.match) == (5, "warning", "body")
    assert heavy.message == (
        "the body has 7,959 tokens on 885 lines, heavier than 95 % of published skills; each use pays for it"
        " and may crowd out the task. The heaviest part is \u201cAll\u201d at line 5 with 7,959 tokens."
    )
    (many,) = found(HEAD + "x\n" * 501)
    assert (many.severity, many.message) == (
        "note",
        "the body has 501 lines; the specification advises at most 500",
    )


def test_an_overlong_title_is_cut_and_blank_lines_are_skipped(found: Found) -> None:
    (heavy,) = found(f"{HEAD}\n\n# {'t' * 2_800}\n" + lines(442) * 2)
    assert heavy.where.line == 7
    assert f"The heaviest part is \u201c{'t' * 59}…\u201d at line 7 with" in heavy.message


def test_442_lines_with_6300_tokens(found: Found) -> None:
    body = "".join(f"{n}. Compare the totals of every region of the year, then go on.\n" for n in range(442))
    assert 6_200 < tokens.count(body) < 7_200
    (heavy,) = found(HEAD + body)
    assert (heavy.rule, heavy.severity) == ("token-weight", "warning")
    assert " tokens on 442 lines, heavier than 95 %" in heavy.message


@pytest.mark.parametrize(("words", "percent"), [(5_001, 95), (9_053, 95), (9_054, 99), (66_000, 99)])
def test_a_body_is_compared_with_published_ones(found: Found, words: int, percent: int) -> None:
    body = " ".join(["word"] * words)
    assert tokens.count(body) == words
    (heavy,) = found(HEAD + body)
    assert f"the body has {words:,} tokens on 1 lines, heavier than {percent} % of" in heavy.message


def test_the_listing_text(found: Found) -> None:
    text = "---\nname: demo\ndescription: {}\n---\n# Demo\n"
    assert found(text.format("word " * 186)) == ()
    (heavy,) = found(text.format("word " * 200))
    assert (heavy.where.line, heavy.where.column, heavy.severity, heavy.match) == (3, 14, "note", "listing")
    assert heavy.message.startswith("name and description have 202 tokens, more than 99 % of")


def test_files_beside_the_instructions(found: Found) -> None:
    files = {
        f"{name}.md": "a few more words " * count
        for name, count in zip("abc", (2400, 3000, 2600), strict=True)
    }
    assert found(HEAD, {**files, "b.md": "", "c.md": "", "data.json": "a few more words " * 9_000}) == ()
    (heavy,) = found(HEAD, files)
    assert (heavy.where.path, heavy.severity, heavy.match) == ("demo/b.md", "note", "b.md")
    assert heavy.message == (
        "`b.md` has 12,001 tokens, heavier than 99 % of the files beside published SKILL.md (also `c.md`);"
        " who reads it pays for all of it"
    )


FENCES = [
    ("```\nx\n```\n\n~~~\ny\n~~~\n", []),
    ("```bash\nmake\n\n## Then\n", ["SKILL.md:5 warning unclosed-fence ```"]),
    ("~~~\nmake\n```\n\nThen\n", ["SKILL.md:5 warning unclosed-fence ~~~"]),
    ("````\n```\nx\n````\n", []),
    ("````\nx\n```\n\nThen\n", ["SKILL.md:5 warning unclosed-fence ````"]),
    ("```markdown\n```js\nx\n```\n```\n\nThen\n", ["SKILL.md:9 warning unclosed-fence ```"]),
    ("```\nx\n```\n```\n", ["SKILL.md:8 warning unclosed-fence ```"]),
    ("1. One\n   ```\n   x\n   ```\n2. Two\n\n       ```\n       y\n       ```\n", []),
    ("1. ```bash\n   make\n   ```\n2. Two\n\n- ~~~\n  x\n  ~~~\n", []),
    ("1. ```bash\n   make\n\nThen\n", ["SKILL.md:5 warning unclosed-fence ```"]),
    ("> ```\n> x\n> ```\n\nThen\n", []),
    ("Use ``` for code, `~~~` too.\n\n```` ``` ````\n\n``` x ```\n", []),
    ("```\n    ```\n    nested\n    ```\n```\n\nThen\n", []),
    ("<good>\n```\nx\n```\n</good>\n\nThen\n", []),
    ("```\r\nx\r\n```\r\n", []),
    ("", []),
]


@pytest.mark.parametrize(("body", "expected"), FENCES)
def test_fences_that_are_left_open(told: Callable[..., list[str]], body: str, expected: list[str]) -> None:
    assert told(body) == expected
    assert told("", {"a.md": HEAD + body}) == [line.replace("SKILL.md", "a.md") for line in expected]


def test_what_follows_an_open_fence_is_counted(found: Found) -> None:
    assert [f.message.partition(";")[0] for f in found(HEAD + "```\nmake\n\nThen\n\n")] == [
        "this fence is never closed"
    ]
    assert "the 3 lines after it" in found(HEAD + "```\nmake\n\nThen\n\n")[0].message
    assert found(HEAD + "```\n")[0].message.startswith("this fence opens a block that nothing follows")


def block(count: int, first: str = "x = 0") -> str:
    return f"```python\n{first}\n" + "y = 1\n" * (count - 1) + "```\n\n"


def test_long_blocks(told: Callable[..., list[str]], found: Found) -> None:
    prose = "Some words.\n\n" * 30
    assert told(block(100) + prose) == []
    assert told(block(101) + prose) == ["SKILL.md:5 note long-code-block x = 0"]
    assert told(block(101, "# a/b.py") + prose) == []
    (longest,) = found(HEAD + block(101) + prose + block(120, "z = 1") + block(102) + prose)
    assert (longest.match, longest.where.line) == ("z = 1", 169)
    assert longest.message.startswith("this code block has 120 lines (and 2 more like it); every use")


def test_the_share_of_code(told: Callable[..., list[str]], found: Found) -> None:
    assert told("x\n" * 12 + block(46)) == ["SKILL.md:17 note code-share code"]
    assert told("x\n" * 14 + block(46)) == []
    assert told("x\n" + block(30)) == []
    (most,) = found(HEAD + "x\n" * 12 + block(46))
    assert most.message == "80 % of the body is code; in 95 % of published skills it is at most 79 %"


def test_a_small_skill_loads_no_tokenizer() -> None:
    code = (
        "import sys\nfrom skillgate.lint.checks.weight import TokenLimits\n"
        "from skillgate.skill import Files, parse\n"
        "text = b'---\\nname: x\\ndescription: y\\n---\\n' + b'word ' * 990\n"
        "files = {'SKILL.md': text, 'a.md': b'word ' * 4_700}\n"
        "hits = list(TokenLimits()(parse(Files.from_map(files), 'x'), ()))\n"
        "print(hits, 'tiktoken' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] False\n"


LINE = "Compare the totals of every region of the year, then write down what is new and what it means.\n"
HUGE = {
    "67,200 tokens on 3,200 lines": (LINE * 3_200, {}),
    "files of a megabyte": ("x\n", {f"{n}.md": "a" * 1_000_000 for n in range(15)}),
    "files of many words": ("x\n", {f"{n}.md": "some words " * 90_000 for n in range(15)}),
    "noise": (random.Random(1).randbytes(400_000).hex(), {}),
    "fences": ("```\n" * 9_000, {"a.md": "```\n~~~\n" * 100_000}),
    "ticks": ("`" * 900_000, {"a.md": "x\n" + "`" * 900_000}),
}  # fmt: skip


@pytest.mark.parametrize("name", HUGE)
def test_no_skill_takes_long(name: str, found: Found) -> None:
    body, files = HUGE[name]
    started = time.process_time()
    found(HEAD + body, files)
    assert time.process_time() - started < 8  # no benchmark: to tell a hang on any machine
