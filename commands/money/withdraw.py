"""Withdrawals: begin one, cancel it, send it and end it as the bank reports; and the automatic daily withdrawal.

A withdrawal is one locked row; one transaction stores its change and posts it to the journal. The wallet is debited by
the amount and the fee at the beginning, and credited back by both at a cancellation or a failure.
"""

from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import replace

import sql
from commands.bank_orders.kinds import SendOrder
from commands.journal import BANK, Entry, Event, Posting, post
from commands.money.fees import fee_postings
from domain.errors import Code, Refused
from domain.events import EventKind, withdrawal_body
from domain.instants import iso
from domain.merchants.fees import FeeTerms, terms_in_force
from domain.mode import Mode, Owner
from domain.money import PIX_CENTS_MAX
from domain.withdrawal import (
    NEXT,
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
from runtime.ids import new_id
from sql import Connection

CREATED: Final = "withdrawal.created"
PROCESSING: Final = "withdrawal.processing"
CANCELLED: Final = "withdrawal.cancelled"
DAILY: Final = "daily-withdrawal"
"""The actor of the automatic daily withdrawal."""


class NewWithdrawal(Struct, frozen=True, gc=False, kw_only=True):
    """A valid request for a withdrawal. The caller chooses `withdrawal_id`, so that a repeated write is recognised."""

    account_id: UUID
    key: str
    fingerprint: bytes
    withdrawal_id: UUID
    amount_cents: int
    description: str | None
    external_id: str | None
    actor: str
    request_id: str


class WithdrawalEnd(Struct, frozen=True, gc=False, kw_only=True):
    """The end of a withdrawal as the bank reports it. Without a failure code the money is with the merchant."""

    account_id: UUID
    withdrawal_id: UUID
    end_to_end_id: str | None = None
    failure: WithdrawalFailure | None = None
    request_id: str | None = None
    """That of the API request for the withdrawal."""


class _DailyAccount(Struct, frozen=True, gc=False):
    account_id: UUID
    keep_cents: int
    pix_key: str
    document: str
    balance_cents: int
    fees: bytes | None


find_terms = sql.maybe("withdrawal.terms", WithdrawalTerms)
insert_asked = sql.maybe("withdrawal.insert_asked", UUID)
insert_daily = sql.maybe("withdrawal.insert_daily", UUID)
lock = sql.maybe("withdrawal.lock", Withdrawal)
hold_approved = sql.one("withdrawal.approved", bool)
store = sql.run("withdrawal.store")
abandon_order = sql.run("withdrawal.abandon_order")
set_automatic = sql.maybe("withdrawal.set_automatic", UUID)
end_automatic = sql.maybe("withdrawal.end_automatic", UUID)
take_daily = sql.maybe("withdrawal.take_daily", _DailyAccount)
mark_looked = sql.run("withdrawal.looked")
_encode = msgspec.json.Encoder().encode


# Begin


async def create_withdrawal(
    conn: Connection, new: NewWithdrawal, *, now: datetime, bank: str, grace_s: float, fees: FeeTerms
) -> WithdrawalDoc | None:
    """Begin a withdrawal, to be sent by this bank after `grace_s`; None when the idempotency key was used before.
    `fees` are charged to accounts that have no terms of their own.

    Raises Refused: KYC_REQUIRED, VALIDATION_ERROR (no PIX key), WITHDRAWAL_BELOW_MINIMUM, INSUFFICIENT_BALANCE. The
    caller must then roll back the transaction, which frees the key.
    """
    terms = await find_terms(conn, account_id=new.account_id, now=now)
    if terms is None:
        raise Refused(Code.UNAUTHENTICATED)
    withdrawal = begin(terms, withdrawal_id=new.withdrawal_id, amount_cents=new.amount_cents, fees=fees, now=now)
    ordered = await insert_asked(
        conn,
        account_id=new.account_id,
        key=new.key,
        fingerprint=new.fingerprint,
        withdrawal_id=new.withdrawal_id,
        amount_cents=new.amount_cents,
        fee_cents=withdrawal.fee_cents,
        request=_encode(_send_order(terms, new.amount_cents, new.description, new.request_id)),
        bank=bank,
        send_at=now + timedelta(seconds=grace_s),
        now=now,
    )
    if ordered is None:
        return None
    doc = _new_doc(withdrawal, terms.pix_key, description=new.description, external_id=new.external_id)
    await _post_beginning(conn, withdrawal, doc, actor=new.actor, request_id=new.request_id, now=now)
    return doc


async def daily_withdrawal(
    conn: Connection, *, day: date, now: datetime, bank: str, grace_s: float, fees: FeeTerms
) -> Withdrawal | bool:
    """Take one account with daily withdrawals that was not taken yet on `day`; False when there is none.

    Returns the withdrawal begun, or True when there was nothing to send: the balance above `keep_cents` and the fee is
    below the minimum, there is no PIX key, or this day's withdrawal exists already. Raises
    Refused(INSUFFICIENT_BALANCE) when the balance fell meanwhile: the caller rolls back, and the account is taken anew.
    """
    account = await take_daily(conn, day=day, now=now)
    if account is None:
        return False
    await mark_looked(conn, account_id=account.account_id, day=day)
    fee_cents = terms_in_force(account.fees, fees).withdrawal_cents
    amount_cents = min(account.balance_cents - account.keep_cents - fee_cents, PIX_CENTS_MAX)
    terms = WithdrawalTerms(
        account.account_id, approved=True, pix_key=account.pix_key, document=account.document, fees=account.fees
    )
    try:
        withdrawal = begin(terms, withdrawal_id=new_id(), amount_cents=amount_cents, fees=fees, now=now)
    except Refused:
        return True
    ordered = await insert_daily(
        conn,
        account_id=account.account_id,
        withdrawal_id=withdrawal.withdrawal_id,
        amount_cents=amount_cents,
        fee_cents=withdrawal.fee_cents,
        day=day,
        request=_encode(_send_order(terms, amount_cents, None)),
        bank=bank,
        send_at=now + timedelta(seconds=grace_s),
        now=now,
    )
    if ordered is None:
        return True
    doc = _new_doc(withdrawal, terms.pix_key, automatic=True)
    await _post_beginning(conn, withdrawal, doc, actor=DAILY, request_id=None, now=now)
    return withdrawal


async def set_daily(conn: Connection, account_id: UUID, *, keep_cents: int) -> None:
    """Withdraw the balance above `keep_cents` once a day; Refused(WALLET_ACCOUNT_NOT_FOUND) for an unknown account."""
    if await set_automatic(conn, account_id=account_id, keep_cents=keep_cents) is None:
        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND)


