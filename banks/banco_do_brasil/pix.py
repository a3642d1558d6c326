"""Banco do Brasil, API Pix v2: the standard of the Banco Central with the bank's deviations.

Deviations: an application key in every query string, 200 where the standard says 201, errors in six shapes and
sometimes HTML, a list of received PIX over at most five days, and texts with accents refused. An answer that is not
plainly yes or no is Unknown; after a PUT without a plain answer, GET by txid decides.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from banks.banco_do_brasil.charges import (
    ACTIVE,
    ChargesOfKind,
    WireCharge,
    create_location,
    said_of,
)
from banks.banco_do_brasil.pix_list import Parameters, ReceivedList, instant, list_query, read_received
from banks.banco_do_brasil.transport import NOTHING_FOUND, Heard, Transport, not_listed, read, refusal, unknown
from banks.lists import FIRST_PAGE_AGAIN, BankPage, TooWide, numbered_page
from banks.protocol import (
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
WEBHOOK = ("webhook.read", "webhook.write")

_REFUSED: Final = "CobOperacaoInvalida"
_SECONDS: Final = re.compile(r"[0-9]{1,9}")
_CLOCKS: Final = timedelta(minutes=1)  # allowed difference between the bank's clock and ours


class _Calendario(Struct, frozen=True):
    """The dates of a cob. The bank sometimes writes numbers as text, which must not make a cob unreadable."""

    criacao: str | None = None
    expiracao: int | str | None = None


class _Cob(WireCharge, frozen=True):
    calendario: _Calendario | None = None


class ApiPix:
    """Receiving PIX, over HTTP at `api_url` (".../pix/v2")."""

    def __init__(
        self,
        transport: Transport,
        *,
        api_url: str,
        now: Callable[[], datetime],
    ) -> None:
        self._transport = transport
        self._api_url = api_url
        self._now = now
        self._charges = ChargesOfKind(transport, url=f"{api_url}/cob", scopes=COB, shape=_Cob, refused=_REFUSED)

    async def put_cob(self, cob: Cob) -> Done[None] | Rejected | Unknown:
        put = await self._charges.put(cob, self._cob_body(cob))
        return Done(None) if isinstance(put, _Cob) else put

    async def get_cob(self, txid: str) -> CobState | NotFound | Unknown:
        return await self._charges.state(txid)

    async def remove_cob(self, txid: str) -> Done[None] | NotFound | Rejected | Unknown:
        return await self._charges.remove(txid, self._is_over)

    async def revise_cob(self, txid: str, expires_at: datetime) -> Done[None] | NotFound | Rejected | Unknown:
        found = await self._charges.find(txid)
        if not isinstance(found, _Cob):
            return found
        lifetime_s = _lifetime_s(found, expires_at)
        if lifetime_s is None:
            return Unknown("unreadable cob")
        if (told := _revised(found, lifetime_s)) is not None:
            return told
        heard = await self._charges.ask("PATCH", txid, {"calendario": {"expiracao": lifetime_s}})
        # The answer may be lost, or a payer may have paid first: the charge's present state at the bank decides.
        found = await self._charges.find(txid)
        if not isinstance(found, _Cob):
            return found
        return _revised(found, lifetime_s) or unknown(heard)

    async def create_locations(self, count: int) -> Done[list[Location]] | Rejected | Unknown:
        calls = (create_location(self._transport, self._api_url, "cob") for _ in range(count))
        answers = await asyncio.gather(*calls)
        refusals = [each for each in answers if not isinstance(each, Location)]
        return refusals[0] if len(refusals) == count else Done([each for each in answers if isinstance(each, Location)])

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
        return Done(BankPage(items=[])) if no is not None and no.code == NOTHING_FOUND else not_listed(heard)

    async def register_callback(self, pix_key: str, url: str) -> Done[None] | Rejected | Unknown:
        heard = await self._transport.ask(
            "PUT", f"{self._api_url}/webhook/{quote(pix_key, safe='')}", WEBHOOK, body={"webhookUrl": url}
        )
        # The standard's answer has no body. A gateway's page must not count as yes: the registration would never be
        # tried again.
        if isinstance(heard, Heard) and heard.status in (200, 201, 204):
            plain = not heard.body.strip() or read(heard, dict[str, Any]) is not None
            return Done(None) if plain else unknown(heard)
        return refusal(heard) or unknown(heard)

    async def received_of(self, txid: str, paid_on: date) -> list[ReceivedPix] | Unknown:
        """Return the PIX with this txid that arrived until the end of that day, from one request over the five days
        before. Unknown if one of them is unreadable: the payment of a boleto is decided on all of them together."""
        until = day_ends(paid_on)
        heard = await self._list(until - RECEIVED_WIDTH_MAX, until, 0, {"txid": txid})
        page = _page(heard, 0) if isinstance(heard, Heard) and heard.ok else None
        if not isinstance(page, Done):
            return page if isinstance(page, Unknown) else unknown(heard)
        if page.value.unreadable or page.value.following is not None:
            return Unknown("unreadable pix, or more of one txid than a page holds")
        return [pix for pix in page.value.items if pix.txid == txid]

    async def _list(self, since: datetime, until: datetime, page: int, of: Mapping[str, str]) -> Heard | Unknown:
        """Request a page of the list. `of` are additional filters, by their names in API Pix."""
        query = {**list_query(since, until, page), **of}
        return await self._transport.ask("GET", f"{self._api_url}/pix", PIX, query=query)

    def _is_over(self, cob: _Cob) -> bool:
        created_at = instant(cob.calendario.criacao or "") if cob.calendario is not None else None
        lifetime = str(cob.calendario.expiracao) if cob.calendario is not None else ""
        if created_at is None or not _SECONDS.fullmatch(lifetime):
            return False
        return self._now() > created_at + timedelta(seconds=int(lifetime)) + _CLOCKS

    def _cob_body(self, cob: Cob) -> dict[str, Any]:
        # The bank counts from its registration, so the time that the order waited is subtracted.
        left_s = int((cob.created_at + timedelta(seconds=cob.expires_in_s) - self._now()).total_seconds())
        return said_of(cob.description, cob.payer_name, cob.payer_document) | {
            "calendario": {"expiracao": max(left_s, 1)},
            "valor": {"original": reais(cob.amount_cents)},
            "chave": cob.pix_key,
            "loc": {"id": cob.location_id},
        }


def _page(heard: Heard, page: int) -> Done[BankPage[ReceivedPix]] | TooWide | Unknown:
    answer = read(heard, ReceivedList)
    if answer is None or (answer.parametros is None and answer.pix is None):
        return Unknown("unreadable list")
    parameters = answer.parametros or Parameters()
    if parameters.is_first_again(page):
        return FIRST_PAGE_AGAIN
    items, unreadable = read_received(answer.pix or ())
    pages = parameters.pages
    if not answer.pix:  # the last page, whatever number of pages the bank claims
        return Done(BankPage(items=[], pages=pages))
    return Done(numbered_page(items, unreadable, page=page, pages=pages))


def _lifetime_s(cob: _Cob, expires_at: datetime) -> int | None:
    """Return the expiracao with which a cob ends at `expires_at`: seconds since the bank registered it."""
    created_at = instant(cob.calendario.criacao or "") if cob.calendario is not None else None
    return None if created_at is None else max(int((expires_at - created_at).total_seconds()), 1)


def _revised(cob: _Cob, lifetime_s: int) -> Done[None] | Rejected | None:
    """Return Done if the cob has this expiracao already, Rejected if it accepts no change any more, else None."""
    if cob.status != ACTIVE:
        return Rejected(_REFUSED, f"The charge is {cob.status}.")
    assert cob.calendario is not None
    return Done(None) if str(cob.calendario.expiracao) == str(lifetime_s) else None
