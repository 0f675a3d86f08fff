"""Untrusted text -> text that is only ever read, never obeyed, by a terminal or by GitHub.

Skill names, paths, task ids, findings, grader output and reasons are written by the pull
request or by a model. Whatever shows them goes through here: nothing invisible is left, and
in Markdown no HTML, link, image, mention, heading or table break can come of it.
"""

from __future__ import annotations

import html
import re
import unicodedata

CUT = "…"
_FILLERS = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U00016fe4\U0001d159\U000e0000-\U000e0fff"
)
_ZERO_WIDTH = re.compile(f"[{_FILLERS}]")
MAX_MARKS = 4  # on one letter; more of them draw over the lines above and below
MAX_BACKTICKS = 40  # in a row; GitHub takes a fence of more than 80 for plain text, and reads what is inside
_ACTIVE = re.compile(r"[\\`*_\[\]<>|~&$#]")
_OPENS_BLOCK = re.compile(r"^([-+=]|\d+(?=[.)]))")
# What GitHub links by itself even after a backslash: mentions, issues, commits, advisories, URLs, mail; and
# what it turns into a formula or an emoji. `$` before a digit is money.
_LINKS_ITSELF = re.compile(
    r"@|#\d|://|www\.|gh-\d|(?:ghsa|cve)-|(?<![0-9a-z])[0-9a-f]{7,40}(?![0-9a-z])|:[\w+-]+:|\$(?!\d)",
    re.IGNORECASE,
)
_COMMAND = re.compile(r"^\s*::|##\[", re.MULTILINE)  # what a runner of GitHub takes for one, in any log


def clean(text: str, limit: int = 500) -> str:
    """Make one visible line: no control, bidi or zero-width character, at most `limit` long."""
    return _clip(" ".join(_visible(text[: 8 * limit]).split()), limit)


def code(text: str, limit: int = 160) -> str:
    """Show text as a Markdown code span; its fence is longer than any run of backticks inside."""
    content = _short_runs(clean(text, limit)) or "(empty)"
    fence = "`" * (_longest_run(content) + 1)
    pad = " " if content.startswith("`") or content.endswith("`") else ""
    return f"{fence}{pad}{content}{pad}{fence}"


def prose(text: str, limit: int = 500) -> str:
    """Show text as plain Markdown words; `quoted` parts, and what links itself, become code."""
    parts = re.split(r"`([^`]+)`", clean(text, limit))
    pieces = [code(part, limit) if index % 2 else _words(part) for index, part in enumerate(parts)]
    return _OPENS_BLOCK.sub(_escape_opening, _join(pieces))


def no_commands(text: str) -> str:
    """Break up in a printed text what the runner of a job would take for one of its commands."""
    return _COMMAND.sub(lambda found: f"{found[0][:-1]} {found[0][-1]}", text)


def last_lines(text: str, limit: int = 12, width: int = 160) -> list[str]:
    """Return the end of a program's output, where the error is, as visible lines."""
    lines = [_clip(_visible(line.expandtabs(4)).rstrip(), width) for line in text[-20_000:].splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    above = len(lines) - limit
    return [f"{CUT} ({above} more lines above)", *lines[-limit:]] if above > 0 else lines


def fenced(text: str) -> str:
    """Show the end of a program's output as a code block."""
    body = _short_runs("\n".join(last_lines(text)))
    fence = "`" * max(3, _longest_run(body) + 1)
    return f"{fence}text\n{body}\n{fence}"


def html_code(text: str, limit: int = 160) -> str:
    """Show text as code where Markdown is not read: inside an HTML line of our own."""
    return f"<code>{html.escape(clean(text, limit))}</code>"


def row(*cells: str) -> str:
    """Join cells that are Markdown already; a pipe inside a cell could break the table."""
    return "| " + " | ".join(cell.replace("\\|", "|").replace("|", "¦") for cell in cells) + " |"


def _visible(text: str) -> str:
    shown, marks = "", 0
    for character in _ZERO_WIDTH.sub("", text):
        piece = _show(character)
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        shown += piece if marks <= MAX_MARKS else ""
    return shown


def _show(character: str) -> str:
    match unicodedata.category(character):
        case "Cc" | "Cf":
            return " " if character.isspace() else ""
        case "Cs":
            return "\ufffd"
        case _:
            return character


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + CUT


def _short_runs(text: str) -> str:
    return re.sub(f"`{{{MAX_BACKTICKS},}}", "`" * (MAX_BACKTICKS - 1) + CUT, text)


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _words(text: str) -> str:
    words = re.split(r"(\s+)", text)
    return _join(
        [code(word) if _LINKS_ITSELF.search(word) else _ACTIVE.sub(r"\\\g<0>", word) for word in words]
    )


def _join(pieces: list[str]) -> str:
    """Concatenate; two code spans that touched would be read as one."""
    joined = ""
    for piece in pieces:
        joined += " " + piece if joined.endswith("`") and piece.startswith("`") else piece
    return joined


def _escape_opening(match: re.Match[str]) -> str:
    opening = match[0]
    return f"\\{opening}" if not opening.isdigit() else f"{opening}\\"
