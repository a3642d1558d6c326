"""The pieces of work whose cost `bench.growth` compares. Each returns how many items it created, paid, found or listed,
so that work that did less than its name says is noticed and not measured."""

import random
import secrets
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import NamedTuple
from uuid import UUID

from bench.growth_books import Books
from bench.hot_account import pix_charge
from bench.year import fold_all
from commands.charges.create_pix import create_pix
from commands.charges.pay import Confirmation, confirm_payments
from domain.charge import Charge, Status
from domain.merchants.fees import NO_FEES
from domain.mode import Mode, Owner
from readmodels.charges.charge import charges_by_id
from readmodels.charges.charge_list import ChargeFilters, charge_page, charge_sums
from readmodels.money.ledger import balance
from readmodels.page import LIMIT_DEFAULT, SequencePosition, SortOrder, TimePosition
from readmodels.webhooks.event_list import EventFilters, event_page
from runtime.ids import first_id
from runtime.postgres import session, transaction
from workers.orders.lease import LEASE, settle
from workers.orders.pix import claim

BATCH = 100
PAGE = LIMIT_DEFAULT
# Enough for stable medians of times that vary by a third on a shared machine. No more, because each round adds two
# hundred charges to the small database.
ROUNDS = 30
_PAGES_BEFORE_MAX = 9_999
_LONG_AGO = timedelta(days=300)
_LOOKUP_SPAN = timedelta(days=364)  # not the whole year: its last hours may have no charge of this merchant
_CENTS = 14_990
_READS_PER_ROUND = 3

# The merchant's first charge at or after each of the given moments.
_CHARGES_AT = """
SELECT c.charge_id FROM unnest($2::uuid[]) AS m (id)
CROSS JOIN LATERAL (
    SELECT charge_id FROM read_charge WHERE charge_id >= m.id AND account_id = $1 AND NOT test
    ORDER BY charge_id LIMIT 1
) c
"""
# By OFFSET, which only the bench may use: a client that paged there would have the previous page's last row.
_LAST_BEFORE = """
SELECT created_at, charge_id FROM read_charge WHERE account_id = $1 AND NOT test
ORDER BY created_at DESC, charge_id DESC OFFSET $2 LIMIT 1
"""
_COUNTS = """
SELECT (SELECT count(*) FROM webhook_delivery WHERE account_id = $1 AND NOT test) AS deliveries,
       (SELECT count(*) FROM bank_order_done WHERE account_id = $1 AND order_id >= $2) AS orders
"""


class Work(NamedTuple):
    name: str
    items: int
    """The count that `run` must return."""
    run: Callable[[], Awaitable[int]]
    times: int = 1
    """How often the work runs in a round. Reads run more often, because they add nothing to the database."""


