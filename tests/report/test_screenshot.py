"""The page of a comment, and the picture in docs/; Chromium itself is not run."""

from __future__ import annotations

import importlib.util
import re
import struct
from pathlib import Path
from types import ModuleType

import pytest

from skillgate.report import markdown

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "comment.png"


@pytest.fixture(scope="module")
def screenshot() -> ModuleType:
    """The script, which is no part of a package."""
    spec = importlib.util.spec_from_file_location("screenshot", ROOT / "benchmarks" / "screenshot.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_holds_the_comment_and_needs_nothing_else(screenshot: ModuleType, samples) -> None:
    html = screenshot.page(markdown.render(samples.several()))
    assert html.count("<details open>") == 1
    assert html.count("<table>") == html.count("</table>") == 7
    assert '<meta charset="utf-8">' in html
    assert "⛔ block: <code>skills/workflow-templates</code>" in html
    assert not re.search(r"<link|<script|<img|url\(|src=", html)


def test_the_picture_in_docs_is_of_the_comment_in_the_readme(screenshot: ModuleType) -> None:
    """`make screenshot` takes it anew."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- demo-comment -->\n(.*?)\n<!-- /demo-comment -->", text, re.DOTALL)
    assert found is not None
    shown = "\n".join(line.removeprefix(">").removeprefix(" ") for line in found[1].split("\n"))
    comment = f"{markdown.marker()}\n{shown}\n\n<details open>"
    assert screenshot.beginning(comment) == shown.strip()
    assert screenshot.seal(PICTURE.read_bytes()) == screenshot.digest(comment)


def test_the_picture_in_docs_fits_a_page(screenshot: ModuleType) -> None:
    png = PICTURE.read_bytes()
    assert len(png) <= screenshot.MAX_BYTES
    kind, header = next(screenshot.chunks(png))
    assert kind == b"IHDR"
    assert struct.unpack(">I", header[:4])[0] == screenshot.WIDTH * screenshot.SCALE


def test_a_picture_keeps_what_it_shows_and_one_seal(screenshot: ModuleType) -> None:
    png = PICTURE.read_bytes()
    again = screenshot.sealed(screenshot.sealed(png, b"one"), b"two")
    assert screenshot.seal(again) == b"two"
    rest = [part for part in screenshot.chunks(png) if part[0] != b"tEXt"]
    assert [part for part in screenshot.chunks(again) if part[0] != b"tEXt"] == rest
    assert screenshot.sealed(again, screenshot.seal(png)) == png


def test_a_missing_browser_is_named(screenshot: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CHROMIUM", raising=False)
    with pytest.raises(SystemExit, match="apt-get install chromium"):
        screenshot.main(["comment.md", "picture.png"])
