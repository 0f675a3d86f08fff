"""What is kept of an agent's words: all of them in their order, but no token, and no more than so much."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillgate.bench.agents import trace
from skillgate.bench.agents.trace import MASK, Trace, lines_of

TOKEN = "sgm-0123456789abcdef"
SECRET = TOKEN.encode()


def kept(path: Path, *chunks: bytes) -> bytes:
    with Trace(path, TOKEN) as one:
        for chunk in chunks:
            one.add(chunk)
    return path.read_bytes()


def test_output_is_kept_as_it_came(tmp_path: Path) -> None:
    path = tmp_path / "some/folders/t.log"
    assert kept(path, b"one\ntw", b"o\n\n", b"", b"\xff no end") == b"one\ntwo\n\n\xff no end"
    assert list(lines_of(path)) == ["one\n", "two\n", "\n", "� no end"]
    assert kept(path, b"again") == b"again"


@pytest.mark.parametrize("at", range(len(SECRET) + 1))
def test_a_token_that_is_split_is_masked(tmp_path: Path, at: int) -> None:
    said = b'{"k": "' + SECRET[:at], SECRET[at:] + b'"}\n'
    assert kept(tmp_path / "t", *said) == b'{"k": "' + MASK + b'"}\n'


def test_a_token_in_a_line_without_an_end_is_masked(tmp_path: Path) -> None:
    assert kept(tmp_path / "t", *(bytes([one]) for one in SECRET)) == MASK


PARTS = st.lists(
    st.sampled_from([SECRET, SECRET[:7], SECRET[7:], SECRET[-3:], b"\n", b"words ", b"\xc3", MASK]),
    max_size=20,
)


@given(PARTS, st.lists(st.integers(0, 300), max_size=12), st.integers(1, 60))
def test_wherever_chunks_and_lines_are_cut_no_token_is_kept_and_nothing_else_is_lost(
    parts: list[bytes], cuts: list[int], longest: int
) -> None:
    said = b"".join(parts)
    places = sorted({0, len(said), *(min(cut, len(said)) for cut in cuts)})
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(trace, "MAX_LINE_BYTES", longest)
        chunks = [said[a:b] for a, b in pairwise(places)]
        assert kept(Path(folder, "t"), *chunks) == said.replace(SECRET, MASK)


def test_a_line_that_is_too_long_for_memory_is_written_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "MAX_LINE_BYTES", 100)
    with Trace(tmp_path / "t", TOKEN) as one:
        for _ in range(50):
            one.add(b"x" * 90)
            assert len(one._line) <= 190
    assert (tmp_path / "t").read_bytes() == b"x" * 4500


def test_a_trace_has_a_bounded_size_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "MAX_BYTES", 1000)
    line = b"y" * 99 + b"\n"
    assert kept(tmp_path / "t", *[line] * 10) == line * 10
    assert kept(tmp_path / "t", *[line] * 30) == line * 10 + b"[the rest is left out]\n"
    assert kept(tmp_path / "t", b"z" * 5000) == b"[the rest is left out]\n"


def test_what_cannot_be_written_is_an_error_of_the_machine(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"), Trace(Path("/dev/full"), TOKEN) as one:
        one.add(b"a line\n" * 100_000)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        Trace(tmp_path / "file" / "t", TOKEN)
