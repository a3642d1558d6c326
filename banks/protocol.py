"""The port to a bank: its operations, and their answers as values.

`Done` and `Rejected` are the bank's own yes and no. Everything else - silence, a 5xx, a page of HTML, a yes with other
data - is `Unknown`: the operation may have happened, and is tried again with the same identifiers.
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
"""The widest interval of a request for received PIX: GET /pix of Banco do Brasil accepts no wider one."""
BOLETO_DAYS_MAX = 90
"""The most days of a request for paid boletos: the bank refuses wider ranges."""


class Done(Struct, Generic[Value], frozen=True):
    value: Value


class Rejected(Struct, frozen=True):
    """A final no: asking again changes nothing. `code` is the bank's own name for the reason."""

    code: str
    message: str


class NotFound(Struct, frozen=True):
    """The bank's definite answer that the thing does not exist."""


class Unknown(Struct, frozen=True):
    """No definite answer: the operation may or may not have happened. `detail` names what was seen (a status, a kind of
    error), never what was sent."""

    detail: str
    asked: bool = True
    """False: the bank wants no calls for longer than a request waits, and nothing was sent."""


class Cob(Struct, frozen=True, kw_only=True):
    """An immediate charge to register. We choose the txid (32 hex digits), so that a repeated request makes one cob."""

    txid: str
    amount_cents: int
    created_at: datetime
    expires_in_s: int
    """Counted from `created_at`."""
    location_id: int
    pix_key: str
    description: str | None = None
    """Any text; each adapter folds it to the characters its bank accepts."""
    payer_name: str | None = None
    payer_document: str | None = None


class Cobv(Struct, frozen=True, kw_only=True):
    """A charge with a due date to register (API Pix, cobv). The amount due follows from its terms, counted from the
    effective due date like those of a boleto; it can be paid until their last day. We choose the txid, as for a
    cob."""

    txid: str
    amount_cents: int
    due_on: date
    terms: PaymentTerms
    location_id: int
    pix_key: str
    payer_name: str
    payer_document: str
    """The standard requires the payer of a cobv."""
    description: str | None = None
    """As in a cob."""


class CobState(Struct, frozen=True, kw_only=True):
    """The bank's state of a cob or cobv. `status`: ATIVA (also after its expiry), CONCLUIDA, REMOVIDA_PELO_..."""

    status: str
    received: list[ReceivedPix]


class Location(Struct, frozen=True):
    """The address in a QR Code, created in advance. `location` is host and path, at most 77 characters, no scheme."""

    location_id: int
    location: str


class PixBank(Protocol):
    """Receiving PIX: immediate charges, the list of received PIX, callbacks."""

    async def put_cob(self, cob: Cob) -> Done[None] | Rejected | Unknown:
        """Register a cob. A repetition with the same txid registers nothing new."""
        ...

    async def get_cob(self, txid: str) -> CobState | NotFound | Unknown: ...

    async def remove_cob(self, txid: str) -> Done[None] | NotFound | Rejected | Unknown:
        """Remove a cob. Done once it is removed, also if repeated; Rejected if it is paid, or if it has expired and the
        bank refuses."""
        ...

    async def revise_cob(self, txid: str, expires_at: datetime) -> Done[None] | NotFound | Rejected | Unknown:
        """Change a cob's expiry to `expires_at`. Done once it has that expiry, also if repeated; Rejected if the cob is
        no longer ATIVA."""
        ...

    async def create_locations(self, count: int) -> Done[list[Location]] | Rejected | Unknown:
        """Create up to `count` locations, at least one. Locations whose answer was lost are lost."""
        ...

    async def received_page(
        self, since: datetime, until: datetime, after: str | None = None, *, returned: bool = False
    ) -> Done[BankPage[ReceivedPix]] | TooWide | Unknown:
        """Return a page of the PIX received in the closed interval, at most RECEIVED_WIDTH_MAX wide, including those
        without a txid: the first page, or the page `after`. `returned`: only PIX with a devolucao.

        Pages do not change unless the bank lists a PIX late, which only adds items. Then an item may be seen twice, and
        an item that moves between two pages requested at the same time may be missed until the list is read again.
        """
        ...

    async def register_callback(self, pix_key: str, url: str) -> Done[None] | Rejected | Unknown:
        """Register a callback: the bank will POST to `{url}/pix` when money arrives on the key."""
        ...


