"""The port to a bank: what can be asked, and answers that are values.

`Done` and `Rejected` are the bank's own yes and no. Everything else - silence, a 5xx, a page of HTML, a yes
with somebody else's data - is `Unknown`: it may have happened, and is asked again with the same identifiers.
"""

from datetime import date, datetime, timedelta
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from banks.boletos import BoletoState, NewBoleto, NotYet, PaidBoleto, RegisteredBoleto
from banks.lists import BankPage, TooWide
from banks.received import ReceivedPix
from banks.transfers import Return, Sent, SentTransfer, Transfer
from domain.boleto.terms import PaymentTerms

Value = TypeVar("Value")

DESCRIPTION_CHARACTERS_MAX = 140  # solicitacaoPagador of API Pix
RECEIVED_WIDTH_MAX = timedelta(days=5)
"""The widest interval a bank is asked for PIX: GET /pix of Banco do Brasil takes no wider one."""
BOLETO_DAYS_MAX = 90
"""The most days a bank is asked for paid boletos at once: wider ranges are refused."""


class Done(Struct, Generic[Value], frozen=True):
    value: Value


class Rejected(Struct, frozen=True):
    """No, for good: asking again changes nothing. `code` is the bank's own name for the reason."""

    code: str
    message: str


class NotFound(Struct, frozen=True):
    """The bank has no such thing: a definite answer."""


class Unknown(Struct, frozen=True):
    """`detail` names what was seen (a status, a kind of error), never what was sent."""

    detail: str


class Cob(Struct, frozen=True, kw_only=True):
    """An immediate charge to register. The txid is ours (32 hex digits), so that asking twice makes one."""

    txid: str
    amount_cents: int
    created_at: datetime
    expires_in_s: int
    """Counted from `created_at`."""
    location_id: int
    pix_key: str
    description: str | None = None
    """Any text; each adapter folds it to what its bank takes."""
    payer_name: str | None = None
    payer_document: str | None = None


class Cobv(Struct, frozen=True, kw_only=True):
    """A charge with a due date to register (API Pix, cobv). What it costs goes by its terms, counted from the effective
    due date as those of a boleto are; it can be paid until their last day. The txid is ours, as that of a cob."""

    txid: str
    amount_cents: int
    due_on: date
    terms: PaymentTerms
    location_id: int
    pix_key: str
    payer_name: str
    payer_document: str
    """The standard has no cobv without its payer."""
    description: str | None = None
    """As of a cob."""


class CobState(Struct, frozen=True, kw_only=True):
    """A cob as the bank has it. `status`: ATIVA (also past its time), CONCLUIDA, REMOVIDA_PELO_..."""

    txid: str
    status: str
    revisao: int
    amount_cents: int
    pix_key: str | None
    location: str | None
    received: list[ReceivedPix]


class Location(Struct, frozen=True):
    """An address for a QR Code, made ahead; `location` is host and path, at most 77 characters, no scheme."""

    location_id: int
    location: str


class PixBank(Protocol):
    """PIX that are received: charges, what came in, callbacks."""

    async def put_cob(self, cob: Cob) -> Done[CobState] | Rejected | Unknown:
        """Register a cob. Asked again with the same txid it is registered once."""
        ...

    async def get_cob(self, txid: str) -> CobState | NotFound | Unknown: ...

    async def remove_cob(self, txid: str) -> Done[None] | NotFound | Rejected | Unknown:
        """Take a cob back. Done when it is removed, however often asked; Rejected when it is paid, or when the bank
        says no to one whose time is over."""
        ...

    async def revise_cob(self, txid: str, expires_at: datetime) -> Done[None] | NotFound | Rejected | Unknown:
        """Have a cob be payable until `expires_at`. Done when it is, however often asked; Rejected when it is over."""
        ...

    async def create_locations(self, count: int) -> Done[list[Location]] | Rejected | Unknown:
        """Up to `count` new locations, at least one. Those whose answer was lost are lost."""
        ...

    async def received_page(
        self, since: datetime, until: datetime, after: str | None = None, *, returned: bool = False
    ) -> Done[BankPage[ReceivedPix]] | TooWide | Unknown:
        """A page of the PIX received in the closed interval, at most RECEIVED_WIDTH_MAX wide, those without a txid
        too; the first page, or the one `after` names. `returned`: only PIX of which something went back.

        Pages stand still while nothing is listed late. What is only adds to them: an item may be seen twice, and one
        that moves between two pages that are asked for at once may be missed, until the list is asked for again.
        """
        ...

    async def register_callback(self, pix_key: str, url: str) -> Done[None] | Rejected | Unknown:
        """Have the bank POST `{url}/pix` when money arrives on the key."""
        ...


