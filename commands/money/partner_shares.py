"""Give partners their share of payments, and take it back with refunds.

What is due is written with the payment or the refund, in its transaction; it is posted to the partner's ledger
afterwards, in batches, because a payment must not wait for a second account's clock. The row that is due and the entry
it becomes change together, so a crash neither loses a share nor doubles it.

The share is the platform's expense: the merchant's entries stay as they are. Taking back may leave a partner who has
withdrawn his share with a balance below zero, which his next shares make up for.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from commands.journal import JournalRow, advance_clocks, append
from domain.instants import to_millisecond
from domain.mode import Owner
from readmodels.projector import Projection, project
from runtime.ids import new_id
from sql import Connection

SHARES_MAX = 200
POSTED = "partner_share.posted"
_VERSION = 1  # a posting has no life of its own


class AttributedPayment(NamedTuple):
    """A payment of a charge that a partner brought. Cents."""

    account_id: UUID
    test: bool
    payment_id: UUID
    integrador_code: str
    amount_cents: int
    issued_at: datetime
    """When the charge was issued."""


class RefundedShare(NamedTuple):
    """A refund that succeeded, and what of its payment is back with it. Cents."""

    account_id: UUID
    payment_id: UUID
    refund_id: UUID
    amount_cents: int
    refunded_cents: int


class _Due(Struct, frozen=True, gc=False):
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


_owe = sql.run("partner_share.owe")
_take_back = sql.run("partner_share.take_back")
claim = sql.many("partner_share.claim", _Due)
mark_posted = sql.run("partner_share.posted")
_encode = msgspec.json.Encoder().encode


async def accrue_shares(conn: Connection, stamped: Sequence[AttributedPayment], *, now: datetime) -> None:
    """Write down what is due of these payments; nothing where the partner has no account or share."""
    if stamped:
        await _owe(
            conn,
            payment_ids=[each.payment_id for each in stamped],
            account_ids=[each.account_id for each in stamped],
            tests=[each.test for each in stamped],
            integrador_codes=[each.integrador_code for each in stamped],
            amounts_cents=[each.amount_cents for each in stamped],
            issued_ats=[each.issued_at for each in stamped],
            now=now,
        )


async def take_shares_back(conn: Connection, backs: Sequence[RefundedShare], *, now: datetime) -> None:
    """Write down what of the shares of these payments is to be taken back; nothing where none was given."""
    if backs:
        await _take_back(
            conn,
            refund_ids=[each.refund_id for each in backs],
            payment_ids=[each.payment_id for each in backs],
            account_ids=[each.account_id for each in backs],
            amounts_cents=[each.amount_cents for each in backs],
            refunded_cents=[each.refunded_cents for each in backs],
            now=now,
        )


async def post_shares(conn: Connection, *, now: datetime) -> int:
    """Post what is due, at most SHARES_MAX, to the partners' ledgers; answers how many.

    The entry names the payment (and the refund), so that a partner can tell what it is for, but no charge: a charge of
    another merchant would be 404 for him.
    """
    now = to_millisecond(now)
    dues = await claim(conn, most=SHARES_MAX)
    if not dues:
        return 0
    cents: defaultdict[Owner, int] = defaultdict(int)
    entries: defaultdict[Owner, int] = defaultdict(int)
    for due in dues:
        cents[Owner.of(due.partner_id, due.test)] += due.share_cents
        entries[Owner.of(due.partner_id, due.test)] += 1
    keys = sorted(entries)
    clocks = {
        clock.owner: clock
        for clock in await advance_clocks(
            conn,
            account_ids=[key.account_id for key in keys],
            tests=[key.test for key in keys],
            events=[0] * len(keys),
            entries=[entries[key] for key in keys],
            cents=[cents[key] for key in keys],
            ats=[now] * len(keys),
        )
    }
    sequences = {key: clock.entry_sequence - entries[key] for key, clock in clocks.items()}
    balances = {key: clock.balance_cents - cents[key] for key, clock in clocks.items()}
    items = []
    for due in dues:
        key = Owner.of(due.partner_id, due.test)
        sequences[key] += 1
        balances[key] += due.share_cents
        entry = {
            "sequence": sequences[key],
            "entry_id": new_id(),
            "type": "partner_share",
            "amount_cents": due.share_cents,
            "balance_after_cents": balances[key],
            "payment_id": due.payment_id,
        }
        if due.refund_id is not None:
            entry["refund_id"] = due.refund_id
        share = {
            "account_id": due.account_id,
            "integrador_code": due.integrador_code,
            "amount_cents": due.amount_cents,
            "share_bps": due.share_bps,
            "share_cents": due.share_cents,
        }
        line = JournalRow(
            account_id=due.partner_id,
            test=due.test,
            version=_VERSION,
            kind=POSTED,
            recorded_at=clocks[key].latest_at,
            actor="platform",
            payload={"entry": entry, "share": share},
        )
        items.append(_encode(line))
    journal_ids = [row.journal_id for row in await append(conn, items=items)]
    await project(conn, journal_ids, [Projection.ENTRIES])
    await mark_posted(conn, share_ids=[due.share_id for due in dues], now=now)
    return len(dues)