async def end_daily(conn: Connection, account_id: UUID) -> None:
    """End the daily withdrawals; refused as `set_daily`."""
    if await end_automatic(conn, account_id=account_id) is None:
        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND)


# Cancel, send, end


async def cancel_withdrawal(
    conn: Connection, withdrawal_id: UUID, account_id: UUID, *, actor: str, request_id: str | None, now: datetime
) -> WithdrawalDoc:
    """Cancel a pending withdrawal and credit the money back to the wallet.

    Refused: WITHDRAWAL_NOT_FOUND, WITHDRAWAL_NOT_CANCELLABLE.
    """
    stored = await lock(conn, withdrawal_id=withdrawal_id, account_id=account_id)
    doc = await withdrawal_doc(conn, withdrawal_id, account_id)
    if stored is None or doc is None:
        raise Refused(Code.WITHDRAWAL_NOT_FOUND)
    withdrawal = cancel(stored)
    await _store_withdrawal(conn, withdrawal)
    await abandon_order(conn, withdrawal_id=withdrawal_id, now=now)
    fields = {"completed_at": iso(now)}
    entry = _reversal_entry(withdrawal)
    await _post_change(
        conn, withdrawal, CANCELLED, doc, fields, entry=entry, actor=actor, request_id=request_id, now=now
    )
    return await _read_doc(conn, withdrawal)


async def start_sending(
    conn: Connection, withdrawal_id: UUID, account_id: UUID, *, now: datetime
) -> WithdrawalDoc | None:
    """Make a withdrawal `processing` before the bank is asked; it can no longer be cancelled. None when it has ended.

    Refused(KYC_REQUIRED) for a pending withdrawal whose account is not approved; it stays pending until the account is.
    A withdrawal that is processing goes on, because the bank may have been asked and only the bank knows the result.
    """
    stored = await lock(conn, withdrawal_id=withdrawal_id, account_id=account_id)
    assert stored is not None, "orders are written with their withdrawals"
    if stored.status == WithdrawalStatus.PENDING:
        await check_approved(conn, account_id)
        withdrawal = after(stored, WithdrawalStatus.PROCESSING)
        await _store_withdrawal(conn, withdrawal)
        await _post_change(conn, withdrawal, PROCESSING, None, {"processing_at": iso(now)}, actor=BANK, now=now)
        return await _read_doc(conn, withdrawal)
    return await _read_doc(conn, stored) if stored.status == WithdrawalStatus.PROCESSING else None


async def check_approved(conn: Connection, account_id: UUID) -> None:
    """Refused(KYC_REQUIRED) when the account is not approved; an approved one stays so until the transaction ends."""
    if not await hold_approved(conn, account_id=account_id):
        raise Refused(Code.KYC_REQUIRED)