class CobvBank(Protocol):
    """PIX charges with a due date. What they were paid with is listed with all other PIX."""

    async def create_cobv_location(self) -> Done[Location] | Rejected | Unknown:
        """A new location, which takes a cobv and no cob. One whose answer was lost is lost."""
        ...

    async def put_cobv(self, cobv: Cobv) -> Done[None] | Rejected | Unknown:
        """Register a cobv. Asked again with the same txid it is registered once."""
        ...

    async def get_cobv(self, txid: str) -> CobState | NotFound | Unknown: ...

    async def remove_cobv(self, txid: str) -> Done[None] | NotFound | Rejected | Unknown:
        """As `remove_cob`."""
        ...

    async def revise_cobv(
        self, txid: str, due_on: date, terms: PaymentTerms
    ) -> Done[None] | NotFound | Rejected | Unknown:
        """Move the due date, and with it what the terms count from it. Done when it has that date, however often
        asked; Rejected when it is over."""
        ...


class TransferBank(Protocol):
    """Money that goes out."""

    async def return_pix(self, asked: Return) -> Done[Sent] | Rejected | Unknown:
        """Give a received PIX back. Asked again with the same id it is given back once; Done may be `processing`.

        Rejected(PIX_UNKNOWN) when the bank knows no such PIX.
        """
        ...

    async def find_return(self, end_to_end_id: str, id: str) -> Sent | NotFound | Unknown: ...

    async def send_pix(self, asked: Transfer) -> Done[Sent] | Rejected | Unknown:
        """Send a PIX to a key. As `return_pix`; Rejected(NO_TRANSFERS) by a bank that does no such thing for us."""
        ...

    async def find_transfer(self, id: str) -> Sent | NotFound | Unknown: ...

    async def sent_page(
        self, since: datetime, until: datetime, after: str | None = None
    ) -> Done[BankPage[SentTransfer]] | TooWide | Rejected | Unknown:
        """A page of the PIX sent to keys that were asked for in the closed interval, at most RECEIVED_WIDTH_MAX wide;
        the first page, or the one `after` names. Empty at a bank that sends none for us; Rejected(NO_LIST) by one that
        does not list them."""
        ...


class BoletoBank(Protocol):
    async def register_boleto(self, boleto: NewBoleto) -> Done[RegisteredBoleto] | Rejected | Unknown:
        """Register a boleto. Asked again with the same number and boleto it is registered once.

        The line is the one computed under the agreement, or it is Rejected. After a refusal whose
        code is in `boletos.STANDS_AT_BANK` the boleto is to be written off; NUMBER_TAKEN asks for another number.
        """
        ...

    async def find_boleto(self, number: str) -> BoletoState | NotFound | Unknown:
        """What the bank says of a boleto; that may be 30 s old."""
        ...

    async def redate_boleto(
        self, number: str, due_on: date, *, terms: PaymentTerms | None = None, registered_at: datetime | None = None
    ) -> Done[None] | Rejected | NotYet | Unknown:
        """Move the due date of an open boleto, and with it what its `terms` count from it. Done when it has that date
        and they follow it, however often asked.

        Rejected with a code of banks/boletos.py: PAID, WRITTEN_OFF, NOT_FOUND. `registered_at` lets NotYet name a time.
        """
        ...

    async def write_off_boleto(
        self, number: str, *, registered_at: datetime | None = None
    ) -> Done[None] | Rejected | NotYet | Unknown:
        """Take an open boleto back. Done when it is written off, however often asked; else as `redate_boleto`."""
        ...

    async def paid_page(
        self, since: date, until: date, after: str | None = None
    ) -> Done[BankPage[PaidBoleto]] | TooWide | Unknown:
        """A page of the boletos of our agreement paid on these days, both included, at most BOLETO_DAYS_MAX; the first
        page, or the one `after` names. A boleto may be seen twice."""
        ...


class Bank(Protocol):
    @property
    def pix(self) -> PixBank: ...

    @property
    def cobvs(self) -> CobvBank: ...

    @property
    def boletos(self) -> BoletoBank: ...

    @property
    def transfers(self) -> TransferBank: ...
