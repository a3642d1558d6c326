"""Export all data held of a payer at one merchant, unsealed: the payer may request them (LGPD, art. 18)."""

from base64 import b64decode
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from commands.people.audit import Origin, audit_for_account, audit_for_platform
from domain.instants import iso
from domain.mode import Owner
from domain.money import reais
from runtime.seal import CHARGE_PAYER, DESTINATION, MAIL_TO, PAYMENT_PAYER, SCHEDULE_PAYER, Seal
from sql import Connection

EXPORTED: Final = "payer.exported"
CHARGES_MAX: Final = 20_000
_PAGE: Final = 500


class ExportedCharge(Struct, frozen=True):
    created_at: datetime
    charge_id: UUID
    payment_method: str
    status: str
    amount_cents: int
    external_id: str | None
    payer_sealed: bytes | None


class _ExportedPayment(Struct, frozen=True):
    charge_id: UUID
    payment_id: UUID
    amount_cents: int
    paid_at: datetime
    payer_sealed: bytes | None


class _ExportedMail(Struct, frozen=True):
    mail_id: UUID
    charge_id: UUID
    kind: str
    state: str
    to_sealed: bytes
    created_at: datetime


class _ExportedRefund(Struct, frozen=True):
    charge_id: UUID
    refund_id: UUID
    amount_cents: int
    destination_sealed: str


class _ExportedSchedule(Struct, frozen=True):
    schedule_id: UUID
    status: str
    created_at: datetime
    payer_sealed: bytes


_find_charges = sql.many("payer.told_charges", ExportedCharge)
_find_payments = sql.many("payer.told_payments", _ExportedPayment)
_find_mails = sql.many("payer.told_mails", _ExportedMail)
_find_refunds = sql.many("payer.told_refunds", _ExportedRefund)
_find_schedules = sql.many("payer.told_schedules", _ExportedSchedule)


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
    payer: dict[str, Any] = {"account_id": owner.account_id, "test": owner.test, "document_hash": document_hash}
    docs: list[dict[str, Any]] = []
    last_at, last_id = datetime.min.replace(tzinfo=now.tzinfo), UUID(int=0)
    while (page := await _find_charges(conn, **payer, at=last_at, id=last_id, limit=_PAGE)) and len(docs) < CHARGES_MAX:
        docs += await _charge_docs(conn, owner.account_id, page, seal)
        last_at, last_id = page[-1].created_at, page[-1].charge_id
    schedules = [
        {
            "schedule_id": str(each.schedule_id),
            "status": each.status,
            "created_at": iso(each.created_at),
            "payer": _open_json(each.payer_sealed, SCHEDULE_PAYER, each.schedule_id, seal),
        }
        for each in await _find_schedules(conn, **payer)
    ]
    facts = {"test": owner.test, "charges": len(docs), "schedules": len(schedules)}
    async with conn.transaction():
        await audit_for_account(conn, owner.account_id, EXPORTED, facts, origin, now=now)
        await audit_for_platform(conn, owner.account_id, EXPORTED, facts, origin, now=now)
    return ExportedPayer(docs, schedules, bool(page))


async def _charge_docs(
    conn: Connection, account_id: UUID, charges: Sequence[ExportedCharge], seal: Seal
) -> list[dict[str, Any]]:
    docs: dict[UUID, dict[str, Any]] = {
        each.charge_id: {
            "charge_id": str(each.charge_id),
            "created_at": iso(each.created_at),
            "payment_method": each.payment_method,
            "status": each.status,
            "amount": reais(each.amount_cents),
            "external_id": each.external_id,
            "payer": _open_json(each.payer_sealed, CHARGE_PAYER, each.charge_id, seal),
            "payments": [],
            "mails": [],
            "transfers": [],
        }
        for each in charges
    }
    ids = list(docs)
    for payment in await _find_payments(conn, charge_ids=ids, account_id=account_id):
        docs[payment.charge_id]["payments"].append(
            {
                "payment_id": str(payment.payment_id),
                "amount": reais(payment.amount_cents),
                "paid_at": iso(payment.paid_at),
                "payer": _open_json(payment.payer_sealed, PAYMENT_PAYER, payment.payment_id, seal),
            }
        )
    for mail in await _find_mails(conn, charge_ids=ids, account_id=account_id):
        docs[mail.charge_id]["mails"].append(
            {
                "kind": mail.kind,
                "state": mail.state,
                "to": seal.open(mail.to_sealed, MAIL_TO, mail.mail_id).decode(),
                "created_at": iso(mail.created_at),
            }
        )
    for refund in await _find_refunds(conn, charge_ids=ids, account_id=account_id):
        docs[refund.charge_id]["transfers"].append(
            {
                "refund_id": str(refund.refund_id),
                "amount": reais(refund.amount_cents),
                "destination": _open_json(b64decode(refund.destination_sealed), DESTINATION, refund.refund_id, seal),
            }
        )
    return list(docs.values())


def _open_json(sealed: bytes | None, what: str, row_id: UUID, seal: Seal) -> Any:
    return None if sealed is None else msgspec.json.decode(seal.open(sealed, what, row_id))