class Round:
    """The work in one of the databases, round by round: a round creates charges, registers them and pays them."""

    def __init__(self, books: Books) -> None:
        self._pool, self._seal, self._charges = books.pool, books.seal, books.charges
        self._owner = Owner(books.account_id, Mode.PRODUCTION)
        self._numbers = count(1_000_000_000)
        self._began = datetime.now(UTC)
        # The 10,000th page, or an earlier one, so that in every round a further page follows and as many rows are read.
        self.deep_page = min(_PAGES_BEFORE_MAX, books.charges // PAGE - ROUNDS - 2) + 1
        self._deep_position: TimePosition | None = None
        self._old_filters = ChargeFilters()
        self._pending_ids: list[UUID] = []
        self._lookup_ids: list[UUID] = []
        self._events = 0
        self._paid = self._settled = 0

    def works(self) -> list[Work]:
        pending = ChargeFilters(statuses=("pending",))
        return [
            Work("creation of 100, references at random", BATCH, lambda: self._create([None] * BATCH)),
            Work("creation of 1", 1, lambda: self._create(self._references(1))),
            Work("creation of 100", BATCH, lambda: self._create(self._references(BATCH))),
            Work("orders claimed and settled, 100", BATCH, self._register),
            Work("payment of 1", 1, lambda: self._pay(1)),
            Work("payment of 100", BATCH, lambda: self._pay(BATCH)),
            Work("look-up of 1", 1, lambda: self._look_up(1), _READS_PER_ROUND),
            Work("look-up of 100", BATCH, lambda: self._look_up(BATCH), _READS_PER_ROUND),
            Work("list, first page", PAGE, lambda: self._page(ChargeFilters(), None), _READS_PER_ROUND),
            Work(
                "list, 10,000th page or the last",
                PAGE,
                lambda: self._page(ChargeFilters(), self._deep_position),
                _READS_PER_ROUND,
            ),
            Work("list, days long ago", PAGE, lambda: self._page(self._old_filters, None), _READS_PER_ROUND),
            Work("list by status", PAGE, lambda: self._page(pending, None), _READS_PER_ROUND),
            Work("feed, the newest 100", BATCH, lambda: self._feed(EventFilters(), None), _READS_PER_ROUND),
            Work("feed, 100 from its middle", BATCH, self._catch_up, _READS_PER_ROUND),
            Work("balance", 1, self._balance, _READS_PER_ROUND),
            Work("totals folded", 1, self._fold),
            Work("summary", 1, self._summary, _READS_PER_ROUND),
        ]

    async def begin(self, number: int) -> None:
        """Chooses what this round reads, at the same moments of the year in each database: charges to look up, from the
        whole year; the next page and the next day of the lists, because pages differ in cost (a paid charge costs more
        than a pending one)."""
        self._pending_ids.clear()
        self._old_filters = ChargeFilters(created_to=self._began - _LONG_AGO + number * timedelta(days=1))
        chance, year = random.Random(number), self._began - timedelta(days=365)
        moments = [first_id(year + chance.random() * _LOOKUP_SPAN) for _ in range(_READS_PER_ROUND * (BATCH + 1))]
        account_id = self._owner.account_id
        async with session(self._pool) as conn:
            self._lookup_ids = [row[0] for row in await conn.fetch(_CHARGES_AT, account_id, moments)]
            self._events = await conn.fetchval(
                "SELECT event_sequence FROM account_clock WHERE account_id = $1 AND NOT test", account_id
            )
            before = await conn.fetchrow(_LAST_BEFORE, account_id, (self.deep_page - 1 + number) * PAGE - 1)
        assert len(self._lookup_ids) == len(moments)
        assert before is not None
        self._deep_position = TimePosition(before["created_at"], before["charge_id"])

    async def check(self) -> tuple[int, int]:
        """Checks the orders; returns how many payments were booked, and how many deliveries were written."""
        async with session(self._pool) as conn:
            counts = await conn.fetchrow(_COUNTS, self._owner.account_id, first_id(self._began))
        assert counts is not None
        assert counts["orders"] == self._settled
        return self._paid, counts["deliveries"]

    def _references(self, many: int) -> list[str | None]:
        return [f"order-{next(self._numbers)}" for _ in range(many)]

    async def _create(self, references: Sequence[str | None]) -> int:
        now, account = datetime.now(UTC), str(self._owner.account_id)
        charges = [pix_charge(account, "bench", now, test=False, external_id=each) for each in references]
        async with session(self._pool) as conn:
            created = await create_pix(conn, charges)
        self._pending_ids += sorted(created)
        self._charges += len(created)
        return len(created)

    async def _register(self) -> int:
        now = datetime.now(UTC)
        async with session(self._pool) as conn:
            orders = await claim(conn, lane="pix", test=False, since=None, now=now, limit=BATCH, lease=LEASE)
            settled = await settle(conn, [(order, "done", None) for order in orders], now=now)
        self._settled += len(settled)
        return len(settled)

    async def _pay(self, many: int) -> int:
        now = datetime.now(UTC)
        received = [
            Confirmation(charge_id=each, end_to_end_id=_end_to_end_id(now), amount_cents=_CENTS, paid_at=now)
            for each in [self._pending_ids.pop() for _ in range(many)]
        ]
        async with transaction(self._pool) as conn:
            outcomes = await confirm_payments(conn, received, now=now, seal=self._seal, fees=NO_FEES)
        paid = sum(isinstance(each, Charge) and each.status == Status.PAID for each in outcomes)
        self._paid += paid
        return paid

    async def _look_up(self, many: int) -> int:
        lookups = [(self._lookup_ids.pop(), self._owner) for _ in range(many)]
        async with session(self._pool) as conn:
            charges = await charges_by_id(conn, lookups)
        return sum(each is not None for each in charges)

    async def _page(self, filters: ChargeFilters, after: TimePosition | None) -> int:
        async with session(self._pool) as conn:
            page, next_position = await charge_page(conn, self._owner, filters, after, PAGE)
        assert next_position is not None
        return len(page)

    async def _feed(self, filters: EventFilters, after: SequencePosition | None) -> int:
        async with session(self._pool) as conn:
            page, _ = await event_page(conn, self._owner, filters, after, BATCH)
        return len(page)

    async def _catch_up(self) -> int:
        """Reads the feed like a client that has read half of it."""
        return await self._feed(EventFilters(order=SortOrder.ASC), SequencePosition(self._events // 2))

    async def _balance(self) -> int:
        async with session(self._pool) as conn:
            await balance(conn, self._owner)
        return 1

    async def _fold(self) -> int:
        await fold_all(self._pool)
        return 1

    async def _summary(self) -> int:
        async with session(self._pool) as conn:
            sums = await charge_sums(conn, self._owner, ChargeFilters())
        assert sum(each.count for each in sums.values()) == self._charges
        return 1


def _end_to_end_id(now: datetime) -> str:
    """An EndToEndId as a bank makes it: the bank's own number, the minute, eleven characters."""
    return f"E99999997{now:%Y%m%d%H%M}{secrets.token_hex(6)[:11]}"
