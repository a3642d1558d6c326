"""Boletos at a bank: the data of a registration and the bank's answers. The methods are in banks/protocol.py.

A boleto is identified by its number. We choose it within the agreement with the bank and never reuse it, so that a
repeated registration registers one boleto. Days are days in São Paulo.
"""

from datetime import date, datetime
from typing import Final, Literal, Protocol

from msgspec import Struct

from banks.received import ReceivedPix
from domain.boleto.terms import PaymentTerms, days_accepted_late, fine_begins

# Codes of `Rejected` that are ours and not the bank's.
NUMBER_TAKEN: Final = "NUMBER_TAKEN"
"""Another boleto has this number: the caller takes the next one."""
LINE_MISMATCH: Final = "LINE_MISMATCH"
PIX_REFUSED: Final = "PIX_REFUSED"
STANDS_AT_BANK: Final = frozenset({LINE_MISMATCH, PIX_REFUSED})
"""Refusals of a registration after which the boleto exists at the bank all the same: it must not reach the payer, and
must be written off."""
PAID: Final = "PAID"
WRITTEN_OFF: Final = "WRITTEN_OFF"
NOT_FOUND: Final = "NOT_FOUND"
"""The bank has no boleto of this number: nothing to change or to write off."""


class Agreement(Protocol):
    """The agreement under which boletos are issued at one bank: their numbers and codes, and what is printed."""

    @property
    def bank(self) -> str:
        """The bank's code in the payment system (COMPE), three digits."""
        ...

    @property
    def bank_name(self) -> str: ...

    @property
    def printed_bank_code(self) -> str:
        """The bank's code with its check digit: "001-9"."""
        ...

    @property
    def printed_account(self) -> str:
        """The agency and the beneficiary's code: "0452-9 / 123873-5"."""
        ...

    @property
    def carteira(self) -> str: ...

    def number(self, control: int) -> str:
        """The nosso numero of the boleto with this control number, which is never reused."""
        ...

    def printed_number(self, number: str) -> str:
        """The nosso numero as printed on the boleto; ValueError if it is no number of ours."""
        ...

    def seu_numero(self, external_id: str | None, *, control: int) -> str:
        """The merchant's reference of the boleto, in the characters the bank accepts."""
        ...

    def codes(self, number: str, *, due_on: date, amount_cents: int) -> tuple[str, str]:
        """The barcode and the line that the boleto must have; ValueError for a number that is none of ours or a day
        that a barcode cannot express."""
        ...


class BoletoPayer(Struct, frozen=True, kw_only=True):
    """The payer of a boleto, in any characters: each adapter folds them to what its bank accepts. Document and zip code
    are without punctuation."""

    name: str
    document: str
    street: str
    number: str
    city: str
    state: str
    zip_code: str
    email: str | None = None
    phone: str | None = None
    """For our own mails: banks do not get it, or they would write to the payer as well."""


class NewBoleto(Struct, frozen=True, kw_only=True):
    """A boleto to register. `hybrid`: it has a QR Code too; a payment by line or by QR Code closes the other."""

    number: str
    seu_numero: str
    """Our reference, for people to read: 1 to 15 of `A-Z 0-9 - '` and blank."""
    amount_cents: int
    issued_on: date
    due_on: date
    hybrid: bool
    terms: PaymentTerms | None = None
    payer: BoletoPayer
    description: str | None = None


class RegisteredBoleto(Struct, frozen=True, kw_only=True):
    """A registered boleto, whose line and barcode are those that `Agreement.codes` gives."""

    qr_code: str | None = None
    """The BR Code of a hybrid boleto."""


class BoletoState(Struct, frozen=True, kw_only=True):
    """A boleto's state at the bank.

    `in_between`: money may be on its way (announced, scheduled, at a notary). The boleto is neither open nor paid; the
    caller asks again later. An open boleto stays open past its due date.
    """

    number: str
    seu_numero: str
    status: Literal["open", "paid", "written_off", "in_between"]
    amount_cents: int
    due_on: date
    line: str
    """The bank's present line: a new due date makes a new line, and the old line may stay payable."""
    barcode: str
    registered_on: date
    fine_from: date | None = None
    """The day on which its fine begins, if it has one."""
    late_days: int = 0
    """For how many days after its due date payments are accepted."""
    paid_cents: int = 0
    """The total received so far: grows if the boleto is paid again."""
    paid_on: date | None = None
    interest_cents: int = 0
    fine_cents: int = 0
    discount_cents: int = 0
    paid_by_pix: bool = False
    """Whether the latest payment was a PIX."""
    pix: tuple[ReceivedPix, ...] = ()
    """The PIX that paid it, as far as the bank lists them: they tell who sent how much, but not the boleto's total."""
    txid: str | None = None
    """The txid of the hybrid boleto's PIX side: known once it was paid by PIX."""
    qr_code: str | None = None
    """Known once it was paid by PIX; before that, only the answer to the registration has it."""

    def follows(self, terms: PaymentTerms | None) -> bool:
        """Whether the beginning of the fine and the last payable day match the present due date. Values that the bank
        does not show are assumed to match."""
        if terms is None:
            return True
        fine = terms.fine is None or self.fine_from in (None, fine_begins(self.due_on))
        return fine and self.late_days in (0, days_accepted_late(terms, self.due_on))


class PaidBoleto(Struct, frozen=True, kw_only=True):
    """A boleto in the bank's list of paid boletos. The list names neither the payer nor the means of payment, so
    `find_boleto` is called before booking."""

    number: str
    paid_cents: int
    moved_on: date


class NotYet(Struct, frozen=True):
    """The bank changes a boleto only some time after its registration. The caller asks again at `retry_at`, or at a
    later time of its own choice if that is None."""

    retry_at: datetime | None
