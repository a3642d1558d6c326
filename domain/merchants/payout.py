"""The key withdrawals go to: asked for, confirmed, in force a day later (contract section 16).

Whoever changes it takes the balance, so a change waits long enough for every owner to read of it and cancel. Until then
money goes to the key before it. Functions here decide on values and return what is to be stored: no clock, no I/O.
"""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from domain.documents import check_digits_hold
from domain.errors import Code, Refused
from domain.refund import pix_key_fault

WAIT: Final = timedelta(hours=24)


class PayoutKey(Struct, frozen=True, gc=False):
    """Where an account's withdrawals go; `document` is the CPF or CNPJ of the key's owner. The key is empty when none
    is registered."""

    pix_key: str
    document: str


class PayoutChange(Struct, frozen=True, gc=False):
    """`effective_at` is None while one that staff asked for waits for a colleague."""

    change_id: UUID
    account_id: UUID
    pix_key: str
    document: str
    asked_by: str
    by_staff: bool
    asked_at: datetime
    confirmed_by: str | None = None
    effective_at: datetime | None = None
    cancelled_by: str | None = None
    cancelled_at: datetime | None = None

    def waits(self, now: datetime) -> bool:
        """Whether it is still to come into force."""
        return self.cancelled_at is None and (self.effective_at is None or self.effective_at > now)


def ask(
    before: PayoutKey,
    waiting: PayoutChange | None,
    to: PayoutKey,
    *,
    change_id: UUID,
    account_id: UUID,
    by: str,
    by_staff: bool,
    now: datetime,
) -> PayoutChange:
    """The change asked for; `before` is the key in force and `waiting` a change that is to come.

    Refused(VALIDATION_ERROR) with the fields `pix_key`, `document`, or `change` when another one waits.
    """
    wrong = {}
    if waiting is not None:
        wrong["change"] = "another change waits: cancel it first"
    if fault := pix_key_fault(to.pix_key):
        wrong["pix_key"] = fault
    elif to == before:
        wrong["pix_key"] = "is the key in force"
    if not check_digits_hold(to.document):
        wrong["document"] = "must be a CPF or CNPJ, and its check digits must hold"
    elif to.pix_key.isdigit() and to.pix_key != to.document:
        wrong["document"] = "must be the key, which is a document itself"
    if wrong:
        raise Refused(Code.VALIDATION_ERROR, fields=wrong)
    return PayoutChange(
        change_id=change_id,
        account_id=account_id,
        pix_key=to.pix_key,
        document=to.document,
        asked_by=by,
        by_staff=by_staff,
        asked_at=now,
        effective_at=None if by_staff else now + WAIT,
    )


def confirm(change: PayoutChange, *, by: str, now: datetime) -> PayoutChange:
    """A second member of staff agrees, and the day begins.

    Refused(VALIDATION_ERROR) with the field `by` for the one who asked, with `change` when there is nothing to confirm.
    """
    if not change.by_staff or change.effective_at is not None or change.cancelled_at is not None:
        raise Refused(Code.VALIDATION_ERROR, fields={"change": "does not wait for a confirmation"})
    if by == change.asked_by:
        raise Refused(Code.VALIDATION_ERROR, fields={"by": "must be somebody else than who asked"})
    return replace(change, confirmed_by=by, effective_at=now + WAIT)


def cancel(change: PayoutChange, *, by: str, now: datetime) -> PayoutChange:
    """Refused(VALIDATION_ERROR) with the field `change` for one that is in force or was cancelled."""
    if not change.waits(now):
        raise Refused(Code.VALIDATION_ERROR, fields={"change": "does not wait any more"})
    return replace(change, cancelled_by=by, cancelled_at=now)
