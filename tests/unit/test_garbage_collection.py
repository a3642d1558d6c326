"""The garbage collector runs during tests, and skips the objects that were there when the run began."""

import gc


def test_garbage_of_tests_is_collected_and_the_objects_of_modules_are_frozen() -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > 100_000
