"""Refunds by transfer that wait for a decision of the platform's staff, and refunds already decided."""

from base64 import b64decode
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from domain.documents import masked
from domain.mode import Owner
from domain.withdrawal import masked_key
from readmodels.page import ListFilters, TimePosition, time_page
from runtime.seal import CHARGE_PAYER, DESTINATION, Seal
from sql import Connection


class HeldRefundFilters(ListFilters, frozen=True, kw_only=True):
    state: str = "open"


class HeldRow(Struct, frozen=True):
    """A held refund; `at` is when it was held."""

    at: datetime
    id: UUID
    account_id: UUID
    merchant: str
    kyc: str
    charge_id: UUID
    amount_cents: int
    why: str
    request: bytes
    state: str
    decided_by: str | None
    decided_at: datetime | None
    reason: str | None
    payer_sealed: bytes | None


class HeldRefund(Struct, frozen=True):
    """A held refund with its destination and payer. PIX key and documents are masked, and None when the sealed data
    cannot be opened any more."""

    row: HeldRow
    pix_key: str | None
    document: str | None
    payer_name: str | None
    payer_document: str | None


class HeldTotal(Struct, frozen=True):
    rows: int
    cents: int
    oldest_at: datetime | None


class _Request(Struct, frozen=True):
    destination_sealed: str | None = None
    """None after the destination was erased."""


class _Destination(Struct, frozen=True):
    pix_key: str
    document: str


class _Payer(Struct, frozen=True):
    """The fields common to every form in which payers are sealed."""

    name: str | None = None
    document: str | None = None


_page = sql.list_of("held_refund.page", HeldRow)
_find = sql.maybe("held_refund.find", HeldRow)
held_total = sql.one("held_refund.total", HeldTotal)
_read_request = msgspec.json.Decoder(_Request).decode
_read_destination = msgspec.json.Decoder(_Destination).decode
_read_payer = msgspec.json.Decoder(_Payer).decode


async def held_refund_page(
    conn: Connection, owner: Owner, filters: HeldRefundFilters, after: TimePosition | None, limit: int
) -> tuple[Sequence[HeldRow], TimePosition | None]:
    """One page of held refunds over all accounts (`owner` is the platform), and the position after which the next page
    begins."""
    return await time_page(_page, conn, filters.order, after, limit, state=filters.state)


async def find_held_refund(conn: Connection, refund_id: UUID, *, seal: Seal) -> HeldRefund | None:
    row = await _find(conn, refund_id=refund_id)
    return None if row is None else shown(row, seal)


def shown(row: HeldRow, seal: Seal) -> HeldRefund:
    destination_sealed = _read_request(row.request).destination_sealed
    opened = None if destination_sealed is None else seal.opened(b64decode(destination_sealed), DESTINATION, row.id)
    destination = None if opened is None else _read_destination(opened)
    opened = None if row.payer_sealed is None else seal.opened(row.payer_sealed, CHARGE_PAYER, row.charge_id)
    payer = _Payer() if opened is None else _read_payer(opened)
    return HeldRefund(
        row,
        pix_key=None if destination is None else masked_key(destination.pix_key),
        document=None if destination is None else masked(destination.document),
        payer_name=payer.name,
        payer_document=masked(payer.document) if payer.document else None,
    )
