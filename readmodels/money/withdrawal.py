"""A withdrawal as it is read: the document stored in read_withdrawal, the API's answer, and the list of withdrawals.

Withdrawals exist in production only, so nothing here has a mode.
"""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from domain.mode import Owner
from domain.money import reais
from domain.withdrawal import WithdrawalStatus
from readmodels.filters import OneOf
from readmodels.page import DocRow, ListFilters, TimePosition, time_page
from sql import Connection

STATUSES = tuple(each.value for each in WithdrawalStatus)


class WithdrawalDoc(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A withdrawal as stored in read_withdrawal.doc and, at its beginning, in the journal: cents and ISO instants."""

    withdrawal_id: str
    account_id: str
    amount_cents: int
    fee_cents: int = 0
    status: str
    version: int
    description: str | None = None
    external_id: str | None = None
    pix_key: str
    """Masked."""
    automatic: bool = False
    end_to_end_id: str | None = None
    failure_code: str | None = None
    created_at: str
    processing_at: str | None = None
    """When a worker was first about to ask the bank; not shown."""
    completed_at: str | None = None


class WithdrawalProjection(Struct, frozen=True, gc=False, kw_only=True):
    """A withdrawal. `fee` is debited in addition to `amount`; both are credited back when the withdrawal fails or is
    cancelled. `end_to_end_id` is that of the PIX that was sent."""

    withdrawal_id: str
    account_id: str
    amount: str
    fee: str
    status: str
    version: int
    description: str | None
    external_id: str | None
    pix_key: str
    automatic: bool
    end_to_end_id: str | None
    failure_code: str | None
    created_at: str
    completed_at: str | None
    test: bool


class WithdrawalFilters(ListFilters, frozen=True, kw_only=True):
    statuses: Annotated[tuple[str, ...], OneOf(STATUSES, "status")] = ()
    external_id: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None


class WithdrawalDestination(Struct, frozen=True, gc=False):
    """The destination of an account's withdrawals. `pix_key` is not masked, and may be a text that is no PIX key."""

    pix_key: str
    document: str
    """The CPF or CNPJ of the key's owner."""
    merchant: str
    merchant_document: str
    approved: bool


find_destination = sql.one("read_withdrawal.destination", WithdrawalDestination)
find_daily_withdrawal_floor = sql.maybe("read_withdrawal.daily", int)
"""The cents that a daily automatic withdrawal leaves in the balance; None without one. Takes `account_id`."""
find_withdrawal = sql.maybe("read_withdrawal.find", bytes)
_page = sql.list_of("read_withdrawal.page", DocRow)
_page_by_status = sql.list_of("read_withdrawal.by_status", DocRow)
read_withdrawal_doc = msgspec.json.Decoder(WithdrawalDoc).decode


async def withdrawal_doc(conn: Connection, withdrawal_id: UUID, account_id: UUID) -> WithdrawalDoc | None:
    """The withdrawal, or None when the account has no such withdrawal."""
    doc = await find_withdrawal(conn, withdrawal_id=withdrawal_id, account_id=account_id)
    return None if doc is None else read_withdrawal_doc(doc)


async def withdrawal_page(
    conn: Connection, owner: Owner, filters: WithdrawalFilters, after: TimePosition | None, limit: int
) -> tuple[list[WithdrawalDoc], TimePosition | None]:
    """One page in the order (created_at, withdrawal_id), and the position after which the next page begins."""
    rows, last = await time_page(
        _page_by_status if filters.statuses and filters.external_id is None else _page,
        conn,
        filters.order,
        after,
        limit,
        account_id=owner.account_id,
        statuses=filters.statuses or None,
        external_id=filters.external_id,
        since=filters.created_from,
        before=filters.created_to,
    )
    return [read_withdrawal_doc(row.doc) for row in rows], last


def project_withdrawal(doc: WithdrawalDoc) -> WithdrawalProjection:
    return WithdrawalProjection(
        withdrawal_id=doc.withdrawal_id,
        account_id=doc.account_id,
        amount=reais(doc.amount_cents),
        fee=reais(doc.fee_cents),
        status=doc.status,
        version=doc.version,
        description=doc.description,
        external_id=doc.external_id,
        pix_key=doc.pix_key,
        automatic=doc.automatic,
        end_to_end_id=doc.end_to_end_id,
        failure_code=doc.failure_code,
        created_at=doc.created_at,
        completed_at=doc.completed_at,
        test=False,
    )
