"""Withdraw: begin a withdrawal, cancel it, and carry it through what the bank says; and the daily one by itself.

Nothing here concerns a charge, so it does not travel with the wishes of commands/charges/change.py: a withdrawal is one
row,
locked, and one transaction writes what became of it, moves the account's clock on, and leaves journal, read tables,
webhooks and the bank's order behind. The wallet is debited at the beginning and credited back at a cancellation or a
failure.
"""

from base64 import b64encode
from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from commands.bank_orders.kinds import SendOrder
from commands.journal import Clock, JournalRow, advance_clocks, append, enqueue_deliveries
from domain.errors import Code, Refused
from domain.events import EventKind, withdrawal_body
from domain.instants import iso
from domain.money import PIX_CENTS_MAX
from domain.withdrawal import (
    MINIMUM_CENTS,
    Withdrawal,
    WithdrawalFailure,
    WithdrawalStatus,
    WithdrawalTerms,
    after,
    begin,
    cancel,
    masked_key,
)
from readmodels.money.withdrawal import WithdrawalDoc, withdrawal_doc
from readmodels.projector import Projection, project
from runtime.ids import new_id
from sql import Connection

CREATED: Final = "withdrawal.created"
PROCESSING: Final = "withdrawal.processing"
CANCELLED: Final = "withdrawal.cancelled"
DAILY: Final = "daily-withdrawal"
"""Who asks for the one that nobody asks for."""


class NewWithdrawal(Struct, frozen=True, gc=False, kw_only=True):
    """A valid request. `withdrawal_id` is chosen by the door, so that a repeated write is recognised."""

    account_id: UUID
    key: str
    fingerprint: bytes
    withdrawal_id: UUID
    amount_cents: int
    description: str | None
    external_id: str | None
    actor: str
    request_id: str


class Ended(Struct, frozen=True, gc=False, kw_only=True):
    """What the bank says became of it. No failure code: the money is with the merchant."""

    account_id: UUID
    withdrawal_id: UUID
    end_to_end_id: str | None = None
    failure: WithdrawalFailure | None = None


class _Order(Struct, frozen=True, gc=False):
    order_id: UUID


class _Account(Struct, frozen=True, gc=False):
    account_id: UUID


class _Approved(Struct, frozen=True, gc=False):
    approved: bool


class _Daily(Struct, frozen=True, gc=False):
    account_id: UUID
    keep_cents: int
    pix_key: str
    document: str
    balance_cents: int


class _WithdrawalChange(Struct, frozen=True, gc=False, kw_only=True):
    """One thing that happened to a withdrawal: a journal row, and what comes with it."""

    withdrawal: Withdrawal
    kind: str
    fields: dict[str, Any]
    """The document when it begins, afterwards what changes in it beside status and version."""
    external_id: str | None
    entry: str | None = None
    cents: int = 0
    """Of the entry; credits are positive. A debit must be covered by the balance."""
    event_id: UUID | None = None
    event_body: bytes | None = None
    actor: str
    request_id: str | None = None


find_terms = sql.maybe("withdrawal.terms", WithdrawalTerms)
insert_asked = sql.maybe("withdrawal.insert_asked", _Order)
insert_daily = sql.maybe("withdrawal.insert_daily", _Order)
lock = sql.maybe("withdrawal.lock", Withdrawal)
hold_approved = sql.one("withdrawal.approved", _Approved)
store = sql.run("withdrawal.store")
abandon_order = sql.run("withdrawal.abandon_order")
set_automatic = sql.maybe("withdrawal.set_automatic", _Account)
end_automatic = sql.maybe("withdrawal.end_automatic", _Account)
take_daily = sql.maybe("withdrawal.take_daily", _Daily)
looked = sql.run("withdrawal.looked")
_encode = msgspec.json.Encoder().encode


# Begin


