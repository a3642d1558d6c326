"""Ask a bank for everything it received, page by page: each page is booked, then the progress is stored."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final, Generic, TypeVar

import structlog
from msgspec import Struct
from msgspec.structs import replace
from prometheus_client import Counter, Gauge

import sql
from banks.lists import BankPage, TooWide, UnreadableItem
from banks.protocol import Done, Unknown
from runtime.cells.number import HOME
from runtime.coordination.leases import take_lease
from runtime.postgres import session
from runtime.seal import UNREADABLE
from workers.context import Context
from workers.incoming.intervals import ENDLESS_PAGES, PAGES_MAX, Pass, Progress, after_page, begin, narrowed
from workers.incoming.suspended import count_from_zero

LEASE_S: Final = 120.0
"""Outlasts the slowest page, asked for and booked: the lease is renewed before each page."""

_log = structlog.get_logger()
_lag = Gauge(
    "reconciler_lag_seconds",
    "How far the bank was not yet asked for what it received, as last seen.",
    ["cell", "bank", "method"],
    multiprocess_mode="livemostrecent",
)
_unreadable = Counter("reconciler_unreadable", "Items a bank listed that could not be read.", ["bank", "method"])

Item = TypeVar("Item")
Page = Done[BankPage[Item]] | TooWide | Unknown


class BankList(Struct, Generic[Item], frozen=True, kw_only=True):
    """One list of one bank: how to ask for a page, how to book its items, and what an item is known by."""

    bank: str
    method: str
    fetch: Callable[[datetime, datetime, str | None, Pass], Awaitable[Page[Item]]]
    book: Callable[[list[Item]], Awaitable[int]]
    """Returns how many payments had not been booked."""
    known_by: Callable[[Item], str]


class Advance(Struct, frozen=True):
    """The result of an interval: payments that had not been booked, and whether the pass has more to ask for now."""

    found: int
    behind: bool


find_progress = sql.maybe("reconciled.progress", Progress)
set_progress = sql.run("reconciled.set_progress")
set_aside = sql.many("reconciled.set_aside", str)
forget_read_items = sql.run("reconciled.read_after_all")


async def measure_list_lag(context: Context, bank: str, method: str, list_pass: Pass) -> None:
    _unreadable.labels(bank, method)  # starts the series at 0, as count_from_zero
    count_from_zero(bank)
    async with session(context.pool) as conn:
        progress = await find_progress(conn, bank=bank, method=method, pass_name=list_pass.name)
    if progress is not None:
        _lag.labels(str(context.settings.cell), bank, method).set((context.now() - progress.until).total_seconds())


async def advance(context: Context, bank_list: BankList[Item], list_pass: Pass) -> Advance:
    """Ask about one interval of the pass, or the rest of it. Stops between two pages when the lease is lost."""
    async with session(context.pool) as conn:
        progress = await find_progress(conn, bank=bank_list.bank, method=bank_list.method, pass_name=list_pass.name)
    progress = begin(progress, list_pass, context.now())
    if progress is None:
        return Advance(0, behind=False)
    booked_count = pages = 0
    pages_ahead = PagesAhead(bank_list, list_pass, at_once=context.settings.pace.bank_list_pages)
    try:
        while progress.window_until is not None:
            if context.stopping.is_set() or not await hold(context, bank_list.bank, bank_list.method):
                return Advance(booked_count, behind=False)
            answer = await pages_ahead.fetch(progress)
            if isinstance(answer, Unknown):
                _log.info("reconciler_waits", bank=bank_list.bank, method=bank_list.method, detail=answer.detail)
                return Advance(booked_count, behind=False)
            if isinstance(answer, TooWide) or _has_too_many_pages(answer.value, progress):
                narrower = narrowed(progress, list_pass)
                if narrower is not None:
                    progress = narrower
                    await _store_progress(context, bank_list, list_pass, progress)
                    continue
                if isinstance(answer, TooWide):
                    # So its width is not the reason: the bank refuses the question, which a person has to look into.
                    _log.error("reconciler_refused", bank=bank_list.bank, method=bank_list.method, detail=answer.detail)
                    return Advance(booked_count, behind=False)
            page = answer.value
            pages_ahead.ask(progress, page)
            booked_count += await bank_list.book(page.items)
            await _note_unreadable(context, bank_list, page)
            pages += 1
            if page.following is not None and pages >= ENDLESS_PAGES:
                # The interval stays unread, so that nothing is passed over once the bank's list ends again.
                begun_anew = narrowed(progress, list_pass) or replace(progress, after=None)
                await _store_progress(context, bank_list, list_pass, begun_anew)
                _log.error("reconciler_list_endless", bank=bank_list.bank, method=bank_list.method, pages=pages)
                return Advance(booked_count, behind=False)
            progress = after_page(progress, page.following, page.pages or pages, list_pass)
            await _store_progress(context, bank_list, list_pass, progress)
    finally:
        await pages_ahead.close()
    return Advance(booked_count, behind=progress.until < progress.goal)


class PagesAhead(Generic[Item]):
    """Pages of one interval that are asked for before their turn, so that a slow bank is asked for several at once.
    They are booked in order all the same: the stored progress is one page."""

    def __init__(self, bank_list: BankList[Item], list_pass: Pass, *, at_once: int) -> None:
        self._bank_list = bank_list
        self._pass = list_pass
        self._at_once = at_once
        self._tasks: dict[tuple[datetime, datetime, str | None], asyncio.Task[Page[Item]]] = {}

    async def fetch(self, progress: Progress) -> Page[Item]:
        """The page that the progress has reached."""
        assert progress.window_until is not None
        task = self._tasks.pop((progress.until, progress.window_until, progress.after), None)
        if task is not None:
            return await task
        await self.close()  # pages of another interval, or pages that the bank names differently by now
        return await self._bank_list.fetch(progress.until, progress.window_until, progress.after, self._pass)

    def ask(self, progress: Progress, page: BankPage[Item]) -> None:
        """Begin to ask for the pages after this one."""
        assert progress.window_until is not None
        if page.following is None:
            return
        for after in (page.following, *page.later)[: self._at_once]:
            key = (progress.until, progress.window_until, after)
            if key not in self._tasks:
                self._tasks[key] = asyncio.ensure_future(self._bank_list.fetch(*key, self._pass))

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def hold(context: Context, bank: str, method: str) -> bool:
    """Take or renew the reconciler's lease, which one worker of the installation holds at a time."""
    async with session(context.pool) as conn:
        return await take_lease(conn, name=lease_name(bank, method), holder=context.worker, lease_s=LEASE_S)


