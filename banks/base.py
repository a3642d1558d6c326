"""The port to a bank: what can be asked, and answers that are values.

`Done` and `Refused` are the bank's own yes and no. Everything else - silence, a 5xx, a page of HTML, a yes
with somebody else's data - is `Unknown`: it may have happened, and is asked again with the same identifiers.
"""

from datetime import date, datetime
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from banks.received import ReceivedPix
from banks.returns import Return, Sent, Transfer
from banks.slips import NotYet, PaidSlip, RegisteredSlip, Slip, SlipState

Value = TypeVar("Value")

MOST_DESCRIPTION_CHARACTERS = 140  # solicitacaoPagador of API Pix


class Done(Struct, Generic[Value], frozen=True):
    value: Value


class Refused(Struct, frozen=True):
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


class Bank(Protocol):
    async def put_cob(self, cob: Cob) -> Done[CobState] | Refused | Unknown:
        """Register a cob. Asked again with the same txid it is registered once."""
        ...

    async def get_cob(self, txid: str) -> CobState | NotFound | Unknown: ...

    async def remove_cob(self, txid: str) -> Done[None] | NotFound | Refused | Unknown:
        """Take a cob back. Done when it is removed, however often asked; Refused when it is paid."""
        ...

    async def revise_cob(self, txid: str, expires_at: datetime) -> Done[None] | NotFound | Refused | Unknown:
        """Have a cob be payable until `expires_at`. Done when it is, however often asked; Refused when it is over."""
        ...

    async def create_locations(self, count: int) -> Done[list[Location]] | Refused | Unknown:
        """Up to `count` new locations, at least one. Those whose answer was lost are lost."""
        ...

    async def received(self, since: datetime, until: datetime) -> Done[list[ReceivedPix]] | Unknown:
        """Every PIX with a txid received in the closed interval, whole or Unknown."""
        ...

    async def register_callback(self, pix_key: str, url: str) -> Done[None] | Refused | Unknown:
        """Have the bank POST `{url}/pix` when money arrives on the key."""
        ...

    async def return_pix(self, asked: Return) -> Done[Sent] | Refused | Unknown:
        """Give a received PIX back. Asked again with the same id it is given back once; Done may be `processing`.

        Refused(PIX_UNKNOWN) when the bank knows no such PIX.
        """
        ...

    async def find_return(self, end_to_end_id: str, id: str) -> Sent | NotFound | Unknown: ...

    async def send_pix(self, asked: Transfer) -> Done[Sent] | Refused | Unknown:
        """Send a PIX to a key. As `return_pix`; Refused(NO_TRANSFERS) by a bank that does no such thing for us."""
        ...

    async def find_transfer(self, id: str) -> Sent | NotFound | Unknown: ...

    async def register_slip(self, slip: Slip) -> Done[RegisteredSlip] | Refused | Unknown:
        """Register a slip. Asked again with the same number and slip it is registered once.

        The line is the one computed from the slip (`slips.slip_codes`), or it is Refused. After a refusal whose code
        is in `slips.STANDS_AT_BANK` the slip is to be written off; NUMBER_TAKEN asks for another number.
        """
        ...

    async def find_slip(self, number: str) -> SlipState | NotFound | Unknown:
        """What the bank says of a slip; that may be 30 s old."""
        ...

    async def redate_slip(
        self, number: str, due_on: date, *, registered_at: datetime | None = None
    ) -> Done[None] | Refused | NotYet | Unknown:
        """Move the due date of an open slip. Done when it has that date, however often asked.

        Refused with a code of banks/slips.py: PAID, WRITTEN_OFF, NOT_FOUND. `registered_at` lets NotYet name a time.
        """
        ...

    async def write_off_slip(
        self, number: str, *, registered_at: datetime | None = None
    ) -> Done[None] | Refused | NotYet | Unknown:
        """Take an open slip back. Done when it is written off, however often asked; else as `redate_slip`."""
        ...

    async def slips_paid(self, since: date, until: date) -> Done[list[PaidSlip]] | Unknown:
        """Every slip of ours paid on these days, both included, whole or Unknown."""
        ...
