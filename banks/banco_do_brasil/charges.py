"""The common part of cob and cobv on the wire: finding and removing by txid, PUT with a location, the payer's data.

After a request without a plain yes or no, GET by txid decides.
"""

import re
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from msgspec import Raw, Struct

from banks.banco_do_brasil.pix_list import read_received
from banks.banco_do_brasil.text import pix_cents, safe_text
from banks.banco_do_brasil.transport import Heard, Transport, nothing_found, read, refusal, unknown
from banks.protocol import DESCRIPTION_CHARACTERS_MAX, Cob, CobState, Cobv, Done, Location, NotFound, Rejected, Unknown

LOCATIONS: Final = ("payloadlocation.read", "payloadlocation.write")
REMOVED: Final = "REMOVIDA_PELO_USUARIO_RECEBEDOR"
ACTIVE: Final = "ATIVA"
_CONCLUDED: Final = "CONCLUIDA"
_LOCATION: Final = re.compile(r"(?!.*://)[!-~]{1,77}")
"""What a BR Code can carry: any other would fail the creation that takes it."""


class Value(Struct, frozen=True):
    original: str


class Place(Struct, frozen=True):
    id: int | None = None


class WireCharge(Struct, frozen=True):
    """The fields of a cob or cobv that are read."""

    txid: str
    status: str
    valor: Value
    chave: str | None = None
    loc: Place | None = None
    pix: list[Raw] | None = None


Charge = TypeVar("Charge", bound=WireCharge)


class _Location(Struct, frozen=True):
    id: int
    location: str


class ChargesOfKind(Generic[Charge]):
    """Charges of one kind, over HTTP at `url` (".../pix/v2/cob"). `refused` is the standard's error code for a refused
    operation on this kind."""

    def __init__(
        self, transport: Transport, *, url: str, scopes: tuple[str, ...], shape: type[Charge], refused: str
    ) -> None:
        self._transport = transport
        self._url = url
        self._scopes = scopes
        self._shape = shape
        self.refused = refused

    async def ask(self, method: str, txid: str, body: object = None) -> Heard | Unknown:
        return await self._transport.ask(method, f"{self._url}/{txid}", self._scopes, body=body)

    async def find(self, txid: str) -> Charge | NotFound | Unknown:
        heard = await self.ask("GET", txid)
        if isinstance(heard, Heard) and heard.ok:
            found = read(heard, self._shape)
            return found if found is not None and found.txid == txid else Unknown("unreadable charge")
        return NotFound() if nothing_found(heard) else unknown(heard)

    async def put(self, asked: Cob | Cobv, body: object) -> Charge | Rejected | Unknown:
        """Register a charge and return it as registered; a repetition registers nothing new."""
        heard = await self.ask("PUT", asked.txid, body)
        if isinstance(heard, Heard) and heard.ok:
            put = read(heard, self._shape)
            if put is not None and _is_same(put, asked) and not _is_removed(put):
                return put
        # The answer was lost, or the no is due to an earlier attempt that did register this txid: GET tells.
        no = refusal(heard)
        found = await self.find(asked.txid)
        if isinstance(found, Unknown):
            return found
        if isinstance(found, NotFound):
            return no or unknown(heard)
        if not _is_same(found, asked):
            return no or Rejected("TxidDeOutraCobranca", "The txid is another charge's.")
        if _is_removed(found):
            return no or Rejected(self.refused, "The charge was removed at the bank.")
        return found

    async def state(self, txid: str) -> CobState | NotFound | Unknown:
        found = await self.find(txid)
        if not isinstance(found, WireCharge):
            return found
        received, unreadable = read_received(found.pix or (), txid=txid)
        return Unknown("unreadable charge") if unreadable else CobState(status=found.status, received=received)

    async def remove(self, txid: str, is_over: Callable[[Charge], bool]) -> Done[None] | NotFound | Rejected | Unknown:
        """Remove a charge. `is_over` tells whether it has expired, which the status does not show."""
        heard = await self.ask("PATCH", txid, {"status": REMOVED})
        if isinstance(heard, Heard) and heard.ok:
            patched = read(heard, self._shape)
            if patched is not None and patched.txid == txid and patched.status == REMOVED:
                return Done(None)
        found = await self.find(txid)
        if not isinstance(found, WireCharge):
            return found
        if found.status == _CONCLUDED:
            return Rejected(self.refused, "The charge is paid.")
        if _is_removed(found):
            return Done(None)
        # A no to the removal of a payable charge is tried again. An expired charge stays ATIVA, and the bank's error
        # code for it is not published, so there any no is final: otherwise the order would be tried for ever.
        no = refusal(heard)
        return no if no is not None and is_over(found) else unknown(heard)


async def create_location(transport: Transport, api_url: str, kind: str) -> Location | Rejected | Unknown:
    """Create a location for a charge of this kind: cob or cobv."""
    heard = await transport.ask("POST", f"{api_url}/loc", LOCATIONS, body={"tipoCob": kind})
    if isinstance(heard, Heard) and heard.ok:
        made = read(heard, _Location)
        if made is not None and _LOCATION.fullmatch(made.location):
            return Location(made.id, made.location)
        return Unknown("unreadable location")
    return refusal(heard) or unknown(heard)


def _is_removed(charge: WireCharge) -> bool:
    """Whether the charge was removed by us or by the bank itself (REMOVIDA_PELO_PSP) and so cannot be paid."""
    return charge.status.startswith("REMOVIDA_")


def _is_same(found: WireCharge, asked: Cob | Cobv) -> bool:
    """Whether the charge found is the one we requested, and no other with this txid. Expiry and due date are not
    compared: the bank counts from its own registration, and a due date may have been changed."""
    found_at = found.loc.id if found.loc is not None else None
    return (
        found.txid == asked.txid
        and pix_cents(found.valor.original) == asked.amount_cents
        and found.chave in (None, asked.pix_key)
        and found_at in (None, asked.location_id)
    )


def said_of(description: str | None, name: str | None, document: str | None) -> dict[str, Any]:
    """Return the part of the body with the text for the payer and the payer's name and document."""
    body: dict[str, Any] = {}
    text = safe_text(description or "", DESCRIPTION_CHARACTERS_MAX)
    if text:
        body["solicitacaoPagador"] = text
    folded = safe_text(name or "", 200)
    if folded and document is not None:
        body["devedor"] = {"cpf" if len(document) == 11 else "cnpj": document, "nome": folded}
    return body