async def end_withdrawal(conn: Connection, ended: WithdrawalEnd, *, now: datetime) -> None:
    """End a withdrawal as the bank reports; one that has already ended stays as it is. A withdrawal that failed here
    but was sent after all is debited again, whatever the balance: the money is gone."""
    stored = await lock(conn, withdrawal_id=ended.withdrawal_id, account_id=ended.account_id)
    assert stored is not None, "orders are written with their withdrawals"
    failed, failed_before = ended.failure is not None, stored.status == WithdrawalStatus.FAILED
    status = WithdrawalStatus.FAILED if failed else WithdrawalStatus.SUCCEEDED
    if status not in NEXT[stored.status]:
        return
    withdrawal = after(stored, status)
    await _store_withdrawal(conn, withdrawal)
    doc = await _read_doc(conn, withdrawal)
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
    fields = {"completed_at": iso(now), "end_to_end_id": ended.end_to_end_id, "failure_code": ended.failure}
    fields = {name: value for name, value in fields.items() if value is not None}
    await _post_change(
        conn,
        withdrawal,
        kind,
        doc,
        {**fields, "failure_code": None} if failed_before else fields,
        entry=_reversal_entry(withdrawal) if failed else _debit_entry(withdrawal) if failed_before else None,
        event=Event(event_id, body),
        actor=BANK,
        request_id=ended.request_id,
        now=now,
    )


# Private


def _send_order(
    terms: WithdrawalTerms, amount_cents: int, description: str | None, request_id: str | None = None
) -> SendOrder:
    return SendOrder(
        amount_cents=amount_cents,
        pix_key=terms.pix_key,
        document=terms.document,
        description=description,
        request_id=request_id,
    )


def _new_doc(
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
        fee_cents=withdrawal.fee_cents,
        status=withdrawal.status,
        version=withdrawal.version,
        description=description,
        external_id=external_id,
        pix_key=masked_key(pix_key),
        automatic=automatic,
        created_at=iso(withdrawal.created_at),
    )


async def _store_withdrawal(conn: Connection, withdrawal: Withdrawal) -> None:
    await store(
        conn,
        withdrawal_id=withdrawal.withdrawal_id,
        account_id=withdrawal.account_id,
        status=withdrawal.status,
        version=withdrawal.version,
    )


async def _read_doc(conn: Connection, withdrawal: Withdrawal) -> WithdrawalDoc:
    doc = await withdrawal_doc(conn, withdrawal.withdrawal_id, withdrawal.account_id)
    assert doc is not None, "every withdrawal has its read row"
    return doc


async def _post_beginning(
    conn: Connection, withdrawal: Withdrawal, doc: WithdrawalDoc, *, actor: str, request_id: str | None, now: datetime
) -> None:
    await _post_change(
        conn,
        withdrawal,
        CREATED,
        doc,
        msgspec.to_builtins(doc),
        entry=replace(_debit_entry(withdrawal), covered=True),
        actor=actor,
        request_id=request_id,
        now=now,
    )


def _debit_entry(withdrawal: Withdrawal) -> Entry:
    return Entry(type="withdrawal", amount_cents=-withdrawal.amount_cents, withdrawal_id=withdrawal.withdrawal_id)


def _reversal_entry(withdrawal: Withdrawal) -> Entry:
    return Entry(
        type="withdrawal_reversal", amount_cents=withdrawal.amount_cents, withdrawal_id=withdrawal.withdrawal_id
    )


async def _post_change(
    conn: Connection,
    withdrawal: Withdrawal,
    kind: str,
    doc: WithdrawalDoc | None,
    fields: dict[str, Any],
    *,
    entry: Entry | None = None,
    event: Event | None = None,
    actor: str,
    request_id: str | None = None,
    now: datetime,
) -> None:
    """Post one change. `fields` is the whole document when the withdrawal begins, afterwards its changed fields beside
    status and version. The fee is debited or credited as `entry` is."""
    payload: dict[str, Any] = {
        "withdrawal": {
            **fields,
            "withdrawal_id": withdrawal.withdrawal_id,
            "status": withdrawal.status,
            "version": withdrawal.version,
        }
    }
    if doc is not None and doc.external_id is not None:
        payload["external_id"] = doc.external_id
    posting = Posting(
        owner=Owner(withdrawal.account_id, Mode.PRODUCTION),
        version=withdrawal.version,
        kind=kind,
        at=now,
        actor=actor,
        request_id=request_id,
        payload=payload,
        event=event,
        entry=entry,
    )
    await post(conn, [posting, *fee_postings(posting, withdrawal.fee_cents)], now=now)
