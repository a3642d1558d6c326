"""Boletos at a bank: what is registered, and what the bank says of it. The methods are in banks/protocol.py.

A boleto is known by its number, chosen by us within the agreement with the bank and used once for ever, so that
asking twice registers once. Days are days in São Paulo.
"""

from datetime import date, datetime
from typing import Final, Literal, Protocol

from msgspec import Struct

from banks.received import ReceivedPix
from domain.boleto.terms import PaymentTerms, days_taken_late, fine_begins

# Codes of `Refused` that are ours and not the bank's.
NUMBER_TAKEN: Final = "NUMBER_TAKEN"
"""Another boleto has this number: take the next one."""
LINE_MISMATCH: Final = "LINE_MISMATCH"
PIX_REFUSED: Final = "PIX_REFUSED"
STANDS_AT_BANK: Final = frozenset({LINE_MISMATCH, PIX_REFUSED})
"""Refusals of a registration after which the boleto does stand at the bank: it must not reach the payer, and is to be
written off."""
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
        """With its check digit: "001-9"."""
        ...

    @property
    def printed_account(self) -> str:
        """Agency and beneficiary's code: "0452-9 / 123873-5"."""
        ...

    @property
    def carteira(self) -> str: ...

    def number(self, control: int) -> str:
        """The nosso numero by which the bank knows the boleto with this control number, which is used once for ever."""
        ...

    def printed_number(self, number: str) -> str:
        """The nosso numero as it stands on the boleto; ValueError when it is no number of ours."""
        ...

    def seu_numero(self, external_id: str | None, *, control: int) -> str:
        """What the boleto is called by its merchant, in the letters the bank takes."""
        ...

    def codes(self, number: str, *, due_on: date, amount_cents: int) -> tuple[str, str]:
        """Barcode and line that the boleto must have; ValueError for a number that is none of ours or a day that no
        barcode carries."""
        ...


class BoletoPayer(Struct, frozen=True, kw_only=True):
    """Who is to pay, in any letters: each adapter folds them to what its bank takes. Document and zip code bare."""

    name: str
    document: str
    street: str
    number: str
    city: str
    state: str
    zip_code: str
    email: str | None = None
    phone: str | None = None
    """For our own mails: banks are not told, or they would write to him as well."""


class NewBoleto(Struct, frozen=True, kw_only=True):
    """A boleto to register. `hybrid`: it carries a QR Code too, and either way of paying closes the other."""

    number: str
    seu_numero: str
    """Ours, for people to read: 1 to 15 of `A-Z 0-9 - '` and blank."""
    amount_cents: int
    issued_on: date
    due_on: date
    hybrid: bool
    terms: PaymentTerms | None = None
    payer: BoletoPayer
    description: str | None = None


class RegisteredBoleto(Struct, frozen=True, kw_only=True):
    line: str
    barcode: str
    qr_code: str | None = None
    """The BR Code of a hybrid boleto."""


class BoletoState(Struct, frozen=True, kw_only=True):
    """A boleto as the bank has it.

    `in_between`: money may be on its way (announced, scheduled, at a notary): neither open nor paid, ask again later.
    An open boleto stays open past its due date.
    """

    number: str
    seu_numero: str
    status: Literal["open", "paid", "written_off", "in_between"]
    amount_cents: int
    due_on: date
    line: str
    """As the bank has it now: a new due date makes a new line, the old one may stay payable."""
    barcode: str
    registered_on: date
    fine_from: date | None = None
    """The day its fine begins on, if it has one."""
    late_days: int = 0
    """How long after its due date it is taken."""
    paid_cents: int = 0
    """All that was received so far: grows when a boleto is paid again."""
    paid_on: date | None = None
    interest_cents: int = 0
    fine_cents: int = 0
    discount_cents: int = 0
    paid_by_pix: bool = False
    """The last money came so."""
    pix: tuple[ReceivedPix, ...] = ()
    """Those that paid it, as far as the bank lists them: they say who sent what, never how much there is in all."""
    txid: str | None = None
    """Of the hybrid boleto's PIX side: known once it was paid by PIX."""
    qr_code: str | None = None
    """Known once it was paid by PIX; before that, registering tells it."""

    def follows(self, terms: PaymentTerms | None) -> bool:
        """Whether the days that count from the due date are those of this one. What the bank does not show is
        believed."""
        if terms is None:
            return True
        fine = terms.fine is None or self.fine_from in (None, fine_begins(self.due_on))
        return fine and self.late_days in (0, days_taken_late(terms, self.due_on))


class PaidBoleto(Struct, frozen=True, kw_only=True):
    """A boleto in the bank's list of what was paid. The list names neither payer nor way: `find_boleto` before
    booking."""

    number: str
    amount_cents: int
    due_on: date
    paid_cents: int
    moved_on: date


class NotYet(Struct, frozen=True):
    """The bank changes a boleto only some time after its registration: ask at `retry_at`, or later when it is None."""

    retry_at: datetime | None
