"""The staff section's reads: merchants over all accounts, and the state of bank, queues and webhooks."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from domain.documents import without_marks
from domain.identifiers import parse_id
from domain.merchants.address import is_complete
from domain.mode import Mode, Owner
from readmodels.page import ListFilters, TimePosition, time_page
from readmodels.reports import backlog
from sql import Connection

COUNT_MAX = 1_000
"""Waiting items are counted up to this number."""
FOUND_MAX = 50
"""Merchants returned by one search; to find others, staff type more of the name."""


class MerchantFilters(ListFilters, frozen=True, kw_only=True):
    """The filters of the list of merchants. `text`: an id, a document, a person's e-mail or the beginning of a name."""

    text: str | None = None
    kyc: str | None = None


class MerchantRow(Struct, frozen=True):
    """A merchant in the list; `address` is as stored, or None."""

    at: datetime
    id: UUID
    name: str
    document: str
    kyc: str
    address: bytes | None

    @property
    def complete(self) -> bool:
        """Whether the merchant can issue boletos: the address is complete, as banks require."""
        return is_complete(self.address)


class Merchant(Struct, frozen=True):
    account_id: UUID
    name: str
    document: str
    address: bytes | None
    kyc: str
    kyc_reason: str | None
    kyc_at: datetime | None
    receiving_key: str | None
    """The key under which its charges are received: its own, else the platform's; None when neither is set."""
    refunds_to_others: str | None
    """The reason why staff allow refunds by transfer to others than the payer; None when they do not."""
    created_at: datetime
    balance_cents: int
    webhook_url: str | None

    @property
    def complete(self) -> bool:
        return is_complete(self.address)


class Queue(Struct, frozen=True):
    """The number of items waiting in a queue; `due_at` is when the oldest item counted was due. `more`: there may be
    more than were counted."""

    name: str
    waiting: int
    due_at: datetime | None
    more: bool


class BankState(Struct, frozen=True):
    """The state of the work with the bank. Everything the bank received before `reconciled_until` is known here;
    `locations` counts the locations in the pool, `working` the orders that workers hold."""

    reconciled_until: datetime | None
    locations: int
    working: int


class KycCount(Struct, frozen=True):
    kyc: str
    merchants: int


class LaneCount(Struct, frozen=True):
    state: str
    lanes: int


_page_of_merchants = sql.list_of("platform.merchants", MerchantRow)
_find_named = sql.many("platform.merchants_named", MerchantRow)
_find_of_document = sql.many("platform.merchants_of_document", MerchantRow)
_find_of_person = sql.many("platform.merchants_of_person", MerchantRow)
_find_of_id = sql.many("platform.merchants_of_id", MerchantRow)
find_merchant = sql.maybe("platform.merchant", Merchant)
"""Takes `account_id`."""
names_of_merchants = sql.many("platform.merchant_names", str)
"""Merchants' names, the first `limit` in alphabetical order. Takes `limit`."""
_count_by_kyc = sql.many("platform.kyc_counts", KycCount)
find_suspended_at = sql.maybe("platform.suspension", datetime)
"""When PIX without a boleto was suspended; None while it is not."""
_find_queues = sql.many("platform.queues", Queue)
_find_bank_state = sql.one("platform.bank", BankState)
lanes_in_trouble = sql.many("platform.lanes_in_trouble", LaneCount)


async def merchant_page(
    conn: Connection, owner: Owner, filters: MerchantFilters, after: TimePosition | None, limit: int
) -> tuple[Sequence[MerchantRow], TimePosition | None]:
    """One page of the merchants (with one KYC state), and the position after which the next page begins; a search
    returns all it finds on one page."""
    if filters.text is not None:
        return await search_merchants(conn, filters.text), None
    return await time_page(_page_of_merchants, conn, filters.order, after, limit, kyc=filters.kyc)


async def search_merchants(conn: Connection, text: str) -> list[MerchantRow]:
    """The merchants that the text names, at most FOUND_MAX."""
    if (account_id := parse_id(text)) is not None:
        return await _find_of_id(conn, account_id=account_id)
    if "@" in text:
        return await _find_of_person(conn, email=text.lower())
    digits = without_marks(text)
    if digits.isascii() and digits.isdigit():
        merchants = await _find_of_document(conn, document=digits, limit=FOUND_MAX)
        if merchants:
            return merchants
    return await _find_named(conn, prefix=text, limit=FOUND_MAX)


async def kyc_counts(conn: Connection, states: Sequence[str]) -> list[KycCount]:
    return await _count_by_kyc(conn, states=list(states), limit=COUNT_MAX)


async def queues(conn: Connection, *, now: datetime) -> list[Queue]:
    """The queues of production. Webhooks are counted once they are due; those to failing receivers are no lag of the
    workers, and a queue of their own."""
    most = backlog.COUNTED_MAX
    due = await backlog.find_due_deliveries(conn, now=now, counted_max=most, lanes_max=backlog.LANES_MAX)
    full = sum(each.waiting for each in due) >= most
    webhooks = [
        Queue(each.queue, each.waiting, each.oldest, full and each.oldest is not None)
        for each in due
        if each.mode == Mode.PRODUCTION
    ]
    return [*await _find_queues(conn, limit=COUNT_MAX), *webhooks]


async def bank_state(conn: Connection) -> BankState:
    return await _find_bank_state(conn, limit=COUNT_MAX)
