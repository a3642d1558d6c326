"""The cost of a piece of work, counted in calls: the count is the same on a busy machine as on an idle one."""

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from unittest.mock import patch

import sql


def calls_made(work: Callable[[], object]) -> int:
    """The number of Python and C functions that `work` calls in this thread. Without those of the garbage collector,
    which finalizes what other tests have left behind."""
    made = 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal made
        made += event in {"call", "c_call"}

    gc.disable()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return made


@contextmanager
def statements_run() -> Iterator[Counter[str]]:
    """Counts the statements that this process runs in the block, by their file."""
    run: Counter[str] = Counter()
    files = {id(spent): file for file, spent in sql.SPENT.items()}
    since = sql.Spent.since

    def counting(spent: sql.Spent, began: float) -> None:
        run[files[id(spent)]] += 1
        since(spent, began)

    with patch.object(sql.Spent, "since", counting):
        yield run
