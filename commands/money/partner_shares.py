"""Credit partners with their share of payments, and take it back with refunds.

A share is accrued as a row in the transaction of its payment or refund. It is posted to the partner's ledger
afterwards, in batches, because a payment must not wait for a second account's clock. One transaction posts the entry
and marks the row posted, so a crash neither loses a share nor posts it twice.

The share is the platform's expense: the merchant's entries stay as they are. In production a share is held until its
payment can no longer be refunded. A reversal by the bank after that may leave a partner who has withdrawn the share
with a negative balance, which later shares make up for.

The share of a partner in another cell is moved in two steps: the other cell stores the share, then this cell marks it
sent. A crash between the steps sends it again, and it is still stored once, because its id is that of the payment or
refund. The other cell then holds and posts it like its own.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct

import sql
from commands.journal import Entry, Posting, post
from domain.instants import to_millisecond
from domain.mode import Mode, Owner
from domain.sandbox_clock import on_clock
from sql import Connection

SHARES_MAX = 200
_PARTNERS_MAX = 16
"""Partners in one round: few enough that, when twenty partners have shares due, another worker finds some as well."""
_WINDOW = 1_000
POSTED = "partner_share.posted"
_VERSION = 1  # a posting is never changed


class AttributedPayment(NamedTuple):
    """A payment of a charge that is attributed to a partner. Cents."""

    account_id: UUID
    test: bool
    payment_id: UUID
    integrador_code: str
    amount_cents: int
    issued_at: datetime
    """When the charge was issued."""


class RefundedShare(NamedTuple):
    """A refund that succeeded, and `refunded_cents`: how much of its payment has gone back, this refund included."""

    account_id: UUID
    payment_id: UUID
    refund_id: UUID
    amount_cents: int
    refunded_cents: int


class _DueShare(Struct, frozen=True, gc=False):
    share_id: UUID
    account_id: UUID
    test: bool
    payment_id: UUID
    refund_id: UUID | None
    integrador_code: str
    partner_id: UUID
    amount_cents: int
    share_bps: int
    share_cents: int


class _ClaimedShare(_DueShare, frozen=True, gc=False):
    ahead_s: int
    """By how much the partner's sandbox is ahead of real time; 0 in production."""


class SentShare(_DueShare, frozen=True, gc=False):
    """A share to be sent to the partner's cell; `account_id` is the merchant's, in the sending cell. Cents."""

    earned_at: datetime


_accrue = sql.run("partner_share.accrue")
_take_back = sql.run("partner_share.take_back")
take_partners = sql.many("partner_share.take_partners", UUID)
claim = sql.many("partner_share.claim", _ClaimedShare)
mark_posted = sql.run("partner_share.posted")
has_shares_to_send = sql.one("partner_share.any_away", bool)
find_shares_to_send = sql.many("partner_share.away", SentShare)
_store_received = sql.run("partner_share.receive")
_find_received = sql.many("partner_share.received", UUID)
mark_sent = sql.run("partner_share.sent")


async def accrue_shares(conn: Connection, payments: Sequence[AttributedPayment], *, now: datetime) -> None:
    """Accrue the partners' shares of these payments; none where the partner has no account or no share."""
    if payments:
        await _accrue(conn, payments=payments, now=now)


async def take_shares_back(conn: Connection, refunds: Sequence[RefundedShare], *, now: datetime) -> None:
    """Accrue what these refunds take back of the partners' shares; nothing for payments without a share."""
    if refunds:
        await _take_back(conn, refunds=refunds, now=now)


async def post_shares(conn: Connection, mode: Mode, *, held: timedelta, now: datetime) -> int:
    """Post at most SHARES_MAX due shares of a mode to the partners' ledgers; returns how many. Partners to whom another
    transaction is posting are left out.

    In production a share is due after it was held for `held`, because a partner who withdrew it earlier could not give
    it back when the payment is refunded. What a refund takes back of a held share is posted together with that share.

    The entry names the payment (and the refund), so that the partner sees what it is for, but no charge, because the
    other merchant's charge would be a 404 for the partner.
    """
    now = to_millisecond(now)
    earned_until = now if mode.test else now - held
    partners = await take_partners(conn, test=mode.test, earned_until=earned_until, window=_WINDOW, limit=_PARTNERS_MAX)
    if not partners:
        return 0
    shares = await claim(conn, partner_ids=partners, test=mode.test, earned_until=earned_until, limit=SHARES_MAX)
    if not shares:
        return 0
    postings = [
        Posting(
            owner=Owner.of(share.partner_id, share.test),
            version=_VERSION,
            kind=POSTED,
            at=on_clock(now, share.ahead_s),
            actor="platform",
            payload={
                "share": {
                    "account_id": share.account_id,
                    "integrador_code": share.integrador_code,
                    "amount_cents": share.amount_cents,
                    "share_bps": share.share_bps,
                    "share_cents": share.share_cents,
                }
            },
            entry=Entry(
                type="partner_share",
                amount_cents=share.share_cents,
                payment_id=share.payment_id,
                refund_id=share.refund_id,
            ),
        )
        for share in shares
    ]
    await post(conn, postings, now=now)
    await mark_posted(conn, dues=shares, now=now)
    return len(shares)


async def receive_shares(conn: Connection, shares: Sequence[SentShare], *, sender: int, cell: int) -> list[UUID]:
    """Store in `cell`, whose database `conn` is connected to, the shares that cell `sender` has for its partners, in
    the order in which the money moved; returns the share_ids that are stored now. Nothing is stored for a partner who
    is not in this cell, or when the database belongs to another cell."""
    await _store_received(conn, shares=shares, sender=sender, cell=cell)
    return await _find_received(conn, shares=shares, sender=sender)
