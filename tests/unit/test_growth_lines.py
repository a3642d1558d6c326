"""A line of the bench of growth says of blocks and of time whether the aim is held."""

from bench.growth import Compared, Growth


def test_a_line_says_whether_the_aim_is_held_by_blocks_and_by_time() -> None:
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