async def create_withdrawal(
    conn: Connection, new: NewWithdrawal, *, now: datetime, grace_s: float
) -> WithdrawalDoc | None:
    """Begin it, to be sent when `grace_s` are over; None when the key made something before.

    Raises Refused: KYC_REQUIRED, VALIDATION_ERROR (no PIX key), WITHDRAWAL_BELOW_MINIMUM, INSUFFICIENT_BALANCE. Nothing
    may stay of the transaction then, the key included.
    """
    terms = await find_terms(conn, account_id=new.account_id)
    if terms is None:
        raise Refused(Code.UNAUTHENTICATED)
    withdrawal = begin(terms, withdrawal_id=new.withdrawal_id, amount_cents=new.amount_cents, now=now)
    ordered = await insert_asked(
        conn,
        account_id=new.account_id,
        key=new.key,
        fingerprint=new.fingerprint,
        withdrawal_id=new.withdrawal_id,
        amount_cents=new.amount_cents,
        request=_encode(_order(terms, new.amount_cents, new.description)),
        send_at=now + timedelta(seconds=grace_s),
        now=now,
    )
    if ordered is None:
        return None
    doc = _doc(withdrawal, terms.pix_key, description=new.description, external_id=new.external_id)
    await _record_beginning(conn, withdrawal, doc, actor=new.actor, request_id=new.request_id, now=now)
    return doc


async def daily_withdrawal(conn: Connection, *, day: date, now: datetime, grace_s: float) -> Withdrawal | bool:
    """Look at one account that wants to be paid out daily and was not looked at on `day`; False when there is none.

    The withdrawal begun, or True when there was nothing to send: less than the minimum above what is to stay, no PIX
    key, or this day's is made already. Raises Refused(INSUFFICIENT_BALANCE) when the balance fell meanwhile: nothing
    may stay of the transaction, and the account is looked at again.
    """
    found = await take_daily(conn, day=day)
    if found is None:
        return False
    await looked(conn, account_id=found.account_id, day=day)
    amount_cents = min(found.balance_cents - found.keep_cents, PIX_CENTS_MAX)
    if amount_cents < MINIMUM_CENTS:
        return True
    terms = WithdrawalTerms(found.account_id, approved=True, pix_key=found.pix_key, document=found.document)
    try:
        withdrawal = begin(terms, withdrawal_id=new_id(), amount_cents=amount_cents, now=now)
    except Refused:
        return True
    ordered = await insert_daily(
        conn,
        account_id=found.account_id,
        withdrawal_id=withdrawal.withdrawal_id,
        amount_cents=amount_cents,
        day=day,
        request=_encode(_order(terms, amount_cents, None)),
        send_at=now + timedelta(seconds=grace_s),
        now=now,
    )
    if ordered is None:
        return True
    doc = _doc(withdrawal, terms.pix_key, automatic=True)
    await _record_beginning(conn, withdrawal, doc, actor=DAILY, request_id=None, now=now)
    return withdrawal


async def set_daily(conn: Connection, account_id: UUID, *, keep_cents: int) -> None:
    """Have what lies above `keep_cents` sent once a day; Refused(WALLET_ACCOUNT_NOT_FOUND) for an unknown account."""
    if await set_automatic(conn, account_id=account_id, keep_cents=keep_cents) is None:
        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND)


async def end_daily(conn: Connection, account_id: UUID) -> None:
    """Withdrawals only when somebody asks for one; refused as `set_daily`."""
    if await end_automatic(conn, account_id=account_id) is None:
        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND)


# What becomes of it


async def cancel_withdrawal(
    conn: Connection, withdrawal_id: UUID, account_id: UUID, *, actor: str, request_id: str | None, now: datetime
) -> WithdrawalDoc:
    """Cancel a pending one and give the money back to the wallet.

    Refused: WITHDRAWAL_NOT_FOUND, WITHDRAWAL_NOT_CANCELLABLE.
    """
    found = await lock(conn, withdrawal_id=withdrawal_id, account_id=account_id)
    doc = await withdrawal_doc(conn, withdrawal_id, account_id)
    if found is None or doc is None:
        raise Refused(Code.WITHDRAWAL_NOT_FOUND)
    withdrawal = cancel(found)
    await _store(conn, withdrawal)
    await abandon_order(conn, withdrawal_id=withdrawal_id)
    await _record(
        conn,
        _WithdrawalChange(
            withdrawal=withdrawal,
            kind=CANCELLED,
            fields={"completed_at": iso(now)},
            external_id=doc.external_id,
            entry="withdrawal_reversal",
            cents=withdrawal.amount_cents,
            actor=actor,
            request_id=request_id,
        ),
        now=now,
    )
    return await _found(conn, withdrawal)