def lease_name(bank: str, method: str) -> str:
    return f"reconciler:{method}:{bank}"


def _has_too_many_pages(page: BankPage[Item], progress: Progress) -> bool:
    return progress.after is None and page.pages is not None and page.pages > PAGES_MAX


async def _store_progress(context: Context, bank_list: BankList[Item], list_pass: Pass, progress: Progress) -> None:
    # A worker that has lost its lease may store this late: what it stores was booked, at worst pages are read again.
    async with session(context.pool) as conn:
        await set_progress(
            conn,
            bank=bank_list.bank,
            method=bank_list.method,
            until=progress.until,
            goal=progress.goal,
            window_until=progress.window_until,
            after=progress.after,
            width_s=progress.width_s,
            pass_name=list_pass.name,
        )


async def _note_unreadable(context: Context, bank_list: BankList[Item], page: BankPage[Item]) -> None:
    """Set aside and report items that cannot be read; drop those set aside earlier that can be read now."""
    # Every cell reads the same lists, so only home reports what cannot be read.
    unreadable: list[UnreadableItem] = page.unreadable if context.settings.cell == HOME else []
    abouts = {each.about for each in unreadable}
    async with session(context.pool) as conn:
        new = []
        if unreadable:
            new = await set_aside(
                conn,
                bank=bank_list.bank,
                method=bank_list.method,
                abouts=[each.about for each in unreadable],
                items=[
                    context.seal.seal(each.item, UNREADABLE, f"{bank_list.bank} {bank_list.method} {each.about}")
                    for each in unreadable
                ],
                now=context.now(),
            )
        readable = [about for about in map(bank_list.known_by, page.items) if about not in abouts]
        await forget_read_items(conn, bank=bank_list.bank, method=bank_list.method, abouts=readable)
    for about in new:
        _unreadable.labels(bank_list.bank, bank_list.method).inc()
        _log.error("bank_item_unreadable", bank=bank_list.bank, method=bank_list.method, about=about)
