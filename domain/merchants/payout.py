"""The payout key, which receives withdrawals: a change is requested, confirmed, and in force a day later (contract
section 16).

A person who can change the key can take the balance, so a change waits long enough for every owner to read about it and
cancel it. Until then money goes to the previous key. Functions in this module take values and return the values to
store: no clock, no I/O.
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
    """The key that receives an account's withdrawals; `document` is the CPF or CNPJ of the key's owner. `pix_key` is
    empty when none is registered."""

    pix_key: str
    document: str


class PayoutChange(Struct, frozen=True, gc=False):
    """A change of the payout key. `effective_at` is None while a change that staff requested waits for confirmation by
    another member of staff."""

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
        """Whether the change has yet to come into force."""
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
    """Request a change; `before` is the key in force and `waiting` a change that waits already.

    Refused(VALIDATION_ERROR) with the fields `pix_key`, `document`, or `change` when another change waits.
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
    """Confirm a change as the second member of staff, which begins its waiting day.

    Refused(VALIDATION_ERROR) with the field `by` for the person who requested it, with `change` when there is nothing
    to confirm.
    """
    if not change.by_staff or change.effective_at is not None or change.cancelled_at is not None:
        raise Refused(Code.VALIDATION_ERROR, fields={"change": "does not wait for a confirmation"})
    if by == change.asked_by:
        raise Refused(Code.VALIDATION_ERROR, fields={"by": "must be somebody else than who asked"})
    return replace(change, confirmed_by=by, effective_at=now + WAIT)


def cancel(change: PayoutChange, *, by: str, now: datetime) -> PayoutChange:
    """Cancel a change; Refused(VALIDATION_ERROR) with the field `change` when it is in force or was cancelled."""
    if not change.waits(now):
        raise Refused(Code.VALIDATION_ERROR, fields={"change": "does not wait any more"})
    return replace(change, cancelled_by=by, cancelled_at=now)
