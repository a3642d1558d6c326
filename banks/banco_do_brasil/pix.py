"""Banco do Brasil, API Pix v2: the standard of the Banco Central, and where the bank deviates from it.

Deviations: an application key in every query string, 200 where the standard says 201, errors in six shapes and
sometimes HTML, a list of received PIX over at most five days, and refusals of accents in texts.
What is not plainly yes or no is Unknown; after a PUT that was not plainly answered, GET by txid decides.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from banks.banco_do_brasil.text import pix_cents, safe_text
from banks.banco_do_brasil.transport import NOTHING_FOUND, Heard, Transport, read, refusal, unknown
from banks.protocol import (
    DESCRIPTION_CHARACTERS_MAX,
    Cob,
    CobState,
    Done,
    Location,
    NotFound,
    Rejected,
    Unknown,
)
from banks.received import ReceivedPix
from domain.documents import well_formed
from domain.instants import SAO_PAULO, day_ends
from domain.money import reais

COB = ("cob.read", "cob.write")
PIX = ("pix.read",)
LOCATIONS = ("payloadlocation.read", "payloadlocation.write")
WEBHOOK = ("webhook.read", "webhook.write")
WINDOW = timedelta(days=5)
"""The widest interval GET /pix takes."""

_PAGES_MAX = 1_000
_PER_PAGE = 100
_LOCATION_CALLS = 96
_REMOVED: Final = "REMOVIDA_PELO_USUARIO_RECEBEDOR"
_ACTIVE: Final = "ATIVA"


class _Devedor(Struct, frozen=True):
    cpf: str | None = None
    cnpj: str | None = None
    nome: str | None = None


class _Pix(Struct, frozen=True, rename="camel"):
    end_to_end_id: str
    valor: str
    horario: str
    txid: str | None = None
    pagador: _Devedor | None = None


class _Valor(Struct, frozen=True):
    original: str


class _Loc(Struct, frozen=True):
    id: int | None = None
    location: str | None = None


class _Calendario(Struct, frozen=True):
    """The bank writes numbers as text now and then: nothing here may make a cob unreadable."""

    criacao: str | None = None
    expiracao: int | str | None = None


class _Cob(Struct, frozen=True):
    txid: str
    status: str
    valor: _Valor
    revisao: int = 0
    chave: str | None = None
    location: str | None = None
    loc: _Loc | None = None
    calendario: _Calendario | None = None
    pix: list[_Pix] | None = None


class _Location(Struct, frozen=True):
    id: int
    location: str


class _Paging(Struct, frozen=True, rename="camel"):
    quantidade_de_paginas: int = 1


class _Parameters(Struct, frozen=True):
    paginacao: _Paging = _Paging()


class _Received(Struct, frozen=True):
    parametros: _Parameters = _Parameters()
    pix: list[_Pix] | None = None


class ApiPix:
    """PIX that are received, over HTTP at `api_url` (".../pix/v2")."""

    def __init__(
        self,
        transport: Transport,
        *,
        api_url: str,
        now: Callable[[], datetime],
        location_calls: int = _LOCATION_CALLS,
    ) -> None:
        self._transport = transport
        self._api_url = api_url
        self._now = now
        # Of all who ask for locations: slices that are made side by side share it.
        self._location_calls = asyncio.Semaphore(location_calls)

    async def put_cob(self, cob: Cob) -> Done[CobState] | Rejected | Unknown:
        body = self._cob_body(cob)
        heard = await self._ask("PUT", f"/cob/{cob.txid}", COB, body=body)
        if isinstance(heard, Heard) and heard.ok:
            put = read(heard, _Cob)
            if put is not None and _same(put, cob) and (state := _state(put)) is not None:
                return Done(state)
        # A lost answer, or a no to a txid that an earlier, lost attempt has put there: the bank knows.
        no = refusal(heard)
        found = await self._find(cob.txid)
        match found:
            case _Cob():
                if not _same(found, cob):
                    return no or Rejected("TxidDeOutraCobranca", "The txid is another charge's.")
                state = _state(found)
                if state is None:
                    return Unknown("unreadable cob")
                if state.status == _REMOVED:
                    return no or Rejected("CobOperacaoInvalida", "The charge was removed at the bank.")
                return Done(state)
            case NotFound():
                return no or unknown(heard)
            case Unknown():
                return found

    async def get_cob(self, txid: str) -> CobState | NotFound | Unknown:
        found = await self._find(txid)
        if not isinstance(found, _Cob):
            return found
        return _state(found) or Unknown("unreadable cob")

    async def remove_cob(self, txid: str) -> Done[None] | NotFound | Rejected | Unknown:
        body = {"status": _REMOVED}
        heard = await self._ask("PATCH", f"/cob/{txid}", COB, body=body)
        if isinstance(heard, Heard) and heard.ok:
            patched = read(heard, _Cob)
            if patched is not None and patched.txid == txid and patched.status == _REMOVED:
                return Done(None)
        found = await self._find(txid)
        match found:
            case _Cob(status="REMOVIDA_PELO_USUARIO_RECEBEDOR" | "REMOVIDA_PELO_PSP"):
                return Done(None)
            case _Cob(status="CONCLUIDA"):
                return Rejected("CobOperacaoInvalida", "The charge is paid.")
            case _Cob():
                return unknown(heard)
            case _:
                return found

    async def revise_cob(self, txid: str, expires_at: datetime) -> Done[None] | NotFound | Rejected | Unknown:
        found = await self._find(txid)
        if not isinstance(found, _Cob):
            return found
        lifetime_s = _lifetime_s(found, expires_at)
        if lifetime_s is None:
            return Unknown("unreadable cob")
        if (told := _revised(found, lifetime_s)) is not None:
            return told
        heard = await self._ask("PATCH", f"/cob/{txid}", COB, body={"calendario": {"expiracao": lifetime_s}})
        # The answer may be lost, and a payer may have been quicker: what the bank has now decides.
        found = await self._find(txid)
        if not isinstance(found, _Cob):
            return found
        return _revised(found, lifetime_s) or unknown(heard)

    async def create_locations(self, count: int) -> Done[list[Location]] | Rejected | Unknown:
        made: list[Location] = []
        failures: list[Rejected | Unknown] = []

        async def one() -> None:
            async with self._location_calls:
                if failures:
                    return  # a bank that is away would be asked in vain for each of the others
                answer = await self._create_location()
                if isinstance(answer, Location):
                    made.append(answer)
                else:
                    failures.append(answer)

        await asyncio.gather(*(one() for _ in range(count)))
        return Done(made) if made else failures[0]

    async def received(self, since: datetime, until: datetime) -> Done[list[ReceivedPix]] | Unknown:
        found: list[ReceivedPix] = []
        while since < until:
            upto = min(until, since + WINDOW)
            part = await self._received_window(since, upto)
            if isinstance(part, Unknown):
                return part
            found += part
            since = upto
        return Done(found)

    async def register_callback(self, pix_key: str, url: str) -> Done[None] | Rejected | Unknown:
        heard = await self._ask(
            "PUT",
            f"/webhook/{quote(pix_key, safe='')}",
            WEBHOOK,
            body={"webhookUrl": url},
        )
        if isinstance(heard, Heard) and heard.status in (200, 201, 204):
            return Done(None)
        return refusal(heard) or unknown(heard)

    async def received_of(self, txid: str, paid_on: date) -> list[ReceivedPix] | Unknown:
        """The PIX with this txid that came until the end of that day: one question, back over WINDOW."""
        until = day_ends(paid_on)
        received = await self._received_window(until - WINDOW, until, of={"txid": txid})
        return received if isinstance(received, Unknown) else [pix for pix in received if pix.txid == txid]

    async def _find(self, txid: str) -> _Cob | NotFound | Unknown:
        heard = await self._ask("GET", f"/cob/{txid}", COB)
        if isinstance(heard, Heard) and heard.ok:
            found = read(heard, _Cob)
            return found if found is not None and found.txid == txid else Unknown("unreadable cob")
        # A gateway's 404 page is not the bank saying "no such charge".
        no = refusal(heard)
        if no is None or not isinstance(heard, Heard):
            return unknown(heard)
        nothing = heard.status == 404 or no.code == NOTHING_FOUND
        return NotFound() if nothing else unknown(heard)

    async def _create_location(self) -> Location | Rejected | Unknown:
        heard = await self._ask("POST", "/loc", LOCATIONS, body={"tipoCob": "cob"})
        if isinstance(heard, Heard) and heard.ok:
            made = read(heard, _Location)
            if made is not None and 0 < len(made.location) <= 77 and "://" not in made.location:
                return Location(made.id, made.location)
            return Unknown("unreadable location")
        return refusal(heard) or unknown(heard)

    async def _received_window(
        self, since: datetime, until: datetime, *, of: Mapping[str, str] | None = None
    ) -> list[ReceivedPix] | Unknown:
        """All of an interval; `of` narrows the list further, by names of API Pix."""
        found: list[ReceivedPix] = []
        for page in range(_PAGES_MAX):
            query = {
                "inicio": _rfc3339(since),
                "fim": _rfc3339(until),
                "paginacao.paginaAtual": str(page),
                "paginacao.itensPorPagina": str(_PER_PAGE),
                **(of or {}),
            }
            heard = await self._ask("GET", "/pix", PIX, query=query)
            answer = read(heard, _Received) if isinstance(heard, Heard) and heard.ok else None
            if answer is None:
                return unknown(heard)
            for each in answer.pix or ():
                if each.txid is None:
                    continue  # paid to the key by hand, for no charge
                received = _received(each)
                if received is None:
                    return Unknown("unreadable pix")
                found.append(received)
            if page + 1 >= answer.parametros.paginacao.quantidade_de_paginas:
                return found
        return Unknown("too many pages")

    def _cob_body(self, cob: Cob) -> dict[str, Any]:
        # The bank counts from the moment it registers: an order that waited leaves the payer less.
        left_s = int((cob.created_at + timedelta(seconds=cob.expires_in_s) - self._now()).total_seconds())
        body: dict[str, Any] = {
            "calendario": {"expiracao": max(left_s, 1)},
            "valor": {"original": reais(cob.amount_cents)},
            "chave": cob.pix_key,
            "loc": {"id": cob.location_id},
        }
        text = safe_text(cob.description or "", DESCRIPTION_CHARACTERS_MAX)
        if text:
            body["solicitacaoPagador"] = text
        name = safe_text(cob.payer_name or "", 200)
        if name and cob.payer_document is not None:
            kind = "cpf" if len(cob.payer_document) == 11 else "cnpj"
            body["devedor"] = {kind: cob.payer_document, "nome": name}
        return body

    async def _ask(
        self,
        method: str,
        path: str,
        scopes: tuple[str, ...],
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
    ) -> Heard | Unknown:
        return await self._transport.ask(method, self._api_url + path, scopes, body=body, query=query)


def _rfc3339(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _same(found: _Cob, cob: Cob) -> bool:
    """Is this the charge we asked for? Its lifetime may differ: the bank counts from its own moment."""
    location_id = found.loc.id if found.loc is not None else None
    return (
        found.txid == cob.txid
        and pix_cents(found.valor.original) == cob.amount_cents
        and found.chave in (None, cob.pix_key)
        and location_id in (None, cob.location_id)
    )


def _lifetime_s(cob: _Cob, expires_at: datetime) -> int | None:
    """The expiracao that ends a cob then: seconds since the bank registered it."""
    created_at = _instant(cob.calendario.criacao or "") if cob.calendario is not None else None
    return None if created_at is None else max(int((expires_at - created_at).total_seconds()), 1)


def _revised(cob: _Cob, lifetime_s: int) -> Done[None] | Rejected | None:
    """What is decided about a new expiracao already: it has it, or takes none any more."""
    if cob.status != _ACTIVE:
        return Rejected("CobOperacaoInvalida", f"The charge is {cob.status}.")
    assert cob.calendario is not None
    return Done(None) if str(cob.calendario.expiracao) == str(lifetime_s) else None


def _state(cob: _Cob) -> CobState | None:
    received = [_received(each, cob.txid) for each in cob.pix or ()]
    cents = pix_cents(cob.valor.original)
    if cents is None or None in received:
        return None
    return CobState(
        txid=cob.txid,
        status=cob.status,
        revisao=cob.revisao,
        amount_cents=cents,
        pix_key=cob.chave,
        location=cob.location or (cob.loc.location if cob.loc is not None else None),
        received=[each for each in received if each is not None],
    )


def _received(pix: _Pix, txid: str | None = None) -> ReceivedPix | None:
    cents, paid_at = pix_cents(pix.valor), _instant(pix.horario)
    txid = pix.txid or txid
    if cents is None or paid_at is None or txid is None or not pix.end_to_end_id.isalnum():
        return None
    payer = pix.pagador or _Devedor()
    document = payer.cpf or payer.cnpj
    return ReceivedPix(
        end_to_end_id=pix.end_to_end_id,
        txid=txid.strip(),
        amount_cents=cents,
        paid_at=paid_at,
        payer_name=payer.nome,
        payer_document=document if document and well_formed(document, letters=True) else None,
    )


def _instant(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=SAO_PAULO)  # the bank thinks in Brasilia's time
