"""Server-sent events that tell payers' open pages of status changes of their charges.

Thousands of pages may be open at once, nearly all without changes. One loop per process reads the state of all of them
from PostgreSQL once a second, and holds no connection in between. Redis is not needed; a page without a stream, or with
a silent stream, polls (static/payer.js).

A stream begins with the current state, so that no change is missed between two streams. It ends after some minutes (the
browser reconnects), when the charge is settled, or when the process stops.
"""

import asyncio
import resource
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import islice

import structlog

from readmodels.charges.payer_page import PageState, page_states
from runtime.postgres import DB_UNAVAILABLE, Pool, session

PAGES_MAX = 5_000
"""Streams that a process serves, 18 KiB each; fewer if its limit of open files is low."""
_FILES_A_PAGE = 4  # a quarter of the open files: each page needs a socket, and so do the API's requests
PAGES_A_CHARGE_MAX = 20  # payer, phone and merchant need three; more is abuse
PAGES_AN_ADDRESS_MAX = 200
"""Streams per client address, enough for an office or a village behind one address; further pages poll."""
LOOK_EVERY_S = 1.0
LOOK_S_MAX = 15.0  # between two attempts while PostgreSQL does not answer
HEARTBEAT_S = 15.0  # below the minute after which proxies close a silent connection
STREAM_S = 300.0
FIRST_S_MAX = 5.0
_SEND_S_MAX = 20.0  # for a client that does not read
_BATCH_MAX = 1_000  # links per statement
_RECONNECT_MS = 3_000

_log = structlog.get_logger()


class TooManyStreams(Exception):
    """A limit of streams is reached, so the page must poll."""


class LivePage:
    """One open page. `seen` is None before the first look, and when there is no such charge."""

    def __init__(self) -> None:
        self.seen: PageState | None = None
        self._ended = False
        self._first_read = asyncio.Event()
        self._change = asyncio.Event()

    def update(self, seen: PageState | None) -> None:
        changed = seen != self.seen
        self.seen = seen
        self._first_read.set()
        if changed:
            self._change.set()

    def end(self) -> None:
        self._ended = True
        self._first_read.set()
        self._change.set()

    def is_over(self) -> bool:
        return self._ended

    async def first(self) -> PageState | None:
        """Waits for the first look at the charge and returns its state; TimeoutError if PostgreSQL does not answer."""
        async with asyncio.timeout(FIRST_S_MAX):
            await self._first_read.wait()
        return self.seen

    async def changed(self, *, wait_s_max: float) -> bool:
        """Wait for the next change, or the end; False when neither came within `wait_s_max`."""
        try:
            async with asyncio.timeout(wait_s_max):
                await self._change.wait()
        except TimeoutError:
            return False
        self._change.clear()
        return True


class Live:
    """The payers' pages that are open at a process."""

    def __init__(self, pool: Pool, now: Callable[[], datetime]) -> None:
        self._pool = pool
        self._now = now
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._pages_max = PAGES_MAX if files < 0 else min(PAGES_MAX, files // _FILES_A_PAGE)
        self._pages: dict[str, set[LivePage]] = {}
        self._open = 0
        self._by_address: Counter[str] = Counter()
        self._looking: asyncio.Task[None] | None = None
        self._closed = False

    @asynccontextmanager
    async def page(self, public_id: str, *, address: str = "") -> AsyncIterator[LivePage]:
        """Register an open page, which gets updates until the end of the block."""
        pages_of_charge = self._pages.get(public_id, ())
        if self._closed or self._open >= self._pages_max or len(pages_of_charge) >= PAGES_A_CHARGE_MAX:
            raise TooManyStreams
        if self._by_address[address] >= PAGES_AN_ADDRESS_MAX:
            raise TooManyStreams
        page = LivePage()
        self._pages.setdefault(public_id, set()).add(page)
        self._open += 1
        self._by_address[address] += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._poll_states())
        try:
            yield page
        finally:
            self._open -= 1
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]
            pages = self._pages[public_id]
            pages.discard(page)
            if not pages:
                del self._pages[public_id]

    def close(self) -> None:
        """End every stream: a stopping server waits for open answers, and streams would take minutes."""
        self._closed = True
        for pages in self._pages.values():
            for page in pages:
                page.end()
        if self._looking is not None:
            self._looking.cancel()

    async def _poll_states(self) -> None:
        """Read the state of all open pages again and again, until none is open."""
        wait_s = LOOK_EVERY_S
        try:
            while self._pages:
                try:
                    await self._poll_once()
                    wait_s = LOOK_EVERY_S
                except DB_UNAVAILABLE as error:
                    wait_s = min(wait_s * 2, LOOK_S_MAX)
                    _log.warning("live_pages_unasked", pages=self._open, error=type(error).__name__)
                except Exception:
                    wait_s = LOOK_S_MAX
                    _log.exception("live_pages_broken", pages=self._open)
                await asyncio.sleep(wait_s)
        finally:
            self._looking = None

    async def _poll_once(self) -> None:
        remaining = iter(list(self._pages))
        while public_ids := list(islice(remaining, _BATCH_MAX)):
            async with session(self._pool) as conn:
                states = await page_states(conn, public_ids, now=self._now())
            for public_id in public_ids:
                for page in self._pages.get(public_id, ()):
                    page.update(states.get(public_id))


async def send_events(
    page: LivePage, send: Callable[[bytes], Awaitable[None]], *, settled: Callable[[PageState], bool]
) -> None:
    """Send one page's server-sent events until its stream ends."""
    loop = asyncio.get_running_loop()
    end_at = loop.time() + STREAM_S
    await _within_send_timeout(send(b"retry: %d\n\n" % _RECONNECT_MS))
    while not page.is_over() and (left_s := end_at - loop.time()) > 0:
        changed = await page.changed(wait_s_max=min(HEARTBEAT_S, left_s))
        if page.is_over():
            return
        if not changed:
            await _within_send_timeout(send(b"event: vivo\ndata: {}\n\n"))
        elif page.seen is not None:
            seen = page.seen
            data = b'{"status":"%s","version":%d}' % (seen.status.value.encode(), seen.version)
            await _within_send_timeout(send(b"event: estado\ndata: " + data + b"\n\n"))
            if settled(seen):
                return


async def _within_send_timeout(sending: Awaitable[None]) -> None:
    async with asyncio.timeout(_SEND_S_MAX):
        await sending
