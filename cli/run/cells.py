"""All cells behind one port: a request is routed to its cell by the token, cookie, path or form that it carries.

Each cell has its own API and pages in this process, with pools, batchers and limits that it shares with no other cell,
so a cell whose database is away or slow delays no other. The directory of cells is read again each second: a new cell
is served without a restart, and a moved cell is opened at its new address before it is closed at the old one. Requests
to a cell wait while it is being moved. While only its standby changes, its old connections answer until the new ones
are open.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog

from api.context import ApiContext
from cli.run.asgi_front import Front
from cli.run.cell_requests import (
    EMAIL_FORMS,
    BufferedBody,
    CollectedAnswer,
    cell_chosen,
    cell_in_form,
    cell_of_request,
    email_of,
    is_form,
    own_scope,
    try_each,
    with_choice_cookie,
)
from cli.run.traced import TracingMiddleware
from runtime.cells.directory import HOME_NAME, Addresses, Cell, WrongCell, has_email, read_cells, settings_of
from runtime.cells.number import HOME, enter_cell, in_cell
from runtime.postgres import DB_UNAVAILABLE, Pool, session
from runtime.seal import Seal
from runtime.servers.role_settings import SettingsMissing
from runtime.servers.sealing_keys import WrongKey
from runtime.settings import Settings
from runtime.tracing.traces import Traces
from web.cells import CELLS_AWAY, CellPages

_POLL_S: Final = 1.0
_POLL_MOVING_S: Final = 0.1
_REOPEN_S: Final = 1.0
_OPEN_S: Final = 5.0
"""How long a start, or a request to a cell just added or moved, waits for the cell to open."""
_HELD_S_MAX: Final = 20.0
"""How long a request waits for a cell that is being moved; then it is refused with 503."""
_CLOSE_S: Final = 15.0
"""How long requests under way at the old address of a cell may take to end."""
_EMAIL_SEARCH_S_MAX: Final = 1.0
_EMAIL_SEARCHES_MAX: Final = 4
"""How many sign-ins search the cells at once: each takes a connection of every cell, before rates are counted."""

_log = structlog.get_logger()


class ServedCell:
    """A cell that this process serves. It opens its front in the background, and tries again until it is open."""

    def __init__(
        self,
        settings: Settings,
        cell: Cell,
        addresses: Addresses,
        make: Callable[[Settings], Front],
        pages: Callable[[], list[CellPages]],
        before: "ServedCell | None" = None,
    ) -> None:
        self.cell = cell
        self.addresses = addresses
        self.held = cell.held
        self.before = before
        """The same database as served before its standby changed; answers until this one is open."""
        self.next: ServedCell | None = None
        """The same cell at the address it is being moved to; gets no requests yet."""
        self.born = time.monotonic()
        self.front: Front | None = None
        self.changed = asyncio.Event()
        """Set, and replaced by a new event, when the cell has opened, or a move has begun or ended."""
        self._requests_under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._settings = settings_of(settings, cell, addresses)
        self._make = make
        self._pages = pages
        self._closing = asyncio.Event()
        self._task = asyncio.create_task(self._keep_open())

    @property
    def open(self) -> bool:
        return self.front is not None

    @property
    def answering(self) -> "ServedCell":
        """The instance that answers the cell's requests: `before`, until this one is open."""
        return self if self.front is not None or self.before is None else self.before

    def tell(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    async def answer(self, front: Front, scope: Any, receive: Any, send: Any) -> None:
        self._requests_under_way += 1
        self._idle.clear()
        try:
            with in_cell(self.cell.number):
                await front(scope, receive, send)
        finally:
            self._requests_under_way -= 1
            if not self._requests_under_way:
                self._idle.set()

    async def close(self) -> None:
        """Closes the cell once its requests under way have ended, after _CLOSE_S at most."""
        if self.before is not None:
            await self.before.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), _CLOSE_S)
        self._closing.set()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _keep_open(self) -> None:
        enter_cell(self.cell.number)
        last_error = ""
        front = self._make(self._settings)  # once: this takes half a second, in which no cell gets an answer
        while not self._closing.is_set():
            try:
                async with front.opened():
                    front.web.state.cells = self._pages
                    self.front = front
                    self.tell()
                    _log.info("cell_opened", cell=self.cell.name)
                    before, self.before = self.before, None
                    if before is not None:
                        await before.close()
                    await self._closing.wait()
                    self.front = None
                return
            except (*DB_UNAVAILABLE, WrongCell, WrongKey, SettingsMissing) as error:
                self.front = None
                if type(error).__name__ != last_error:
                    last_error = type(error).__name__
                    _log.error("cell_not_opened", cell=self.cell.name, error=last_error)
            except Exception:
                self.front = None
                _log.exception("cell_not_opened", cell=self.cell.name)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), _REOPEN_S)


