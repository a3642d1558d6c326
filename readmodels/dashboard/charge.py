"""One charge as its merchant's people see it: beside the API's projection, its payer and its history."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from domain.mode import Owner
from readmodels.charges.charge import PaymentDoc
from readmodels.dashboard.known_payer import KnownPayer, read_payer
from runtime.seal import CHARGE_PAYER, MAIL_TO, SCHEDULE_PAYER, Seal
from sql import Connection

LIFE_MAX = 50
PAYMENTS_MAX = 20
ACTOR = "painel:"
"""With an audit_id appended, the journal's actor for an action in the dashboard."""


class ChargeJournalRow(Struct, frozen=True):
    """A row of the journal. `actor` is a client_id, a part of this service, or ACTOR and an audit_id."""

    kind: str
    recorded_at: datetime
    actor: str
    request_id: str | None
    version: int


class Written(Struct, frozen=True):
    """An e-mail to the payer. `state`: waiting | sending | sent | failed | skipped; `to` is the whole address."""

    kind: str
    state: str
    to: str
    created_at: datetime
    sent_at: datetime | None


class _MailRow(Struct, frozen=True):
    mail_id: UUID
    kind: str
    state: str
    to_sealed: bytes
    created_at: datetime
    sent_at: datetime | None


class _SealedPayer(Struct, frozen=True):
    charge_id: UUID
    payer_sealed: bytes


class _SealedSchedulePayer(Struct, frozen=True):
    schedule_id: UUID
    payer_sealed: bytes


class _ActorEmail(Struct, frozen=True):
    audit_id: UUID
    email: str


_find_payers = sql.many("dashboard.payers", _SealedPayer)
_find_schedule_payers = sql.many("dashboard.schedule_payers", _SealedSchedulePayer)
_find_journal_rows = sql.many("dashboard.life", ChargeJournalRow)
_find_actor_emails = sql.many("audit.who", _ActorEmail)
_find_mails = sql.many("dashboard.mails", _MailRow)
_find_payments = sql.many("dashboard.payments", bytes)
read_payment_doc = msgspec.json.Decoder(PaymentDoc).decode


async def payers_of_charges(
    conn: Connection, charge_ids: Sequence[UUID], owner: Owner, *, seal: Seal
) -> dict[UUID, KnownPayer]:
    """The payers of the account's charges among these (one page of a list at most), by charge. Charges without a payer,
    or whose payer was erased, are left out."""
    if not charge_ids:
        return {}
    rows = await _find_payers(conn, charge_ids=charge_ids, account_id=owner.account_id, test=owner.test)
    payers_json = {row.charge_id: seal.opened(row.payer_sealed, CHARGE_PAYER, row.charge_id) for row in rows}
    return {charge_id: read_payer(payer) for charge_id, payer in payers_json.items() if payer is not None}


async def payers_of_schedules(
    conn: Connection, schedule_ids: Sequence[UUID], account_id: UUID, *, seal: Seal
) -> dict[UUID, KnownPayer]:
    """The payers of the account's schedules among these (one page of a list at most), by schedule. Schedules whose
    payer was erased, as happens some time after a schedule's end, are left out."""
    if not schedule_ids:
        return {}
    rows = await _find_schedule_payers(conn, schedule_ids=schedule_ids, account_id=account_id)
    payers_json = {row.schedule_id: seal.opened(row.payer_sealed, SCHEDULE_PAYER, row.schedule_id) for row in rows}
    return {schedule_id: read_payer(payer) for schedule_id, payer in payers_json.items() if payer is not None}


async def journal_rows_of_charge(conn: Connection, charge_id: UUID, owner: Owner) -> list[ChargeJournalRow]:
    """The latest LIFE_MAX journal rows of the account's charge after its creation, oldest first."""
    return await _find_journal_rows(
        conn, charge_id=charge_id, account_id=owner.account_id, test=owner.test, limit=LIFE_MAX
    )


async def payments_of(conn: Connection, charge_id: UUID, owner: Owner) -> list[PaymentDoc]:
    """The charge's payments, anomalous payments included, newest first; at most PAYMENTS_MAX."""
    docs = await _find_payments(
        conn, charge_id=charge_id, account_id=owner.account_id, test=owner.test, limit=PAYMENTS_MAX
    )
    return [read_payment_doc(doc) for doc in docs]


async def mails_of_charge(conn: Connection, charge_id: UUID, account_id: UUID, *, seal: Seal) -> list[Written]:
    """The e-mails about the charge, oldest first; at most LIFE_MAX."""
    rows = await _find_mails(conn, charge_id=charge_id, account_id=account_id, limit=LIFE_MAX)
    return [
        Written(
            kind=row.kind,
            state=row.state,
            to=(seal.opened(row.to_sealed, MAIL_TO, row.mail_id) or b"").decode(),
            created_at=row.created_at,
            sent_at=row.sent_at,
        )
        for row in rows
    ]


async def actor_emails(conn: Connection, account_id: UUID, life: Sequence[ChargeJournalRow]) -> dict[str, str]:
    """The e-mail of each actor who acted in the dashboard."""
    audit_ids = [UUID(each.actor.removeprefix(ACTOR)) for each in life if each.actor.startswith(ACTOR)]
    if not audit_ids:
        return {}
    return {
        f"{ACTOR}{row.audit_id}": row.email
        for row in await _find_actor_emails(conn, audit_ids=audit_ids, account_id=account_id)
    }
