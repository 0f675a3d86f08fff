"""The body: slices, code blocks with the file each names, links, and bounded time on hostile text."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from skillgate.skill import MAX_LINES, Facts, Files, Skill, parse

HEAD = "---\nname: demo\ndescription: Turns notes into prose.\n---\n"


def make(body: str, others: Mapping[str, bytes] | None = None) -> Skill:
    return parse(Files.from_map({"SKILL.md": (HEAD + body).encode(), **(others or {})}), "demo")


def test_slices_end_where_the_next_begins_and_skip_headings_in_fences() -> None:
    skill = make(
        "intro\n\n# One\n\n~~~~\n# not a heading\n```\n## nor this\n~~~~\n\nTwo\n---\n> # quoted\n\ntext"
    )
    assert [(s.title, s.level, s.line, s.end_line) for s in skill.slices] == [
        ("One", 1, 7, 14),
        ("Two", 2, 15, 19),
    ]


BLOCKS = [
    ("```yaml\n# .github/workflows/ci.yml\non: push\n```", ".github/workflows/ci.yml", 6),
    ("```ts\n// src/app.ts\n```", "src/app.ts", 6),
    ("```sql\n-- models/a.sql\n```", "models/a.sql", 6),
    ("```html\n<!-- web/index.html -->\n```", "web/index.html", 6),
    ("```css\n/* src/a.css */\n```", "src/a.css", 6),
    ("```bash\n#!/bin/sh\n# bin/run.sh\n```", "bin/run.sh", 7),
    ("```python\n# File: tools/x.py\n```", "tools/x.py", 6),
    ('```python title="app/main.py"\nx\n```', "app/main.py", 5),
    ("```js filename=a/b.js\nx\n```", "a/b.js", 5),
    ("```yaml:deploy/k8s.yaml\nx\n```", "deploy/k8s.yaml", 5),
    ("```ts src/index.ts\nx\n```", "src/index.ts", 5),
    ("### `ci/test.yml`\n\n```yaml\nx\n```", "ci/test.yml", 5),
    ("### Dockerfile in `docker/Dockerfile`\n```dockerfile\nFROM x\n```", "docker/Dockerfile", 5),
    ("text\nCreate `ci/test.yml` with:\n\n```yaml\nx\n```", "ci/test.yml", 6),
    ("**`src/a.rs`**\n```rust\nx\n```", "src/a.rs", 5),
    ("Put this in src/lib/a.py:\n```py\nx\n```", "src/lib/a.py", 5),
    ("1. Save `ci/test.yml`:\n\n   ```yml\n   x\n   ```", "ci/test.yml", 5),
    ("text\n\n    # ci/test.yml\n    on: push", "ci/test.yml", 7),
    ("Create `<folder>/test.yml`:\n```yaml\nx\n```", "<folder>/test.yml", 5),
    ("Run `scripts/x.py`:\n```bash\npython scripts/x.py\n```", None, 0),
    ("## With Next.js\n```js\nx\n```", None, 0),
    ("```js\n// Next.js\n```", None, 0),
    ("See `ci/test.yml` for more.\n```yaml\nx\n```", None, 0),
    ("```yaml\nname: x\n# ci/test.yml\n```", None, 0),
    ("```bash\n# install the tools\nmake\n```", None, 0),
    ("```\nplain\n```", None, 0),
]


@pytest.mark.parametrize(("body", "path", "line"), BLOCKS)
def test_a_code_block_names_its_file(body: str, path: str | None, line: int) -> None:
    (block,) = make(body).code_blocks
    assert (block.path, block.path_line) == (path, line)


def test_blocks_keep_language_content_and_lines() -> None:
    skill = make("~~~~ yaml\na: 1\n```\nb\n~~~~\ntext\n```\nunclosed\n")
    found = [(b.language, b.content, b.line, b.end_line) for b in skill.code_blocks]
    assert found == [("yaml", "a: 1\n```\nb\n", 5, 9), ("", "unclosed\n", 11, 12)]
    assert skill.prose == ((10, "text"), (13, ""))


def test_links_have_the_place_of_their_target() -> None:
    skill = make(
        "\tcode [no](no.md)\n\n"
        "- é [a.md](a.md) and ![image](b%20c.png 'title')\n"
        "  [d](<d e.md>) [x][ref] <https://example.org>\n\n"
        "`[span](no.md)`\n\n```\n[fence](no.md)\n```\n\n[ref]: f.md\n"
    )
    found = [(link.target, link.where.line, link.where.column) for link in skill.links]
    assert found == [("a.md", 7, 12), ("b c.png", 7, 31), ("d e.md", 8, 8), ("f.md", 16, 8)]


def test_without_frontmatter_all_is_body() -> None:
    skill = parse(Files.from_map({"SKILL.md": b"# A\n\n[x](y.md)\n"}), "demo")
    assert (skill.body_line, [s.line for s in skill.slices], [link.where.line for link in skill.links]) == (
        1,
        [1],
        [3],
    )


def test_text_files_are_read_and_programs_are_not() -> None:
    others = {"run.sh": b"x", "tool": b"\x7fELF\0", "README": b"y", "a.png": b"png", "z.MD": b"z"}
    assert [source.path for source in make("", others).sources] == [
        "demo/SKILL.md", "demo/README", "demo/run.sh", "demo/z.MD"
    ]  # fmt: skip


def test_a_file_that_cannot_be_read_is_a_fact(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").symlink_to(tmp_path / "gone.md")
    skill = parse(Files.from_folder(tmp_path), ".")
    assert (skill.text, skill.facts) == ("", Facts(unreadable="No such file or directory"))
    assert skill.file == "SKILL.md"


def test_an_overlong_file_is_cut_and_says_so() -> None:
    assert make("x" * 2_000_000).facts == Facts(truncated=True)
    assert len(make("x" * 2_000_000).text) == 1_000_000
    many = make("\u2028x\n" * MAX_LINES)
    assert (many.facts, len(many.source.lines)) == (Facts(truncated=True), MAX_LINES + 1)
    euro = parse(Files.from_map({"SKILL.md": "€".encode() * 400_000}), "demo")
    assert (euro.facts.encoding, len(euro.text)) == ("utf-8", 333_333)


HOSTILE = {
    "brackets": "[" * 300_000,
    "links": "[a](b)\n\n" * 50_000,
    "quotes": ">" * 300_000,
    "lists": "- " * 200_000,
    "deep list": "".join(" " * depth + "- a\n" for depth in range(800)),
    "ticks": "".join("`" * n + " " for n in range(700)),
    "definitions": "".join(f"[a{n}]: b{n}\n" for n in range(20_000)),
    "path": "```\n# " + "a/" * 200_000 + "\n```\n",
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_takes_bounded_time(body: str) -> None:
    start = time.process_time()
    skill = make(body)
    assert (len(skill.links), len(skill.code_blocks), len(skill.slices)) >= (0, 0, 0)
    assert (
        time.process_time() - start < 3
    )  # a third of it on an idle machine; quadratic time would be minutes
