"""Whatever a bank's list answers, a reconciler's intervals cover every instant up to its goal."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from banks.lists import BankPage
from banks.protocol import Done
from domain.instants import SAO_PAULO
from workers.incoming.intervals import PAGES_MAX, Pass, Progress, after_page, begin, narrowed
from workers.incoming.reconciler import BOLETO_PASSES, PIX_PASSES
from workers.incoming.slices import NARROWEST_PAGES_MAX, BankSilent, slices

NOW = datetime(2026, 11, 22, 15, 30, 12, 345_678, tzinfo=UTC)
PASSES = {f"pix {each.name}": each for each in PIX_PASSES} | {f"boleto {each.name}": each for each in BOLETO_PASSES}


@pytest.mark.parametrize("asked", PASSES.values(), ids=PASSES.keys())
@given(answers=st.lists(st.sampled_from(["more", "end", "too wide"]), max_size=60))
def test_the_intervals_of_a_pass_meet_from_its_beginning_to_its_goal(asked: Pass, answers: list[str]) -> None:
    progress: Progress | None = None
    covered: datetime | None = None
    for answer in [*answers, *["end"] * 100_000]:
        began = begin(progress, asked, NOW)
        if began is None:
            break
        progress = began
        assert progress.window_until is not None
        covered = covered or progress.until
        assert progress.until == covered < progress.window_until <= progress.goal
        assert progress.window_until - progress.until <= asked.width_max
        if answer == "too wide":
            narrower = narrowed(progress, asked)
            assert narrower is None or narrower.after is None, "its first page was not read"
            progress = narrower or progress
        else:
            progress = after_page(progress, "page" if answer == "more" else None, 1, asked)
        covered = progress.until
        assert progress.width_s <= asked.width_max.total_seconds(), "it is stored as an integer of four bytes"
        if progress.until >= progress.goal:
            break
    assert progress is not None
    assert progress.until == progress.goal == asked.goal(NOW)


def test_an_interval_too_full_is_halved_down_to_a_second_and_later_ones_grow_again() -> None:
    (asked, *_) = PIX_PASSES
    progress = begin(None, asked, NOW)
    assert progress is not None
    widths = []
    while True:
        assert progress.window_until is not None
        widths.append((progress.window_until - progress.until).total_seconds())
        narrower = narrowed(progress, asked)
        if narrower is None:
            break
        progress = narrower
    assert widths[:3] == [21_600, 10_800, 5_400]
    assert widths[-1] == 1
    for width_s in (2, 4, 8):
        progress = after_page(progress, None, 1, asked)
        progress = begin(progress, asked, NOW)
        assert progress is not None
        assert progress.window_until == progress.until + timedelta(seconds=width_s)
    # A well filled interval is followed by one of the same width.
    assert after_page(progress, None, 60, asked).width_s == 8


def test_nightly_passes_begin_at_three_and_cover_their_days_and_missed_nights() -> None:
    nightly = PASSES["pix nightly"]
    early = datetime(2026, 11, 22, 2, 59, tzinfo=SAO_PAULO)
    midnight = datetime(2026, 11, 22, tzinfo=SAO_PAULO)
    done = Progress(midnight - timedelta(days=1), midnight - timedelta(days=1), None, None, 60)
    assert begin(done, nightly, early) is None
    began = begin(done, nightly, early + timedelta(minutes=1))
    assert began is not None
    assert (began.until, began.goal) == (midnight - timedelta(days=7), midnight)
    # After missed nights, the pass begins where the last one ended.
    old = Progress(midnight - timedelta(days=30), midnight - timedelta(days=30), None, None, 60)
    began = begin(old, nightly, midnight + timedelta(hours=3))
    assert began is not None
    assert began.until == midnight - timedelta(days=30)


def test_when_the_clock_stands_or_goes_back_the_pass_repeats_and_skips_nothing() -> None:
    (asked, *_) = PIX_PASSES
    goal = asked.goal(NOW)
    done = Progress(goal, goal, None, None, 60)
    for now in (NOW, NOW - timedelta(hours=5)):
        began = begin(done, asked, now)
        assert began is not None
        assert (began.until, began.goal) == (asked.goal(now) - asked.again, asked.goal(now))
    assert goal >= NOW  # the current second is included


async def test_a_comparison_reads_a_day_of_more_pages_than_a_wider_interval_may_have() -> None:
    """The list of boletos goes by days: a day that is not read would keep payouts held after a restore."""

    async def fetch(since: datetime, until: datetime, after: str | None) -> Any:
        page = int(after or 0)
        is_last = page + 1 == a_day * ((until - since) // timedelta(days=1))
        return Done(BankPage(items=[page], following=None if is_last else str(page + 1)))

    a_day = PAGES_MAX + 1
    listed = slices(fetch, NOW, NOW + timedelta(days=2), width_max=timedelta(days=7), width_min=timedelta(days=1))
    assert [len(pages) async for _, _, pages in listed] == [a_day, a_day]
    a_day = NARROWEST_PAGES_MAX + 1
    listed = slices(fetch, NOW, NOW + timedelta(days=2), width_max=timedelta(days=7), width_min=timedelta(days=1))
    with pytest.raises(BankSilent):
        await anext(listed)
