"""The life of a withdrawal: a merchant's balance on its way to its own PIX key (contract section 13).

The wallet is debited when it begins, by its fee as well, and credited back when it is cancelled or fails: what is on
its way is never in the balance. It can be cancelled until the bank is asked; from `processing` on the bank decides.
Functions here decide on values and return what is to be stored: no clock, no I/O.
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
    """The bank was not asked: it can be cancelled."""
    PROCESSING = "processing"
    """The bank is asked, or about to be: the money may have gone."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class WithdrawalFailure(StrEnum):
    """Why a withdrawal failed, for programs. The money is back in the wallet in each case."""

    BANK_REFUSED = "BANK_REFUSED"
    """The bank did not take it."""
    NOT_CARRIED_OUT = "NOT_CARRIED_OUT"
    """The bank took it and could not carry it out (NAO_REALIZADO): for example, the key no longer exists."""
    TRANSFER_UNAVAILABLE = "TRANSFER_UNAVAILABLE"
    """The bank sends no PIX for us."""


# What may follow; the terminal states are visible as empty.
NEXT: Final[dict[str, frozenset[str]]] = {
    WithdrawalStatus.PENDING: frozenset({WithdrawalStatus.PROCESSING, WithdrawalStatus.CANCELLED}),
    WithdrawalStatus.PROCESSING: frozenset({WithdrawalStatus.SUCCEEDED, WithdrawalStatus.FAILED}),
    WithdrawalStatus.SUCCEEDED: frozenset(),
    # The bank said no, and lists it as sent: the money went after all.
    WithdrawalStatus.FAILED: frozenset({WithdrawalStatus.SUCCEEDED}),
    WithdrawalStatus.CANCELLED: frozenset(),
}


class Withdrawal(Struct, frozen=True, gc=False):
    """The deciding columns of a withdrawal. Cents; instants in UTC. Production only: it has no mode."""

    account_id: UUID
    withdrawal_id: UUID
    status: str
    version: int
    amount_cents: int
    created_at: datetime
    fee_cents: int
    """Debited beside the amount, and given back with it."""


class WithdrawalTerms(Struct, frozen=True, gc=False):
    """What of an account decides whether it may withdraw, and where to."""

    account_id: UUID
    approved: bool
    pix_key: str
    document: str
    fees: bytes | None
    """The account's own (domain/merchants/fees.py); None: the platform's default."""


def begin(
    terms: WithdrawalTerms, *, withdrawal_id: UUID, amount_cents: int, fees: FeeTerms, now: datetime
) -> Withdrawal:
    """The withdrawal asked for; whether the balance covers it and its fee is known only under the clock's lock. `fees`
    are the platform's default.

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
    """Refused(WITHDRAWAL_NOT_CANCELLABLE) once the bank may have been asked, and when it is cancelled already."""
    if WithdrawalStatus.CANCELLED not in NEXT[withdrawal.status]:
        raise Refused(Code.WITHDRAWAL_NOT_CANCELLABLE, status=withdrawal.status)
    return after(withdrawal, WithdrawalStatus.CANCELLED)


def after(withdrawal: Withdrawal, status: WithdrawalStatus) -> Withdrawal:
    """The withdrawal one version on."""
    assert status in NEXT[withdrawal.status], f"{withdrawal.status} is never followed by {status}"
    return replace(withdrawal, status=status, version=withdrawal.version + 1)


def masked_key(pix_key: str) -> str:
    """A PIX key as programs and people may see it: enough to recognise one's own.

    Of a CPF or CNPJ as documents are masked; of an e-mail the first letter and the domain; of a telephone and of a
    random key the first and last four characters.
    """
    assert is_pix_key(pix_key), "only a key that was checked on its way in is masked"
    if pix_key.isdigit():
        return masked(pix_key)
    name, at, domain = pix_key.partition("@")
    if at:
        return f"{name[0]}***@{domain}"
    return f"{pix_key[:4]}***{pix_key[-4:]}"


def logged_key(key: str) -> str:
    """A masked key as audit logs have it: they keep it for ever, and the domain of an e-mail may name its holder
    (domain/payer.py)."""
    return key.partition("@")[0]
