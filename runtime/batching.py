"""Natural batching: items submitted while a flush runs are flushed together after it.

There is no timer: a lone item is flushed at once. But while each turn of the event loop brings more items, the flush
waits for them: callers that the last flush answered submit again right behind it, and a statement costs its beginning
and its commit however many items it serves (docs/decisions/0028-speed.md).

Each item has its own outcome; when a flush of several fails as a whole, each is retried alone, so that one bad item
fails no other. The retries are bounded in time; otherwise a hundred items would wait for a silent database one after
the other.
"""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

ALONE_S: Final = 12.0
"""Two waits for a lock (5 s, runtime/servers/role_settings.py), one of the batch and one of the item that caused it,
and time for the others."""


class Batcher(Generic[Item, Outcome]):
    """`flush(items)` returns one outcome (or exception) per item, in order.

    `lanes` flushes may run at once, each of at most `batch_max` items. The item of a cancelled caller is flushed all
    the same. After a failure of the kinds `alone_again`, items are retried alone until `alone_s` after the flush began;
    the rest get a TimeoutError.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[Item]], Awaitable[Sequence[Outcome | BaseException]]],
        *,
        lanes: int,
        batch_max: int,
        waiting_max: int = 20_000,
        alone_again: tuple[type[BaseException], ...] = (Exception,),
        alone_s: float = ALONE_S,
    ) -> None:
        self._flush = flush
        self._lanes_free = lanes
        self._batch_max = batch_max
        self._waiting_max = waiting_max
        self._alone_again = alone_again
        self._alone_s = alone_s
        self._waiting: list[tuple[Item, asyncio.Future[Outcome]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._context = contextvars.copy_context()  # that of the process or cell that the batcher was made for

    def submit(self, item: Item) -> "asyncio.Future[Outcome]":
        """A future of the item's outcome, or of what its flush raised for it. OverflowError when too many wait."""
        if len(self._waiting) >= self._waiting_max:
            raise OverflowError("too many waiting")
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._lanes_free:
            self._lanes_free -= 1
            # Not in the context of the caller: what is logged about other items would name the caller's request.
            task = asyncio.create_task(self._flush_waiting(), context=self._context.copy())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return future

    async def _flush_waiting(self) -> None:
        # A task starts in the loop's next iteration, so its first batch has all items of this iteration.
        try:
            while self._waiting:
                await self._await_more()
                batch, self._waiting = self._waiting[: self._batch_max], self._waiting[self._batch_max :]
                if batch:  # another lane may have taken the items that both waited for
                    await self._flush_batch(batch)
        finally:
            self._lanes_free += 1

    async def _await_more(self) -> None:
        """Wait until a turn of the loop brings no more items, or the batch is full."""
        waiting_before = 0
        while waiting_before < len(self._waiting) < self._batch_max:
            waiting_before = len(self._waiting)
            await asyncio.sleep(0)

    async def _flush_batch(self, batch: list[tuple[Item, asyncio.Future[Outcome]]]) -> None:
        clock = asyncio.get_running_loop().time
        retry_deadline = clock() + self._alone_s
        try:
            outcomes = await self._flush([item for item, _ in batch])
        except self._alone_again as error:
            if len(batch) == 1:
                _resolve(batch[0][1], error)
                return
            for item, future in batch:
                if clock() >= retry_deadline:
                    _resolve(future, TimeoutError("not retried in time"))
                    continue
                try:
                    (outcome,) = await self._flush([item])
                except Exception as retry_error:
                    outcome_or_error: Outcome | BaseException = retry_error
                else:
                    outcome_or_error = outcome
                _resolve(future, outcome_or_error)
        except BaseException as error:
            for _, future in batch:
                _resolve(future, error)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, future), outcome in zip(batch, outcomes, strict=True):
                _resolve(future, outcome)

    async def close(self) -> None:
        """Wait until everything accepted has been flushed."""
        while self._tasks:
            await asyncio.wait(self._tasks)


def _resolve(future: "asyncio.Future[Outcome]", outcome: Outcome | BaseException) -> None:
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