async def start_sending(
    conn: Connection, withdrawal_id: UUID, account_id: UUID, *, now: datetime, actor: str = "bank"
) -> WithdrawalDoc | None:
    """From here on the bank may be asked: it is `processing`, and cannot be cancelled. None when it has ended.

    Refused(KYC_REQUIRED) for a pending one whose account is no longer approved: it stays pending until it is again.
    What the bank may have been asked about goes on, because only the bank knows what became of it.
    """
    found = await lock(conn, withdrawal_id=withdrawal_id, account_id=account_id)
    assert found is not None, "orders are written with their withdrawals"
    if found.status == WithdrawalStatus.PENDING:
        await check_approved(conn, account_id)
        withdrawal = after(found, WithdrawalStatus.PROCESSING)
        await _store(conn, withdrawal)
        what = _WithdrawalChange(
            withdrawal=withdrawal, kind=PROCESSING, fields={"processing_at": iso(now)}, external_id=None, actor=actor
        )
        await _record(conn, what, now=now)
        return await _found(conn, withdrawal)
    return await _found(conn, found) if found.status == WithdrawalStatus.PROCESSING else None


async def check_approved(conn: Connection, account_id: UUID) -> None:
    """Refused(KYC_REQUIRED) when the account is not approved; when it is, it stays so until the transaction ends."""
    if not (await hold_approved(conn, account_id=account_id)).approved:
        raise Refused(Code.KYC_REQUIRED)


async def end_withdrawal(conn: Connection, ended: Ended, *, now: datetime, actor: str = "bank") -> None:
    """End it as the bank says it ended; one that has ended before stays as it is."""
    found = await lock(conn, withdrawal_id=ended.withdrawal_id, account_id=ended.account_id)
    assert found is not None, "orders are written with their withdrawals"
    if found.status != WithdrawalStatus.PROCESSING:
        return
    failed = ended.failure is not None
    withdrawal = after(found, WithdrawalStatus.FAILED if failed else WithdrawalStatus.SUCCEEDED)
    await _store(conn, withdrawal)
    doc = await _found(conn, withdrawal)
    kind = EventKind.WITHDRAWAL_FAILED if failed else EventKind.WITHDRAWAL_SUCCEEDED
    event_id = new_id()
    body = withdrawal_body(
        kind,
        withdrawal,
        event_id=event_id,
        completed_at=now,
        external_id=doc.external_id,
        end_to_end_id=ended.end_to_end_id,
        failure_code=ended.failure,
    )
    told = {"end_to_end_id": ended.end_to_end_id, "failure_code": ended.failure}
    await _record(
        conn,
        _WithdrawalChange(
            withdrawal=withdrawal,
            kind=kind,
            fields={"completed_at": iso(now), **{name: value for name, value in told.items() if value is not None}},
            external_id=doc.external_id,
            entry="withdrawal_reversal" if failed else None,
            cents=withdrawal.amount_cents if failed else 0,
            event_id=event_id,
            event_body=body,
            actor=actor,
        ),
        now=now,
    )


# Private


def _order(terms: WithdrawalTerms, amount_cents: int, description: str | None) -> SendOrder:
    return SendOrder(amount_cents=amount_cents, pix_key=terms.pix_key, document=terms.document, description=description)


