"""The garbage collector works while tests run, and does not look at what is there until the run ends."""

import gc


def test_what_tests_leave_is_collected_and_modules_are_not_looked_through() -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > 100_000
