"""Each way of making text harmless."""

from __future__ import annotations

import cmarkgfm
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillgate.report.escape import clean, code, fenced, html_code, last_lines, prose, row

NASTY = st.text(st.sampled_from("`|\\<>[]()!@#$&*_~:w.h 1a\n\t\u200b\u202e"), max_size=60)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("  a \t b\r\nc ", "a b c"),
        ("a\u200bb\u202ec\u2066d\ufeffe\u00adf", "abcdef"),
        ("a\x00b\x1b[31mc\x7fd", "ab[31mcd"),
        ("\ud83d half", "\ufffd half"),
        ("naïve 漢字 🙂", "naïve 漢字 🙂"),
        ("", ""),
    ],
)
def test_clean(text: str, expected: str) -> None:
    assert clean(text) == expected


def test_clean_caps_the_length() -> None:
    assert clean("x" * 30, 10) == "x" * 9 + "…"
    assert clean("x" * 10, 10) == "x" * 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", "`a`"),
        ("a`b", "``a`b``"),
        ("`a", "`` `a ``"),
        ("a```b`", "```` a```b` ````"),
        ("", "`(empty)`"),
        ("\u200b", "`(empty)`"),
    ],
)
def test_code(text: str, expected: str) -> None:
    assert code(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a *b* _c_ <d> [e](f)", "a \\*b\\* \\_c\\_ \\<d\\> \\[e\\](f)"),
        ("use `ci/x.yml`, not `y`", "use `ci/x.yml`, not `y`"),
        ("`a``b`", "`a` `b`"),
        ("one ` tick", "one \\` tick"),
        ("ask @octocat", "ask `@octocat`"),
        ("see https://evil.example.", "see `https://evil.example.`"),
        ("for $2.50", "for \\$2.50"),
        ("- x", "\\- x"),
        ("12. x", "12\\. x"),
        ("# x", "\\# x"),
        ("-22.5 points", "\\-22.5 points"),
    ],
)
def test_prose(text: str, expected: str) -> None:
    assert prose(text) == expected


@given(NASTY)
def test_prose_and_code_render_as_their_text(text: str) -> None:
    """Whatever it is: one paragraph of plain words and code, with every character still there."""
    for shown in (prose(text), code(text)):
        html = cmarkgfm.github_flavored_markdown_to_html(f"x {shown} y").strip()
        inner = html.removeprefix("<p>x ").removesuffix(" y</p>")
        assert inner.replace("<code>", "").replace("</code>", "").count("<") == 0
        assert "href" not in inner or "href" in text


@given(NASTY, NASTY)
def test_a_row_has_as_many_cells_as_given(first: str, second: str) -> None:
    table = "\n".join([row("a", "b"), "|---|---|", row(code(first), prose(second))])
    html = cmarkgfm.github_flavored_markdown_to_html(table)
    assert html.count("<td>") == 2
    assert html.count("<tr>") == 2


@given(NASTY)
def test_a_fence_holds_everything(text: str) -> None:
    html = cmarkgfm.github_flavored_markdown_to_html(f"{fenced(text)}\n\nafter")
    assert html.count("<pre") == 1
    assert html.endswith("<p>after</p>\n")


def test_last_lines_keeps_the_end() -> None:
    text = "\n".join(f"line {n}" for n in range(20)) + "\n\n"
    assert last_lines(text, limit=2) == ["… (18 more lines above)", "line 18", "line 19"]
    assert last_lines("  a\tb\r\n\x1b[1mc\n") == ["  a b", "[1mc"]
    assert last_lines("") == []


def test_html_code_escapes() -> None:
    assert (
        html_code('</code><a href="x">\n\n# h')
        == "<code>&lt;/code&gt;&lt;a href=&quot;x&quot;&gt; # h</code>"
    )
