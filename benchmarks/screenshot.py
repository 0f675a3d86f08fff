"""The comment of the demo as GitHub would show it: an HTML page, and a picture of its beginning.

    python benchmarks/screenshot.py skillgate-demo/comment.md docs/comment.png

needs Chromium (Debian: `apt-get install chromium fonts-noto-color-emoji`); CHROMIUM names another one.
The picture holds the digest of the comment's beginning, so that a test can tell when README.md shows another.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import cmarkgfm

WIDTH, MAX_HEIGHT, SCALE = 920, 1000, 1
MAX_BYTES = 250_000
KEYWORD = b"skillgate-comment"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
MISSING = """\
Chromium is missing. On Debian or Ubuntu: apt-get install chromium fonts-noto-color-emoji
Elsewhere: set CHROMIUM to the path of a Chromium or Chrome."""

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_STYLE = """\
* { box-sizing: border-box; }
body { margin: 0; padding: 16px; background: #fff; color: #1f2328; line-height: 1.5;
  font: 14px/1.5 -apple-system, "Segoe UI", "Noto Sans", "Liberation Sans", Helvetica, Arial, sans-serif,
  "Noto Color Emoji"; }
.comment { border: 1px solid #d1d9e0; border-radius: 6px; }
.author { padding: 8px 16px; background: #f6f8fa; border-bottom: 1px solid #d1d9e0; color: #59636e;
  border-radius: 6px 6px 0 0; }
.author b { color: #1f2328; }
.author span { border: 1px solid #d1d9e0; border-radius: 2em; padding: 0 7px; font-size: 12px; }
.body { padding: 16px; overflow-wrap: break-word; }
.body > :first-child { margin-top: 0; }
.body > :last-child { margin-bottom: 0; }
h3 { font-size: 17.5px; margin: 24px 0 16px; line-height: 1.35; }
h4 { font-size: 14px; margin: 24px 0 16px; line-height: 1.25; }
p, ul, table, details, pre { margin: 0 0 16px; }
ul { padding-left: 2em; }
li + li { margin-top: .25em; }
table { border-collapse: collapse; display: block; width: max-content; max-width: 100%; overflow: auto; }
th, td { border: 1px solid #d1d9e0; padding: 6px 13px; }
tr:nth-child(2n) td { background: #f6f8fa; }
code { font: 85% ui-monospace, "DejaVu Sans Mono", "Liberation Mono", monospace; padding: .2em .4em;
  background: #eff1f3; border-radius: 6px; white-space: break-spaces; }
pre { background: #f6f8fa; border-radius: 6px; padding: 16px; overflow: auto; }
pre code { background: none; padding: 0; white-space: pre; }
hr { border: 0; height: 4px; background: #d1d9e0; margin: 24px 0; }
sub { font-size: 75%; line-height: 0; }
summary { cursor: pointer; }
a { color: #0969da; text-decoration: none; }
"""
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>A comment of skillgate</title>
<style>
{style}</style>
<div class="comment">
<div class="author"><b>github-actions</b> <span>bot</span> commented now</div>
<div class="body">
{body}</div>
</div>
</html>
"""


def page(comment: str) -> str:
    """Return a whole HTML page that shows a comment as GitHub would."""
    body = cmarkgfm.github_flavored_markdown_to_html(comment, options=cmarkgfm.cmark.Options.CMARK_OPT_UNSAFE)
    return _PAGE.format(style=_STYLE, body=body)


def beginning(comment: str) -> str:
    """Return what README.md shows of a comment: from its first visible line to the first fold."""
    return comment.partition("<details")[0].partition("\n")[2].strip()


def digest(comment: str) -> bytes:
    """Identify the beginning of a comment."""
    return hashlib.sha256(beginning(comment).encode()).hexdigest().encode()


def chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Give kind and data of each part of a PNG file."""
    if not png.startswith(_SIGNATURE):
        raise ValueError("not a PNG file")
    at = len(_SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += length + 12


def sealed(png: bytes, text: bytes) -> bytes:
    """Return the picture with a text of our own in it."""
    kept = [(kind, data) for kind, data in chunks(png) if kind != b"tEXt"]
    parts = [kept[0], (b"tEXt", KEYWORD + b"\0" + text), *kept[1:]]
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


def seal(png: bytes) -> bytes:
    """Return the text that `sealed` put in, empty where there is none."""
    found = (data.split(b"\0", 1) for kind, data in chunks(png) if kind == b"tEXt")
    return next((text for keyword, text in found if keyword == KEYWORD), b"")


def photograph(html: str, chromium: str) -> bytes:
    """Return a PNG of a page, as high as the page is."""
    with tempfile.TemporaryDirectory() as scratch:
        source, picture = Path(scratch, "page.html"), Path(scratch, "page.png")
        source.write_text(html, encoding="utf-8")
        measured = _run(chromium, scratch, MAX_HEIGHT, "--dump-dom", _with_ruler(source))
        height = re.search(r'data-height="(\d+)"', measured)
        if height is None:
            sys.exit("Chromium did not draw the page.")
        _run(chromium, scratch, min(int(height[1]), MAX_HEIGHT), f"--screenshot={picture}", source)
        return picture.read_bytes()


def _with_ruler(source: Path) -> Path:
    measured = source.with_name("measured.html")
    ruler = "document.body.dataset.height = Math.ceil(document.body.getBoundingClientRect().height)"
    html = f"{source.read_text(encoding='utf-8')}<script>{ruler}</script>"
    measured.write_text(html, encoding="utf-8")
    return measured


def _run(chromium: str, scratch: str, height: int, what: str, source: Path) -> str:
    command = [
        *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-lcd-text"),
        *("--disable-background-networking", "--no-first-run", f"--user-data-dir={scratch}/profile"),
        *(f"--force-device-scale-factor={SCALE}", f"--window-size={WIDTH},{height}", what, source.as_uri()),
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def main(arguments: list[str]) -> None:
    """Write the picture of a comment."""
    comment_path, picture_path = map(Path, arguments)
    chromium = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if chromium is None:
        sys.exit(MISSING)
    comment = comment_path.read_text(encoding="utf-8")
    png = sealed(photograph(page(comment), chromium), digest(comment))
    if len(png) > MAX_BYTES:
        sys.exit(f"The picture has {len(png):,} bytes; {MAX_BYTES:,} are the most.")
    picture_path.write_bytes(png)
    print(f"{picture_path}: {len(png):,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
