"""A line of the growth benchmark states for blocks and for time whether the target was met."""

from bench.growth import Compared, Growth


def test_a_line_states_for_blocks_and_for_time_whether_the_target_was_met() -> None:
    look_up = Growth(
        name="look-up of 100",
        charges=(10_000, 1_000_000),
        items=100,
        blocks=Compared(1_294, 1_634, 1.263, False),
        ms=Compared(6.3, 6.77, 1.07, True),
        uncached=(0, 147),
        wal=(0, 0),
    )
    assert " ".join(look_up.line().split()) == (
        "look-up of 100 blocks 1.26 MISSED (1,294 and 1,634) ms 1.07 ok (6.30 and 6.77) not cached 0 and 147"
    )
