"""Streams in any pieces: the same events, and never a key."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillgate.bench.meter import stream
from skillgate.bench.meter.stream import Events, Scrubber

STREAM = (
    b": a comment\r\nevent: message_start\r\ndata: {1}\r\n\r\n"
    b"data: {2\ndata:3}\nid: 7\n\n\n\nevent: empty\n\n"
    b"data:\rdata: 4\r\rdata: \xf0\x9f\x98\x80\n\ndata: no end"
)
EVENTS = [b"{1}", b"{2\n3}", b"\n4", "😀".encode()]


@given(st.lists(st.integers(0, len(STREAM)), max_size=40))
def test_events_do_not_depend_on_the_pieces(cuts: list[int]) -> None:
    events = Events()
    places = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in pairwise(places)]
    assert [found for piece in pieces for found in events.feed(piece)] == EVENTS


def test_an_event_without_an_end_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_EVENT_BYTES", 100)
    for piece in (b"data: " + b"x" * 60, b"data: " + b"x" * 60 + b"\n"):
        events = Events()
        for _ in range(3):
            events.feed(piece)
        assert (events.broken, events.feed(b"\n\ndata: 1\n\n")) == (True, [])


@given(
    st.lists(st.sampled_from([b"sk-key", b"sk-ke", b"s", b"k-", b"key", b"x", b"\n\n"]), max_size=20),
    st.data(),
)
def test_a_key_goes_through_in_no_pieces(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    scrubber = Scrubber(b"sk-key")
    places = [0, *cuts, len(whole)]
    passed = b"".join(scrubber.feed(whole[a:b]) for a, b in pairwise(places)) + scrubber.rest()
    assert passed == whole.replace(b"sk-key", b"******")


def test_nothing_is_held_back_that_cannot_become_a_key() -> None:
    assert Scrubber(b"sk-key").feed(b"data: 1\n\n") == b"data: 1\n\n"
    assert Scrubber(b"").feed(b"data: 1\n\n") == b"data: 1\n\n"
