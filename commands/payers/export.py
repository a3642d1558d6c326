"""Export all data held of a payer at one merchant, unsealed: the payer may request them (LGPD, art. 18)."""

from base64 import b64decode
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from commands.people.audit import Origin, tell_account, tell_platform
from domain.instants import iso
from domain.mode import Owner
from domain.money import reais
from runtime.seal import CHARGE_PAYER, DESTINATION, MAIL_TO, PAYMENT_PAYER, SCHEDULE_PAYER, Seal
from sql import Connection

EXPORTED: Final = "payer.exported"
CHARGES_MAX: Final = 20_000
_PAGE: Final = 500


class ToldCharge(Struct, frozen=True):
    created_at: datetime
    charge_id: UUID
    payment_method: str
    status: str
    amount_cents: int
    external_id: str | None
    payer_sealed: bytes | None


class _ToldPayment(Struct, frozen=True):
    charge_id: UUID
    payment_id: UUID
    amount_cents: int
    paid_at: datetime
    payer_sealed: bytes | None


class _ToldMail(Struct, frozen=True):
    mail_id: UUID
    charge_id: UUID
    kind: str
    state: str
    to_sealed: bytes
    created_at: datetime


class _ToldRefund(Struct, frozen=True):
    charge_id: UUID
    refund_id: UUID
    amount_cents: int
    destination_sealed: str


class _ToldSchedule(Struct, frozen=True):
    schedule_id: UUID
    status: str
    created_at: datetime
    payer_sealed: bytes


_charges = sql.many("payer.told_charges", ToldCharge)
_payments = sql.many("payer.told_payments", _ToldPayment)
_mails = sql.many("payer.told_mails", _ToldMail)
_refunds = sql.many("payer.told_refunds", _ToldRefund)
_schedules = sql.many("payer.told_schedules", _ToldSchedule)


class ExportedPayer(Struct, frozen=True):
    """`charges` and `schedules` as JSON objects, oldest first; `cut`: there are more than CHARGES_MAX charges."""

    charges: list[dict[str, Any]]
    schedules: list[dict[str, Any]]
    cut: bool


async def export_payer(
    conn: Connection, owner: Owner, document_hash: str, origin: Origin, *, now: datetime, seal: Seal
) -> ExportedPayer:
    """Export the payer with this document at this account and in this mode, and record it in the audit logs.
    `document_hash` is Seal.blind of the bare document."""
    of: dict[str, Any] = {"account_id": owner.account_id, "test": owner.test, "document_hash": document_hash}
    told: list[dict[str, Any]] = []
    at, after = datetime.min.replace(tzinfo=now.tzinfo), UUID(int=0)
    while (page := await _charges(conn, **of, at=at, id=after, limit=_PAGE)) and len(told) < CHARGES_MAX:
        told += await _tell(conn, owner.account_id, page, seal)
        at, after = page[-1].created_at, page[-1].charge_id
    schedules = [
        {
            "schedule_id": str(each.schedule_id),
            "status": each.status,
            "created_at": iso(each.created_at),
            "payer": _opened(each.payer_sealed, SCHEDULE_PAYER, each.schedule_id, seal),
        }
        for each in await _schedules(conn, **of)
    ]
    facts = {"test": owner.test, "charges": len(told), "schedules": len(schedules)}
    async with conn.transaction():
        await tell_account(conn, owner.account_id, EXPORTED, facts, origin, now=now)
        await tell_platform(conn, owner.account_id, EXPORTED, facts, origin, now=now)
    return ExportedPayer(told, schedules, bool(page))


async def _tell(conn: Connection, account_id: UUID, charges: Sequence[ToldCharge], seal: Seal) -> list[dict[str, Any]]:
    told: dict[UUID, dict[str, Any]] = {
        each.charge_id: {
            "charge_id": str(each.charge_id),
            "created_at": iso(each.created_at),
            "payment_method": each.payment_method,
            "status": each.status,
            "amount": reais(each.amount_cents),
            "external_id": each.external_id,
            "payer": _opened(each.payer_sealed, CHARGE_PAYER, each.charge_id, seal),
            "payments": [],
            "mails": [],
            "transfers": [],
        }
        for each in charges
    }
    ids = list(told)
    for payment in await _payments(conn, charge_ids=ids, account_id=account_id):
        told[payment.charge_id]["payments"].append(
            {
                "payment_id": str(payment.payment_id),
                "amount": reais(payment.amount_cents),
                "paid_at": iso(payment.paid_at),
                "payer": _opened(payment.payer_sealed, PAYMENT_PAYER, payment.payment_id, seal),
            }
        )
    for mail in await _mails(conn, charge_ids=ids, account_id=account_id):
        told[mail.charge_id]["mails"].append(
            {
                "kind": mail.kind,
                "state": mail.state,
                "to": seal.open(mail.to_sealed, MAIL_TO, mail.mail_id).decode(),
                "created_at": iso(mail.created_at),
            }
        )
    for refund in await _refunds(conn, charge_ids=ids, account_id=account_id):
        told[refund.charge_id]["transfers"].append(
            {
                "refund_id": str(refund.refund_id),
                "amount": reais(refund.amount_cents),
                "destination": _opened(b64decode(refund.destination_sealed), DESTINATION, refund.refund_id, seal),
            }
        )
    return list(told.values())


def _opened(sealed: bytes | None, what: str, row_id: UUID, seal: Seal) -> Any:
    return None if sealed is None else msgspec.json.decode(seal.open(sealed, what, row_id))