def _doc(
    withdrawal: Withdrawal,
    pix_key: str,
    *,
    description: str | None = None,
    external_id: str | None = None,
    automatic: bool = False,
) -> WithdrawalDoc:
    return WithdrawalDoc(
        withdrawal_id=str(withdrawal.withdrawal_id),
        account_id=str(withdrawal.account_id),
        amount_cents=withdrawal.amount_cents,
        status=withdrawal.status,
        version=withdrawal.version,
        description=description,
        external_id=external_id,
        pix_key=masked_key(pix_key),
        automatic=automatic,
        created_at=iso(withdrawal.created_at),
    )


async def _store(conn: Connection, withdrawal: Withdrawal) -> None:
    await store(
        conn,
        withdrawal_id=withdrawal.withdrawal_id,
        account_id=withdrawal.account_id,
        status=withdrawal.status,
        version=withdrawal.version,
    )


async def _found(conn: Connection, withdrawal: Withdrawal) -> WithdrawalDoc:
    doc = await withdrawal_doc(conn, withdrawal.withdrawal_id, withdrawal.account_id)
    assert doc is not None, "every withdrawal has its read row"
    return doc


async def _record_beginning(
    conn: Connection,
    withdrawal: Withdrawal,
    doc: WithdrawalDoc,
    *,
    actor: str,
    request_id: str | None,
    now: datetime,
) -> None:
    await _record(
        conn,
        _WithdrawalChange(
            withdrawal=withdrawal,
            kind=CREATED,
            fields=msgspec.to_builtins(doc),
            external_id=doc.external_id,
            entry="withdrawal",
            cents=-withdrawal.amount_cents,
            actor=actor,
            request_id=request_id,
        ),
        now=now,
    )


async def _record(conn: Connection, what: _WithdrawalChange, *, now: datetime) -> None:
    """Journal it, give event and entry their numbers, project them. The clock is locked last: a busy account waits.

    Raises Refused(INSUFFICIENT_BALANCE): what the balance is after a debit is known only under the clock's lock.
    """
    withdrawal = what.withdrawal
    which = {Projection.WITHDRAWALS if what.kind == CREATED else Projection.WITHDRAWALS_CHANGED}
    payload: dict[str, Any] = {
        "withdrawal": {
            **what.fields,
            "withdrawal_id": withdrawal.withdrawal_id,
            "status": withdrawal.status,
            "version": withdrawal.version,
        }
    }
    if what.external_id is not None:
        payload["external_id"] = what.external_id
    clock: Clock | None = None
    if what.entry is not None or what.event_id is not None:
        (clock,) = await advance_clocks(
            conn,
            account_ids=[withdrawal.account_id],
            tests=[False],
            events=[int(what.event_id is not None)],
            entries=[int(what.entry is not None)],
            cents=[what.cents],
            ats=[now],
        )
        if what.cents < 0 and clock.balance_cents < 0:
            raise Refused(Code.INSUFFICIENT_BALANCE)
    if what.entry is not None and clock is not None:
        which.add(Projection.ENTRIES)
        payload["entry"] = {
            "sequence": clock.entry_sequence,
            "entry_id": new_id(),
            "type": what.entry,
            "amount_cents": what.cents,
            "balance_after_cents": clock.balance_cents,
            "withdrawal_id": withdrawal.withdrawal_id,
        }
    if what.event_id is not None:
        which.add(Projection.EVENTS)
    line = JournalRow(
        account_id=withdrawal.account_id,
        test=False,
        version=withdrawal.version,
        kind=what.kind,
        recorded_at=now if clock is None else clock.latest_at,
        actor=what.actor,
        request_id=what.request_id,
        payload=payload,
        event_id=what.event_id,
        event_sequence=clock.event_sequence if what.event_id is not None and clock is not None else None,
        event_body=None if what.event_body is None else b64encode(what.event_body).decode(),
    )
    journal_ids = [row.journal_id for row in await append(conn, items=[_encode(line)])]
    await project(conn, journal_ids, [each for each in Projection if each in which])
    if what.event_id is not None:
        await enqueue_deliveries(conn, journal_ids=journal_ids, now=now)
