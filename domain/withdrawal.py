"""The life of a withdrawal: a merchant's balance on its way to its own PIX key (contract section 13).

The wallet is debited by the amount and the fee when a withdrawal begins, and credited back when it is cancelled or
fails, so the balance never contains money that is being sent. A withdrawal can be cancelled until the bank is asked;
from `processing` on the bank decides. Functions in this module take values and return the values to store: no clock, no
I/O.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from domain.documents import masked
from domain.errors import Code, Refused
from domain.merchants.fees import FeeTerms, terms_in_force
from domain.refund import is_pix_key

MINIMUM_CENTS: Final = 100
"""Contract section 13."""


class WithdrawalStatus(StrEnum):
    PENDING = "pending"
    """The bank was not asked yet: the withdrawal can be cancelled."""
    PROCESSING = "processing"
    """The bank was asked, or is about to be: the money may have been sent."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class WithdrawalFailure(StrEnum):
    """The reason why a withdrawal failed, for programs. The money is back in the wallet in each case."""

    BANK_REFUSED = "BANK_REFUSED"
    """The bank did not accept the transfer."""
    NOT_CARRIED_OUT = "NOT_CARRIED_OUT"
    """The bank accepted the transfer and could not carry it out (NAO_REALIZADO): the key no longer exists, say."""
    TRANSFER_UNAVAILABLE = "TRANSFER_UNAVAILABLE"
    """The bank sends no PIX for us."""


# The statuses that may follow each status; terminal statuses have none.
NEXT: Final[dict[str, frozenset[str]]] = {
    WithdrawalStatus.PENDING: frozenset({WithdrawalStatus.PROCESSING, WithdrawalStatus.CANCELLED}),
    WithdrawalStatus.PROCESSING: frozenset({WithdrawalStatus.SUCCEEDED, WithdrawalStatus.FAILED}),
    WithdrawalStatus.SUCCEEDED: frozenset(),
    # The bank first refused the transfer, and later lists it as sent.
    WithdrawalStatus.FAILED: frozenset({WithdrawalStatus.SUCCEEDED}),
    WithdrawalStatus.CANCELLED: frozenset(),
}


class Withdrawal(Struct, frozen=True, gc=False):
    """The columns of a withdrawal that decisions need. Cents; instants in UTC. Withdrawals exist in production only."""

    account_id: UUID
    withdrawal_id: UUID
    status: str
    version: int
    amount_cents: int
    created_at: datetime
    fee_cents: int
    """The fee, debited beside the amount and credited back with it."""


class WithdrawalTerms(Struct, frozen=True, gc=False):
    """The facts of an account that decide whether it may withdraw, and where to."""

    account_id: UUID
    approved: bool
    pix_key: str
    document: str
    fees: bytes | None
    """The account's own fee terms (domain/merchants/fees.py); None: the platform's default."""


def begin(
    terms: WithdrawalTerms, *, withdrawal_id: UUID, amount_cents: int, fees: FeeTerms, now: datetime
) -> Withdrawal:
    """Begin a requested withdrawal. Whether the balance covers the amount and the fee is known only under the lock of
    the account's clock (commands/journal.py). `fees` are the platform's default.

    Refused: KYC_REQUIRED, VALIDATION_ERROR (no PIX key is registered), WITHDRAWAL_BELOW_MINIMUM.
    """
    if not terms.approved:
        raise Refused(Code.KYC_REQUIRED)
    if not is_pix_key(terms.pix_key):
        raise Refused(Code.VALIDATION_ERROR, fields={"pix_key": "the account has no PIX key registered to pay out to"})
    if amount_cents < MINIMUM_CENTS:
        raise Refused(Code.WITHDRAWAL_BELOW_MINIMUM, amount_cents=amount_cents)
    return Withdrawal(
        account_id=terms.account_id,
        withdrawal_id=withdrawal_id,
        status=WithdrawalStatus.PENDING,
        version=1,
        amount_cents=amount_cents,
        created_at=now,
        fee_cents=terms_in_force(terms.fees, fees).withdrawal_cents,
    )


def cancel(withdrawal: Withdrawal) -> Withdrawal:
    """Cancel a pending withdrawal; Refused(WITHDRAWAL_NOT_CANCELLABLE) for any other, also for a cancelled one."""
    if WithdrawalStatus.CANCELLED not in NEXT[withdrawal.status]:
        raise Refused(Code.WITHDRAWAL_NOT_CANCELLABLE, status=withdrawal.status)
    return after(withdrawal, WithdrawalStatus.CANCELLED)


def after(withdrawal: Withdrawal, status: WithdrawalStatus) -> Withdrawal:
    """Returns the withdrawal with its new status, one version on."""
    assert status in NEXT[withdrawal.status], f"{withdrawal.status} is never followed by {status}"
    return replace(withdrawal, status=status, version=withdrawal.version + 1)


def masked_key(pix_key: str) -> str:
    """Returns a PIX key masked for programs and people: enough for its owner to recognise it.

    A CPF or CNPJ is masked like any document; an e-mail keeps its first letter and its domain; a telephone and a random
    key keep their first and last four characters.
    """
    assert is_pix_key(pix_key), "only a key that was checked on its way in is masked"
    if pix_key.isdigit():
        return masked(pix_key)
    name, at, domain = pix_key.partition("@")
    if at:
        return f"{name[0]}***@{domain}"
    return f"{pix_key[:4]}***{pix_key[-4:]}"


def logged_key(key: str) -> str:
    """Returns a masked key for audit logs, without the domain of an e-mail: the logs are kept for ever, and a domain
    may name its holder (domain/payer.py)."""
    return key.partition("@")[0]
