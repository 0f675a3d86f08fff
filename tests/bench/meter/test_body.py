"""Bodies: what two readers could read differently is refused, what is not changed keeps its bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillgate.bench.meter.body import BodyError, parse_body

REFUSED = {
    "empty": b"",
    "not an object": b"[1]",
    "a number": b"1",
    "cut": b'{"a": 1',
    "cut text": b'{"a',
    "no value": b'{"a":}',
    "comma at the end": b'{"a": 1,}',
    "two commas": b'{"a": 1,, "b": 2}',
    "no comma": b'{"a": 1 "b": 2}',
    "a name that is none": b"{1: 2}",
    "single quotes": b"{'a': 1}",
    "something behind": b'{"a": 1} {"a": 2}',
    "byte order mark": b'\xef\xbb\xbf{"a": 1}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "not UTF-8": b'{"a": "\xff"}',
    "twice": b'{"max_tokens": 1, "max_tokens": 2}',
    "twice, spelled differently": b'{"max_tokens": 1, "max\\u005ftokens": 2}',
    "twice inside": b'{"a": [{"b": 1, "b": 2}]}',
    "NaN": b'{"a": NaN}',
    "infinite": b'{"a": [-Infinity]}',
    "too large": b'{"a": 1e999}',
    "a number of many digits": b'{"a": ' + b"9" * 10_000 + b"}",
    "deep": b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a comment": b'{"a": 1 /* b */}',
    "a control character": b'{"a": "\n"}',
    "another space": '{"a":\u00a01}'.encode(),
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_what_is_no_body(data: bytes) -> None:
    with pytest.raises(BodyError, match=r"^(the body|something|a (member|number)|NaN)"):
        parse_body(data)


def test_only_what_is_changed_is_written_anew() -> None:
    text = '{ "model" :"\\u006d", "max_tokens":\t9000 ,"x": [1.50, 1e2, "ü\\/"]}\n'
    body = parse_body(text.encode())
    assert body.edited({}) == text
    assert body.edited({"max_tokens": 5}) == text.replace("9000", "5")
    assert body.edited({"max_tokens": 5, "new": {"a": True}}) == text.replace("9000", "5").replace(
        "{", '{"new":{"a": true},', 1
    )
    assert parse_body(b" { } ").edited({"a": 1, "b": None}) == ' {"a":1,"b":null } '


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(-1e9, 1e9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(max_size=4), JSON, max_size=5),
    st.dictionaries(st.text(max_size=4), JSON, max_size=3),
    st.booleans(),
    st.sampled_from([None, 1]),
)
def test_an_edited_body_reads_as_the_object_with_the_changes(
    members: dict[str, Any], changes: dict[str, Any], ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(members, ensure_ascii=ascii_only, indent=indent)
    try:
        body = parse_body(text.encode("utf-8", "surrogatepass"))
    except BodyError:
        assert any("\ud800" <= c <= "\udfff" for c in text)
        return
    assert body.members == members
    assert body.edited({}) == text
    assert json.loads(body.edited(changes)) == {**members, **changes}


def test_the_digest_is_of_the_text_of_the_members_that_count() -> None:
    first, second, third = (
        parse_body(text.encode())
        for text in ('{"a": 1, "b": [2], "c": 3}', '{"c": 4, "b": [2], "a": 1}', '{"a": 1, "b": [3]}')
    )
    assert first.digest({"a", "b"}) == second.digest({"b", "a"}) != third.digest({"a", "b"})
    assert first.digest({"a", "b"}) != first.digest({"a"})
