"""Turns of callers that wait for something scarce: each owner's first caller, then each owner's second, and so on."""

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class Turns(Generic[Thing]):
    """However many callers one owner has, another owner's first caller waits for only one thing for each owner."""

    def __init__(self, *, waiting_max: int) -> None:
        self._waiting_max = waiting_max
        # Owners in the order of their next turns.
        self._lines: dict[Hashable, deque[asyncio.Future[Thing]]] = {}
        self._waiting_count = 0

    def __len__(self) -> int:
        """How many callers wait; a caller that has left is counted until its turn."""
        return self._waiting_count

    def join(self, owner: Hashable) -> "asyncio.Future[Thing]":
        """A future of the thing, or of the error that `fail` is given; OverflowError when too many wait."""
        if self._waiting_count >= self._waiting_max:
            raise OverflowError("too many waiting")
        future: asyncio.Future[Thing] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(owner, deque()).append(future)
        self._waiting_count += 1
        return future

    def serve(self, things: "deque[Thing]") -> None:
        """Hand out `things`, from the left, until there are none or no caller waits."""
        while things and self._lines:
            owner = next(iter(self._lines))
            line = self._lines.pop(owner)
            while line:
                self._waiting_count -= 1
                if not (future := line.popleft()).done():  # a caller that left is passed over
                    future.set_result(things.popleft())
                    break
            if line:
                self._lines[owner] = line

    def fail(self, error: BaseException) -> None:
        """Give this error to every caller that waits."""
        failed_lines, self._lines, self._waiting_count = self._lines, {}, 0
        for line in failed_lines.values():
            for future in line:
                if not future.done():
                    future.set_exception(error)
