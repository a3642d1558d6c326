"""Second copies: a payer asks for one when a boleto can no longer be paid; the merchant answers with another charge.

A request orders nothing from a bank and changes no charge. It notifies the merchant, once a day for each charge.
"""

from datetime import date, datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct

import sql
from commands.webhooks.notices import SECOND_COPY, NewNotice, give_notice
from domain.boleto.second_copy import TIMES_MAX
from domain.mode import Owner
from runtime.ids import new_id
from sql import Connection

LETTERS_MAX: Final = 20
"""Mails to one account in LETTERS_IN; further requests are shown in the dashboard only."""
LETTERS_IN: Final = timedelta(days=1)


class _ExpiredBoleto(Struct, frozen=True, gc=False):
    charge_id: UUID
    account_id: UUID
    test: bool
    external_id: str | None
    amount_cents: int
    due_date: date


_add_request = sql.maybe("second_copy.ask", _ExpiredBoleto)
_count_notices = sql.one("second_copy.told_since", int)
_answer = sql.maybe("second_copy.answer", UUID)
_dismiss = sql.maybe("second_copy.dismiss", UUID)


async def ask_second_copy(
    conn: Connection, public_id: str, *, today: date, account_now: datetime, now: datetime
) -> bool:
    """Record a payer's request; returns whether it was new, that is the day's first for an expired boleto without an
    answer. `today` and `account_now` are on the account's clock. A request for a test charge is not mailed."""
    boleto = await _add_request(conn, public_id=public_id, today=today, account_now=account_now, times_max=TIMES_MAX)
    if boleto is None:
        return False
    if not boleto.test:
        mailed = await _count_notices(conn, account_id=boleto.account_id, since=now - LETTERS_IN, kind=SECOND_COPY)
        if mailed < LETTERS_MAX:
            facts = {
                "charge_id": str(boleto.charge_id),
                "amount_cents": boleto.amount_cents,
                "due_date": boleto.due_date.isoformat(),
                "reference": boleto.external_id,
            }
            notice = NewNotice(
                notice_id=new_id(),
                account_id=boleto.account_id,
                test=False,
                kind=SECOND_COPY,
                event_type="",
                endpoint_id=None,
                facts=facts,
            )
            await give_notice(conn, [notice], now=now)
    return True


async def answer_second_copy(
    conn: Connection, charge_id: UUID, owner: Owner, *, answered_by: UUID, now: datetime
) -> bool:
    """Make the payer page of the expired charge lead to the charge `answered_by`. False when `answered_by` is for
    another payer, or when the expired charge has no open request."""
    answered = await _answer(
        conn, charge_id=charge_id, account_id=owner.account_id, test=owner.test, answered_by=answered_by, now=now
    )
    return answered is not None


async def dismiss_second_copy(conn: Connection, charge_id: UUID, owner: Owner, *, now: datetime) -> bool:
    """Dismiss the open request; False when none is open."""
    dismissed = await _dismiss(conn, charge_id=charge_id, account_id=owner.account_id, test=owner.test, now=now)
    return dismissed is not None
