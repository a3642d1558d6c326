"""Money: the statement with the balance after each line, and the payments, odd ones first if asked for."""

from typing import Any
from uuid import UUID

from litestar.response import Response
from msgspec.structs import replace

from domain.charge import Anomaly
from readmodels.ledger import (
    ENTRY_TYPES as ALL_TYPES,
)
from readmodels.ledger import (
    LedgerFilters,
    LedgerPosition,
    find_balance,
    ledger_page,
)
from readmodels.page import Order
from readmodels.payment_list import PaymentFilters, PaymentPosition, payment_page
from runtime.postgres import session
from web.painel.lists import PAGE, Asked, walk
from web.painel.shown import EntryRow, PaymentRow, entry_row, payment_row
from web.painel.visit import Visit
from web.painel.words import ANOMALIES, ENTRY_TYPES

PAID_BY = {"pix": "Pix", "boleto": "Boleto"}
_LEDGER = ("type", "created_from", "created_to")
_PAYMENTS = ("paid_from", "paid_to", "charge_id", "external_id", "method", "anomaly")


async def show_ledger(visit: Visit) -> Response[Any]:
    """Production only, as every balance here."""
    asked = Asked(visit.request, _LEDGER)
    created_from, created_to = asked.days("created_from", "created_to")
    filters = LedgerFilters(type=asked.choice("type", ALL_TYPES), created_from=created_from, created_to=created_to)
    account_id, test = visit.owner
    values: dict[str, object] = {"asked": asked, "types": ENTRY_TYPES, "walked": None, "balance_cents": None}
    if asked.faults:
        return visit.show("ledger.html", values, status=400)

    async def fetch(order: Order, after: LedgerPosition | None) -> tuple[list[EntryRow], LedgerPosition | None]:
        async with session(visit.pool) as conn:
            items, last = await ledger_page(conn, account_id, test, replace(filters, order=order), after, PAGE)
        return [entry_row(item, visit) for item in items], last

    values["walked"] = await walk(
        visit, asked, "ledger", filters, LedgerPosition, fetch, lambda row: LedgerPosition(row.sequence)
    )
    async with session(visit.pool) as conn:
        values["balance_cents"] = (await find_balance(conn, account_id=account_id, test=test)).balance_cents
    return visit.show("ledger.html", values)


async def show_payments(visit: Visit) -> Response[Any]:
    asked = Asked(visit.request, _PAYMENTS)
    paid_from, paid_to = asked.days("paid_from", "paid_to")
    filters = PaymentFilters(
        paid_from=paid_from,
        paid_to=paid_to,
        charge_id=asked.uuid("charge_id"),
        external_id=asked.word("external_id"),
        method=asked.choice("method", tuple(PAID_BY)),
        anomaly=asked.choice("anomaly", [str(each) for each in Anomaly]),
    )
    account_id, test = visit.owner
    values: dict[str, object] = {"asked": asked, "anomalies": ANOMALIES, "methods": PAID_BY, "walked": None}
    if asked.faults:
        return visit.show("payments.html", values, status=400)

    async def fetch(order: Order, after: PaymentPosition | None) -> tuple[list[PaymentRow], PaymentPosition | None]:
        async with session(visit.pool) as conn:
            items, last = await payment_page(
                conn, account_id, test, replace(filters, order=order), after, PAGE, seal=visit.seal
            )
        return [payment_row(item, visit) for item in items], last

    values["walked"] = await walk(
        visit,
        asked,
        "payments",
        filters,
        PaymentPosition,
        fetch,
        lambda row: PaymentPosition(row.paid_at, UUID(row.payment_id)),
    )
    return visit.show("payments.html", values)
