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

from msgspec import Raw, Struct

from banks.banco_do_brasil.pix_list import ReceivedList, instant, read_received
from banks.banco_do_brasil.text import pix_cents, safe_text
from banks.banco_do_brasil.transport import NOTHING_FOUND, Heard, Transport, read, refusal, unknown
from banks.lists import BankPage, TooWide, numbered_page
from banks.protocol import (
    DESCRIPTION_CHARACTERS_MAX,
    RECEIVED_WIDTH_MAX,
    Cob,
    CobState,
    Done,
    Location,
    NotFound,
    Rejected,
    Unknown,
)
from banks.received import ReceivedPix
from domain.instants import day_ends
from domain.money import reais

COB = ("cob.read", "cob.write")
PIX = ("pix.read",)
LOCATIONS = ("payloadlocation.read", "payloadlocation.write")
WEBHOOK = ("webhook.read", "webhook.write")

_PER_PAGE = 100
_LOCATION_CALLS = 128
_REMOVED: Final = "REMOVIDA_PELO_USUARIO_RECEBEDOR"
_ACTIVE: Final = "ATIVA"


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
    pix: list[Raw] | None = None


class _Location(Struct, frozen=True):
    id: int
    location: str


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

    async def received_page(
        self, since: datetime, until: datetime, after: str | None = None, *, returned: bool = False
    ) -> Done[BankPage[ReceivedPix]] | TooWide | Unknown:
        assert since <= until <= since + RECEIVED_WIDTH_MAX
        page = int(after or 0)
        of = {"devolucaoPresente": "true"} if returned else {}
        heard = await self._list(since, until, page, of)
        if isinstance(heard, Heard) and heard.ok:
            return _page(heard, page)
        no = refusal(heard)
        if no is None or not isinstance(heard, Heard):
            return unknown(heard)
        if no.code == NOTHING_FOUND:
            return Done(BankPage(items=[]))
        # Which no the bank says to an interval with too much in it is not published: any no to the question is taken
        # for one, and a shorter interval asked for.
        return TooWide(no.code) if heard.status in (400, 422) else unknown(heard)

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
        """The PIX with this txid that came until the end of that day: one question, back over five days. None of them
        when one cannot be read: what a boleto was paid with is decided on all of them."""
        until = day_ends(paid_on)
        heard = await self._list(until - RECEIVED_WIDTH_MAX, until, 0, {"txid": txid})
        page = _page(heard, 0) if isinstance(heard, Heard) and heard.ok else None
        if not isinstance(page, Done):
            return page or unknown(heard)
        if page.value.unreadable or page.value.following is not None:
            return Unknown("unreadable pix, or more of one txid than a page holds")
        return [pix for pix in page.value.items if pix.txid == txid]

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

    async def _list(self, since: datetime, until: datetime, page: int, of: Mapping[str, str]) -> Heard | Unknown:
        """`of` narrows the list, by names of API Pix."""
        query = {
            "inicio": _rfc3339(since),
            "fim": _rfc3339(until),
            "paginacao.paginaAtual": str(page),
            "paginacao.itensPorPagina": str(_PER_PAGE),
            **of,
        }
        return await self._ask("GET", "/pix", PIX, query=query)

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


def _page(heard: Heard, page: int) -> Done[BankPage[ReceivedPix]] | Unknown:
    answer = read(heard, ReceivedList)
    if answer is None:
        return Unknown("unreadable list")
    items, unreadable = read_received(answer.pix or ())
    pages = answer.parametros.paginacao.quantidade_de_paginas
    if not answer.pix:  # whatever number of pages is claimed
        return Done(BankPage(items=[], pages=pages))
    return Done(numbered_page(items, unreadable, page=page, pages=pages))


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
    created_at = instant(cob.calendario.criacao or "") if cob.calendario is not None else None
    return None if created_at is None else max(int((expires_at - created_at).total_seconds()), 1)


def _revised(cob: _Cob, lifetime_s: int) -> Done[None] | Rejected | None:
    """What is decided about a new expiracao already: it has it, or takes none any more."""
    if cob.status != _ACTIVE:
        return Rejected("CobOperacaoInvalida", f"The charge is {cob.status}.")
    assert cob.calendario is not None
    return Done(None) if str(cob.calendario.expiracao) == str(lifetime_s) else None


def _state(cob: _Cob) -> CobState | None:
    received, unreadable = read_received(cob.pix or (), txid=cob.txid)
    cents = pix_cents(cob.valor.original)
    if cents is None or unreadable:
        return None
    return CobState(
        txid=cob.txid,
        status=cob.status,
        revisao=cob.revisao,
        amount_cents=cents,
        pix_key=cob.chave,
        location=cob.location or (cob.loc.location if cob.loc is not None else None),
        received=received,
    )
