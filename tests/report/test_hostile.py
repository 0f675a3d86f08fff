"""Nothing that comes from a skill, a model, a test or a pull request does more than to be read."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillgate.core import GateReport
from skillgate.report import annotations, calibration, escape, findings, markdown, text
from tests.report import samples
from tests.report.hostile import (
    CORPUS,
    PLACES,
    Page,
    empty_places,
    everywhere,
    log_lines,
    poison,
    runs_command,
)

BLOB = "https://github.example/acme/skills/blob/9c0d1e2f"
FULL = "https://github.example/acme/skills/actions/runs/1"
LINKS = markdown.Links(blob_url=BLOB, report_url=FULL)
GITHUB_LIMIT = 65_536
HARMLESS = "words"
_MAX_MARKS = 4

EVERYWHERE = everywhere()
each_string = pytest.mark.parametrize("hostile", CORPUS.values(), ids=CORPUS)


@cache
def harmless_page(place: str) -> Page:
    """The same report with harmless words where the hostile ones would be."""
    return Page(markdown.render(poison(EVERYWHERE, HARMLESS, place), links=LINKS))


def check_comment(hostile: str, place: str) -> None:
    shown = markdown.render(poison(EVERYWHERE, hostile, place), links=LINKS)
    page, plain = Page(shown), harmless_page(place)
    assert [*page.references()] == []
    assert page.strays == []
    assert page.comments == [" skillgate:report:v1 id=default "]
    assert [line for line in shown.split("\n") if line.startswith("<!--")] == [markdown.marker()]
    assert page.attributes <= {"align", "class", "href", "lang", "open"}
    assert all(link == FULL or link.startswith(f"{BLOB}/") for link in page.links)
    assert not any(".." in link.split("/") for link in page.links)
    check_structure(page.tags, plain.tags, is_whole=" cut to stay under " not in shown)
    assert len(shown) < GITHUB_LIMIT
    check_visible(shown)


def check_structure(found: Counter[str], plain: Counter[str], is_whole: bool) -> None:
    """The same headings, tables, rows, cells and folds; fewer lines of lists where some were cut."""
    mine = {tag: n for tag, n in found.items() if tag not in ("code", "a")}
    due = {tag: n for tag, n in plain.items() if tag not in ("code", "a")}
    if not is_whole:
        lists = ("p", "li", "ul", "br", "em", "strong", "pre")
        mine, due = ({tag: n for tag, n in tags.items() if tag not in lists} for tags in (mine, due))
    assert mine == due


def check_visible(shown: str) -> None:
    """No character that is not seen, or that draws over others."""
    shown = shown.replace("⚠️", "")  # our own sign has a variation selector
    unseen = {c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - {"\n"}
    assert {hex(ord(c)) for c in unseen | set(CORPUS["fillers"]) & set(shown)} == set()
    marks = "".join("m" if unicodedata.category(c) in ("Mn", "Me") else "." for c in shown)
    assert max(map(len, re.findall("m+", marks)), default=0) <= _MAX_MARKS


def check_terminal(hostile: str, place: str) -> None:
    shown = text.render(poison(EVERYWHERE, hostile, place), width=60)
    check_visible(shown)
    assert [line for line in log_lines(shown) if runs_command(line)] == []


def check_annotations(hostile: str, place: str) -> None:
    """As many commands as findings, each with the properties that we gave it."""
    report = poison(EVERYWHERE, hostile, place)
    shown = annotations.render([f for one in report.reports for f in one.findings])
    check_visible(shown)
    lines = log_lines(shown)
    assert lines.pop() == ""
    assert len(lines) == 6
    for line in lines:
        command, _, _ = line.removeprefix("::").partition("::")
        name, _, properties = command.partition(" ")
        assert name in ("error", "warning", "notice")
        assert [pair.split("=")[0] for pair in properties.split(",")] == ["file", "line", "col", "title"]


CHECKS: dict[str, Callable[[str, str], None]] = {
    "comment": check_comment,
    "terminal": check_terminal,
    "annotations": check_annotations,
}


def test_the_corpus_is_large_and_without_doubles() -> None:
    assert len(set(CORPUS.values())) == len(CORPUS) >= 60


def test_every_place_for_foreign_text_is_filled() -> None:
    assert empty_places(EVERYWHERE) == set()


def test_the_harmless_report_is_shown_whole() -> None:
    """Nothing is cut, so that hostile text has every place to break out of."""
    shown = markdown.render(poison(EVERYWHERE, HARMLESS, "after"), links=LINKS)
    assert " cut to stay under " not in shown
    tags = Page(shown).tags
    assert (tags["details"], tags["h3"], tags["table"], tags["pre"]) == (2, 1, 5, 2)


@each_string
@pytest.mark.parametrize("place", PLACES)
def test_a_comment_shows_text_as_text(hostile: str, place: str) -> None:
    check_comment(hostile, place)
    check_annotations(hostile, place)


@each_string
def test_a_terminal_and_a_log_show_text_as_text(hostile: str) -> None:
    check_terminal(hostile, "before")


@each_string
def test_what_lint_and_calibrate_print_runs_no_command(hostile: str) -> None:
    report = poison(EVERYWHERE, hostile, "before").reports[0]
    sources = {finding.where.path: f"{hostile}\n" * 200 for finding in report.findings}
    shown = findings.render_text(report.findings, sources)
    assert report.calibration is not None
    shown += calibration.render(report.calibration)
    assert [line for line in log_lines(shown) if runs_command(line)] == []
    assert {hex(ord(c)) for c in shown if unicodedata.category(c) in ("Cc", "Cs")} <= {"0xa"}


@each_string
def test_one_skill_alone_stays_as_it_is(hostile: str) -> None:
    """Without a fold: reasons, notes and sections stand in the comment itself."""
    alone = poison(_alone(), hostile, "before")
    page, plain = (Page(markdown.render(one)) for one in (alone, poison(_alone(), HARMLESS, "before")))
    assert [*page.references()] == page.strays == page.links == []
    assert {**page.tags, "code": 0} == {**plain.tags, "code": 0}


def _alone() -> GateReport:
    (first, *_) = EVERYWHERE.reports
    return samples.gate(first)


PIECES = st.lists(
    st.sampled_from([*CORPUS.values()]).flatmap(
        lambda one: st.tuples(st.integers(0, min(len(one), 60)), st.integers(1, 120)).map(
            lambda cut: one[cut[0] : cut[0] + cut[1]]
        )
    )
    | st.text(max_size=8)
    | st.sampled_from(["`", "\n", "|", "@", "#", "<", "\\", "$", ":", "\u200b", " "]),
    min_size=1,
    max_size=6,
)
SPLICED = PIECES.map("".join).filter(escape.clean)  # an empty hint, say, has no line of its own


@given(SPLICED, st.sampled_from([*PLACES]), st.sampled_from([*CHECKS]))
@settings(max_examples=100, deadline=None)
def test_spliced_text_stays_text(hostile: str, place: str, check: str) -> None:
    CHECKS[check](hostile, place)


# --- the checks can fail -----------------------------------------------------------


def _without(pattern: str) -> Any:
    """Return the pattern of what links itself with one part taken out."""
    whole = escape._LINKS_ITSELF
    assert pattern in whole.pattern
    return re.compile(whole.pattern.replace(pattern, "(?!)"), whole.flags)


def _only(signs: str) -> re.Pattern[str]:
    """Return the pattern of what is escaped without some signs."""
    return re.compile(f"[{re.escape(''.join(c for c in chr(92) + '`*_[]<>|~&$#' if c not in signs))}]")


WEAKER: dict[str, tuple[str, Any, str]] = {
    "mentions": ("_LINKS_ITSELF", _without("@"), "mention"),
    "issues": ("_LINKS_ITSELF", _without(r"#\d"), "issue"),
    "issues-by-name": ("_LINKS_ITSELF", _without(r"gh-\d"), "issue-gh"),
    "advisories": ("_LINKS_ITSELF", _without("(?:ghsa|cve)-"), "advisory"),
    "addresses": ("_LINKS_ITSELF", _without("://"), "url"),
    "bare-addresses": ("_LINKS_ITSELF", _without(r"www\."), "www"),
    "commits": ("_LINKS_ITSELF", _without("[0-9a-f]{7,40}"), "commit"),
    "emoji": ("_LINKS_ITSELF", _without(r":[\w+-]+:"), "emoji"),
    "formulas": ("_LINKS_ITSELF", _without(r"\$(?!\d)"), "math"),
    "backslashes": ("_ACTIVE", _only("\\"), "link-escaped"),
    "lone-backticks": ("_ACTIVE", _only("`"), "mention-glued"),
    "emphasis": ("_ACTIVE", _only("*_~"), "emphasis"),
    "links": ("_ACTIVE", _only("[]"), "link-relative"),
    "tags": ("_ACTIVE", _only("<>"), "details-close"),
    "entities": ("_ACTIVE", _only("&"), "entity"),
    "openings": ("_OPENS_BLOCK", re.compile("(?!)"), "list"),
    "short-fences": ("_longest_run", lambda text: 0, "backticks"),
    "long-fences": ("MAX_BACKTICKS", 10_000, "backticks-90"),
    "touching-code": ("_join", "".join, "backtick-last"),
    "zero-width": ("_ZERO_WIDTH", re.compile("(?!)"), "fillers"),
    "controls": ("_show", lambda character: character, "ansi"),
    "marks": ("MAX_MARKS", 10_000, "combining"),
}


@pytest.mark.parametrize(("name", "weaker", "noticed_by"), WEAKER.values(), ids=WEAKER)
def test_a_weaker_escape_is_noticed(
    name: str, weaker: Any, noticed_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in PLACES:
        harmless_page(place)
    monkeypatch.setattr(escape, name, weaker)
    assert any(_breaks(CORPUS[noticed_by], place) for place in PLACES)


def _breaks(hostile: str, place: str) -> bool:
    try:
        check_comment(hostile, place)
    except (AssertionError, UnicodeError):
        return True
    return False
