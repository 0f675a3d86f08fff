"""What in an oracle or a test gives a task away, and what everybody writes."""

from __future__ import annotations

import pytest

from skillgate.bench.answers import Public, added, answers, file_answers

PATCH = """\
diff --git a/shop/refunds.py b/shop/refunds.py
--- a/shop/refunds.py
+++ b/shop/refunds.py
@@ -1,2 +1,3 @@
 unchanged
-removed
+first
++second
"""

LINES = ("first_cents = order.paid", "left = first_cents - order.refunded", "raise Refused if left < wanted")
GIVEN_AWAY = [
    ('raise Error("refund exceeds what was paid")', ["refund exceeds what was paid"]),
    ('f"refund of {cents} exceeds what was paid so far: %s\\n"', ["exceeds what was paid so far:"]),
    ('it\'s not "refund exceeds what was paid"', ["refund exceeds what was paid"]),
    ('"""Refuse what exceeds the sum."""', ["Refuse what exceeds the sum."]),
    ("def refund_what_was_paid(): pass", ["refund_what_was_paid"]),
    ("class RefundExceedsPayment(Error): ...", ["RefundExceedsPayment"]),
    ("LIMIT_OF_ALL_REFUNDS: int = 3", ["LIMIT_OF_ALL_REFUNDS"]),
    ("assert paid == 481516", ["481516"]),
    ("rate = 0.31337", ["0.31337"]),
    ("total = 481_516", ["481_516"]),
    (
        'run: python tools/refund.py --order 12 --note "by hand"',
        ['python tools/refund.py --order 12 --note "by hand"'],
    ),
    (f"  - {LINES[0]}\n\n      {LINES[1]}\n    x = 1\n> {LINES[2]}", ["\n".join(LINES)]),
]
WRITTEN_BY_EVERYBODY = [
    '"not found", "Something failed", "application/json", "utf-8"',
    'git.checkout("a/long/path/to/some/file.py")',
    "def wrap_text(text): return text.splitlines(keepends=True)",
    "def test_empty_input(): ...",
    "user_service = request.user_service.first()",
    "assert 1000000 == 86400 == 65535 == 65536 == 123456 == 2147483647",
    "v3.12.4, 2025-01-31, 127.0.0.1, 1.2.3-rc.45678",
    "npm ci --no-audit\npip install -r requirements.txt",
    "import collections.abc as abc\nfrom pathlib import PurePosixPath\nimport importlib.resources",
    "a" * 100_000,
    "'" * 100_001,
]


def test_only_added_lines_count() -> None:
    assert added(PATCH) == "first\n+second"


@pytest.mark.parametrize(("text", "expected"), GIVEN_AWAY)
def test_what_gives_a_task_away(text: str, expected: list[str]) -> None:
    assert list(answers(text)) == expected


@pytest.mark.parametrize("text", WRITTEN_BY_EVERYBODY)
def test_what_everybody_writes(text: str) -> None:
    assert list(answers(text)) == []


def test_a_test_file_has_to_say_what_it_tests() -> None:
    names = [
        "test_refunds.py",
        "a/refund.spec.ts",
        "RefundTest.java",
        "check.py",
        "conftest.py",
        "test_api.py",
    ]
    assert list(file_answers(names)) == ["test_refunds.py", "refund.spec.ts", "RefundTest.java"]


def test_public_is_what_stands_there_as_it_is() -> None:
    public = Public(["the name is wrap_text", "a line of the repository"])
    assert [public.holds(text) for text in ("wrap_text", "own\na line of the", "wrap", "text name", "")] == [
        True,
        True,
        False,
        False,
        True,
    ]
