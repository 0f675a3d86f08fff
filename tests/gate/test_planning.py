from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skillgate.gate.planning import share_of


@given(st.integers(0, 10**9), st.lists(st.integers(1, 10**8), min_size=1, max_size=20))
def test_what_is_shared_is_never_more_than_there_is_and_feeds_everybody_it_can(
    remaining: int, needs: list[int]
) -> None:
    left, enough = remaining, sum(needs) <= remaining
    for number, need in enumerate(needs):
        share = share_of(left, needs[number:])
        assert 0 <= share <= left
        if enough:
            assert share >= need
        left -= min(share, need)  # nobody uses more than it needs


def test_where_it_does_not_do_for_all_each_gets_its_part() -> None:
    assert share_of(900, [300, 600, 900]) == 150
    assert share_of(750, [600, 900]) == 300
    assert share_of(450, [900]) == 450


def test_what_one_did_not_need_flows_on() -> None:
    """The first of two of equal need used a tenth of its half."""
    assert share_of(1000, [800, 800]) == 500
    assert share_of(950, [800]) == 950