class CellRouter:
    """An ASGI application over home's front and those of the other cells. With home alone it only forwards."""

    def __init__(self, settings: Settings, make: Callable[[Settings], Front], traces: Traces | None = None) -> None:
        self._settings = settings
        self._make = make
        self._traces = traces
        self._answer = self._dispatch if traces is None else TracingMiddleware(self._dispatch, traces)
        self._seal = Seal(settings.secret_key)
        self._home = make(settings)
        self._cells: dict[int, ServedCell] = {}
        self._close_tasks: set[asyncio.Task[None]] = set()
        self._email_searches = asyncio.Semaphore(_EMAIL_SEARCHES_MAX)

    def __call__(self, scope: Any, receive: Any, send: Any) -> Coroutine[Any, Any, None]:
        if scope["type"] == "lifespan":
            return self._run_lifespan(receive, send)
        return self._answer(scope, receive, send)

    def _dispatch(self, scope: Any, receive: Any, send: Any) -> Coroutine[Any, Any, None]:
        return self._route(scope, receive, send) if self._cells else self._home(scope, receive, send)

    @property
    def draining(self) -> bool:
        return self._home.draining

    @draining.setter
    def draining(self, draining: bool) -> None:
        for front in self._fronts():
            front.draining = draining

    @property
    def closing(self) -> bool:
        return self._home.closing

    @closing.setter
    def closing(self, closing: bool) -> None:
        for front in self._fronts():
            front.closing = closing

    def stopping(self) -> None:
        for front in self._fronts():
            front.stopping()

    def contexts(self) -> dict[int, ApiContext | None]:
        """The API context of each other cell, for work that spans cells; None for a cell that is away."""
        return {number: None if front is None else front.api.state.context for number, front in self._other_fronts()}

    def pages(self) -> list[CellPages]:
        """The pages of every cell, home first, for staff who work in several cells; empty with home alone."""
        if not self._cells:
            return []
        others = [
            CellPages(number, self._cells[number].cell.name, None if front is None else front.web.state)
            for number, front in self._other_fronts()
        ]
        return [CellPages(HOME, HOME_NAME, self._home.web.state), *others]

    def _other_fronts(self) -> list[tuple[int, Front | None]]:
        return [(number, each.answering.front) for number, each in self._cells.items()]

    def _fronts(self) -> list[Front]:
        served = [instance for each in self._cells.values() for instance in (each, each.before) if instance is not None]
        return [self._home, *(each.front for each in served if each.front is not None)]

    async def _run_lifespan(self, receive: Any, send: Any) -> None:
        await receive()
        try:
            async with self._home.opened():
                context = self._home.api.state.context
                context.other_cells = self.contexts
                self._home.web.state.cells = self.pages
                await self._read_directory(context.pool)
                await self._wait_until_open()
                watch = asyncio.create_task(self._watch(context.pool))
                await send({"type": "lifespan.startup.complete"})
                await receive()
                watch.cancel()
                served = [*self._cells.values(), *(each.next for each in self._cells.values() if each.next)]
                closing = [each.close() for each in served]
                await asyncio.gather(watch, *closing, *self._close_tasks, return_exceptions=True)
        except BaseException as error:
            if isinstance(error, Exception):
                _log.exception("not_started")
            await send({"type": "lifespan.startup.failed", "message": type(error).__name__})
            raise
        finally:
            if self._traces is not None:
                await self._traces.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _wait_until_open(self) -> None:
        """Waits for the cells to open, _OPEN_S at most: a cell that is away must not delay the others for longer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_OPEN_S):
                for each in self._cells.values():
                    while not each.open:
                        await each.changed.wait()

    async def _watch(self, pool: Pool) -> None:
        failures = 0
        while True:
            moving = any(each.next is not None for each in self._cells.values())
            await asyncio.sleep(_POLL_MOVING_S if moving else _POLL_S)
            try:
                await self._read_directory(pool)
                failures = 0
            except DB_UNAVAILABLE:
                pass  # while home is away, the directory read last stays
            except Exception:  # one failed reading must not end the watch, nor close any cell
                failures += 1
                if failures & (failures - 1) == 0:  # the 1st, 2nd, 4th, 8th ...: it is read each second
                    _log.exception("directory_not_read", failures=failures)

    async def _read_directory(self, pool: Pool) -> None:
        async with session(pool) as conn:
            cells = {cell.number: cell for cell in await read_cells(conn, self._seal)}
        for number in [number for number in self._cells if number not in cells]:
            self._close_later(self._cells.pop(number))
        for number, cell in cells.items():
            served = self._cells.get(number)
            if served is None:
                served = self._cells[number] = self._served_cell(cell, cell.addresses)
            elif served.addresses != cell.addresses:
                self._cells[number] = self._cell_after_move(served, cell)
                served.tell()
                served = self._cells[number]
            elif served.held != cell.held:
                served.held = cell.held
                served.tell()
            self._prepare_move(served, cell)

    def _cell_after_move(self, served: ServedCell, cell: Cell) -> ServedCell:
        """The cell at its new address; the instance in `next` if this process learnt of the move in time."""
        prepared, served.next = served.next, None
        if prepared is None and served.addresses.database_url == cell.addresses.database_url:
            before = served.answering
            if before is not served:
                served.before = None
                self._close_later(served)
            return self._served_cell(cell, cell.addresses, before)
        self._close_later(served)
        if prepared is not None and prepared.addresses == cell.addresses:
            prepared.held = cell.held
            return prepared
        if prepared is not None:
            self._close_later(prepared)
        return self._served_cell(cell, cell.addresses)

    def _served_cell(self, cell: Cell, addresses: Addresses, before: ServedCell | None = None) -> ServedCell:
        return ServedCell(self._settings, cell, addresses, self._make, self.pages, before)

    def _prepare_move(self, served: ServedCell, cell: Cell) -> None:
        """Opens the cell at the address it is being moved to, or closes it there when the move was cancelled."""
        if served.next is None and cell.next is not None:
            served.next = self._served_cell(cell, cell.next)
        elif served.next is not None and cell.next is None:
            self._close_later(served.next)
            served.next = None

    def _close_later(self, served: ServedCell) -> None:
        task = asyncio.create_task(served.close())
        self._close_tasks.add(task)
        task.add_done_callback(self._close_tasks.discard)

    async def _route(self, scope: Any, receive: Any, send: Any) -> None:
        chosen = cell_chosen(scope)
        if scope["path"] == "/readyz":
            await self._answer_readiness(scope, receive, send)
        elif chosen is not None:
            named = (number for number, each in self._cells.items() if each.cell.name == chosen)
            await self._forward(next(named, HOME), scope, receive, with_choice_cookie(chosen, send))
        elif not is_form(scope):
            number = cell_of_request(scope)
            await self._forward(HOME if number is None else number, scope, receive, send)
        else:
            body = await BufferedBody.read(receive)
            if scope["path"] in EMAIL_FORMS:
                numbers, scope["state"][CELLS_AWAY] = await self._cells_with_email(email_of(body.content))
                await try_each(numbers, scope, body, self._forward, send)
            else:
                await self._forward(cell_in_form(scope, body.content) or HOME, scope, body.receive, send)

    async def _answer_readiness(self, scope: Any, receive: Any, send: Any) -> None:
        """Ready while any cell is: if home alone decided, a load balancer would cut off all cells when home is away."""
        answer = CollectedAnswer()
        await self._home(own_scope(scope), receive, answer.send)
        for front in self._fronts()[1:] if answer.status != 200 else ():
            other = CollectedAnswer()
            await front(own_scope(scope), receive, other.send)
            if other.status == 200:
                answer = other
                break
        await answer.forward(send)

    async def _forward(self, number: int, scope: Any, receive: Any, send: Any) -> None:
        if number == HOME or number not in self._cells:
            await self._home(scope, receive, send)
            return
        front, served = await self._wait_for_front(number)
        if front is None:
            await self._home.unavailable(scope, receive, send)
            return
        await served.answer(front, scope, receive, send)

    async def _wait_for_front(self, number: int) -> tuple[Front | None, ServedCell]:
        """The front of the cell; waits while the cell is being moved or opens for the first time. None in vain."""
        deadline = time.monotonic() + _HELD_S_MAX
        while True:
            served = self._cells[number]
            answering = served.answering
            if answering.front is not None and not served.held:
                return answering.front, answering
            left_s = (deadline if served.held else min(deadline, served.born + _OPEN_S)) - time.monotonic()
            if left_s <= 0:
                return None, served
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(served.changed.wait(), left_s)

    async def _cells_with_email(self, email: str) -> tuple[list[int], bool]:
        """The cells in which to try this e-mail, and whether a cell could not be asked. They are those that have a
        person with it, and last home; not home if it is away and others have one, because its failure would be the
        answer."""

        async def has_person(front: Front | None) -> bool | None:
            if front is None:
                return None
            try:
                async with asyncio.timeout(_EMAIL_SEARCH_S_MAX), session(front.api.state.context.pool) as conn:
                    return await has_email(conn, email=email)
            except DB_UNAVAILABLE:
                return None

        fronts = [*self._other_fronts(), (HOME, self._home)]
        async with self._email_searches:
            answers = await asyncio.gather(*(has_person(front) for _, front in fronts))
        found = [number for (number, _), is_known in zip(fronts, answers, strict=True) if is_known and number != HOME]
        return found if found and answers[-1] is None else [*found, HOME], None in answers