class CobvBank(Protocol):
    """PIX charges with a due date. Their payments are in the list of all received PIX."""

    async def create_cobv_location(self) -> Done[Location] | Rejected | Unknown:
        """Create a location for a cobv; it takes no cob. A location whose answer was lost is lost."""
        ...

    async def put_cobv(self, cobv: Cobv) -> Done[None] | Rejected | Unknown:
        """Register a cobv. A repetition with the same txid registers nothing new."""
        ...

    async def get_cobv(self, txid: str) -> CobState | NotFound | Unknown: ...

    async def remove_cobv(self, txid: str) -> Done[None] | NotFound | Rejected | Unknown:
        """As `remove_cob`."""
        ...

    async def revise_cobv(
        self, txid: str, due_on: date, terms: PaymentTerms
    ) -> Done[None] | NotFound | Rejected | Unknown:
        """Change the due date, and the days that the terms count from it. Done once the cobv has that date, also if
        repeated; Rejected if it is no longer ATIVA."""
        ...


class TransferBank(Protocol):
    """Outgoing money: devolucoes and transfers."""

    async def return_pix(self, asked: Return) -> Done[Sent] | Rejected | Unknown:
        """Return a received PIX to its payer. A repetition with the same id returns it once; Done may be `processing`.

        Rejected(PIX_UNKNOWN) if the bank knows no such PIX.
        """
        ...

    async def find_return(self, end_to_end_id: str, id: str) -> Sent | NotFound | Unknown: ...

    async def send_pix(self, asked: Transfer) -> Done[Sent] | Rejected | Unknown:
        """Send a PIX to a key, once for each id, as `return_pix`. Rejected(NO_TRANSFERS) if the bank sends no PIX for
        us."""
        ...

    async def find_transfer(self, id: str) -> Sent | NotFound | Unknown: ...

    async def sent_page(
        self, since: datetime, until: datetime, after: str | None = None
    ) -> Done[BankPage[SentTransfer]] | TooWide | Rejected | Unknown:
        """Return a page of the PIX to keys that were requested in the closed interval, at most RECEIVED_WIDTH_MAX wide:
        the first page, or the page `after`. Empty if the bank sends none for us; Rejected(NO_LIST) if it has no such
        list."""
        ...


class BoletoBank(Protocol):
    async def register_boleto(self, boleto: NewBoleto) -> Done[RegisteredBoleto] | Rejected | Unknown:
        """Register a boleto. A repetition with the same number and the same data registers nothing new.

        If the bank's line differs from the one computed under the agreement, the answer is Rejected. After a refusal
        with a code in `boletos.STANDS_AT_BANK` the caller must write the boleto off; after NUMBER_TAKEN it takes
        another number.
        """
        ...

    async def find_boleto(self, number: str) -> BoletoState | NotFound | Unknown:
        """Return the bank's state of a boleto, which may be 30 s old."""
        ...

    async def redate_boleto(
        self, number: str, due_on: date, *, terms: PaymentTerms | None = None, registered_at: datetime | None = None
    ) -> Done[None] | Rejected | NotYet | Unknown:
        """Change the due date of an open boleto, and the days that its `terms` count from it. Done once both are
        changed, also if repeated.

        Rejected with PAID, WRITTEN_OFF or NOT_FOUND (banks/boletos.py). With `registered_at`, NotYet can name a time.
        """
        ...

    async def write_off_boleto(
        self, number: str, *, registered_at: datetime | None = None
    ) -> Done[None] | Rejected | NotYet | Unknown:
        """Write an open boleto off. Done once it is written off, also if repeated; otherwise as `redate_boleto`."""
        ...

    async def paid_page(
        self, since: date, until: date, after: str | None = None
    ) -> Done[BankPage[PaidBoleto]] | TooWide | Unknown:
        """Return a page of our agreement's boletos paid from `since` to `until`, both included, at most BOLETO_DAYS_MAX
        days: the first page, or the page `after`. A boleto may be listed twice."""
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
