"""Outgoing money at Banco do Brasil: returned PIX (devolucao, API Pix v2), and PIX sent.

API Pix only receives: PIX are sent over the API of docs/decisions/0007, if the bank has it. After a PUT without a plain
answer, GET by our own id decides.
"""

import re
from datetime import datetime
from typing import Final, Literal
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct

from banks.banco_do_brasil.pix_list import Parameters, instant, list_query
from banks.banco_do_brasil.text import identifier, pix_cents, printable, safe_text
from banks.banco_do_brasil.transport import Heard, Transport, not_listed, nothing_found, read, refusal, unknown
from banks.lists import FIRST_PAGE_AGAIN, BankPage, TooWide, numbered_page, unreadable_item
from banks.protocol import (
    DESCRIPTION_CHARACTERS_MAX,
    RECEIVED_WIDTH_MAX,
    Done,
    NotFound,
    Rejected,
    Unknown,
)
from banks.transfers import NO_LIST, NO_TRANSFERS, PIX_UNKNOWN, Return, Sent, SentTransfer, Transfer
from domain.money import reais

RETURNS = ("pix.read", "pix.write")

_PIX_NOT_FOUND: Final = "PixNaoEncontrado"
# API Pix has a single error code for devolucoes; only the text tells what is wrong.
_ID_USED: Final = re.compile(
    r"\bj[aá] (foi )?(utilizad|usad|existe|cadastrad)|\bid(entificador)? duplicad", re.IGNORECASE
)
# The bank's states of a devolucao and of a PIX sent.
_SENT: Final[dict[str, Literal["processing", "done", "not_done"]]] = {
    "EM_PROCESSAMENTO": "processing",
    "DEVOLVIDO": "done",
    "REALIZADO": "done",
    "NAO_REALIZADO": "not_done",
}


class _Sent(Struct, frozen=True, rename="camel"):
    """A devolucao, which has an rtrId, or a PIX sent, which has an endToEndId."""

    id: str
    valor: str
    status: str
    rtr_id: str | None = None
    end_to_end_id: str | None = None
    motivo: str | None = None


class _Times(Struct, frozen=True):
    solicitacao: str


class _Listed(_Sent, frozen=True, rename="camel", kw_only=True):
    horario: _Times
    chave: str | None = None


class _SentList(Struct, frozen=True):
    """An answer to GET /transferencia; any other shape is unreadable."""

    parametros: Parameters
    transferencias: list[Raw] = []


_REASON_CHARACTERS_MAX: Final = 200
_read_listed = msgspec.json.Decoder(_Listed).decode


class PixTransfers:
    """Devolucoes and transfers over HTTP. `api_url` is ".../pix/v2"; `transfers_url` None: this bank sends no PIX for
    us."""

    def __init__(self, transport: Transport, *, api_url: str, transfers_url: str | None) -> None:
        self._transport = transport
        self._api_url = api_url
        self._transfers_url = transfers_url

    async def return_pix(self, asked: Return) -> Done[Sent] | Rejected | Unknown:
        url = self._return_url(asked.end_to_end_id, asked.id)
        body = _sent_body(asked.amount_cents, asked.description)
        answer = await self._send(url, asked.id, asked.amount_cents, body)
        if isinstance(answer, Rejected) and answer.code == _PIX_NOT_FOUND:
            return Rejected(PIX_UNKNOWN, answer.message)
        return answer

    async def find_return(self, end_to_end_id: str, id: str) -> Sent | NotFound | Unknown:
        return await self._find_sent(self._return_url(end_to_end_id, id), id)

    async def send_pix(self, asked: Transfer) -> Done[Sent] | Rejected | Unknown:
        if self._transfers_url is None:
            return Rejected(NO_TRANSFERS, "This bank sends no PIX for us.")
        body = {
            **_sent_body(asked.amount_cents, asked.description),
            "chave": asked.pix_key,
            "documento": asked.document,
        }
        return await self._send(self._transfer_url(asked.id), asked.id, asked.amount_cents, body)

    async def find_transfer(self, id: str) -> Sent | NotFound | Unknown:
        if self._transfers_url is None:
            return NotFound()
        return await self._find_sent(self._transfer_url(id), id)

    async def sent_page(
        self, since: datetime, until: datetime, after: str | None = None
    ) -> Done[BankPage[SentTransfer]] | TooWide | Rejected | Unknown:
        assert since <= until <= since + RECEIVED_WIDTH_MAX
        if self._transfers_url is None:
            return Done(BankPage(items=[]))
        page = int(after or 0)
        heard = await self._transport.ask(
            "GET", f"{self._transfers_url}/transferencia", RETURNS, query=list_query(since, until, page)
        )
        if isinstance(heard, Heard) and heard.status in (404, 405, 501):
            return Rejected(NO_LIST, "This bank does not list what it sent.")
        if not isinstance(heard, Heard) or not heard.ok:
            return not_listed(heard)
        answer = read(heard, _SentList)
        if answer is None:
            return Unknown("unreadable list")
        if answer.parametros.is_first_again(page):
            return FIRST_PAGE_AGAIN
        items, unreadable = [], []
        for item in answer.transferencias:
            one = _listed(item)
            if one is None:
                unreadable.append(unreadable_item(bytes(item), None))
            else:
                items.append(one)
        pages = answer.parametros.pages
        return Done(numbered_page(items, unreadable, page=page, pages=pages))

    def _return_url(self, end_to_end_id: str, id: str) -> str:
        return f"{self._api_url}/pix/{quote(end_to_end_id, safe='')}/devolucao/{id}"

    def _transfer_url(self, id: str) -> str:
        return f"{self._transfers_url}/transferencia/{id}"

    async def _send(self, url: str, id: str, amount_cents: int, body: object) -> Done[Sent] | Rejected | Unknown:
        """PUT a devolucao or transfer; unless the answer is plainly yes, GET decides."""
        heard = await self._transport.ask("PUT", url, RETURNS, body=body)
        put = _sent_of(heard, id)
        if put is not None and put.amount_cents == amount_cents:
            return Done(put)
        # The answer was lost, or the no is due to an earlier attempt that did use this id: GET tells.
        no = refusal(heard)
        found = await self._find_sent(url, id)
        match found:
            case Sent(amount_cents=cents) if cents == amount_cents:
                return Done(found)
            case Sent():
                return Unknown("another amount under this id")
            case NotFound() if no is not None and _ID_USED.search(no.message):
                # Only an earlier attempt of ours can have used this id: the bank does not show the money yet.
                return Unknown("the id is used, and not to be found")
            case NotFound():
                return no or unknown(heard)
            case Unknown():
                return found

    async def _find_sent(self, url: str, id: str) -> Sent | NotFound | Unknown:
        heard = await self._transport.ask("GET", url, RETURNS)
        if isinstance(heard, Heard) and heard.ok:
            return _sent_of(heard, id) or Unknown("unreadable return")
        return NotFound() if nothing_found(heard) else unknown(heard)


def _sent_body(amount_cents: int, description: str | None) -> dict[str, str]:
    text = safe_text(description or "", DESCRIPTION_CHARACTERS_MAX)
    return {"valor": reais(amount_cents), **({"descricao": text} if text else {})}


def _sent_of(heard: Heard | Unknown, id: str) -> Sent | None:
    """Return the sent money in an answer; None if it is unreadable or not about `id`."""
    said = read(heard, _Sent) if isinstance(heard, Heard) and heard.ok else None
    if said is None or said.id != id or said.status not in _SENT:
        return None
    cents = pix_cents(said.valor)
    if cents is None:
        return None
    return Sent(
        status=_SENT[said.status],
        amount_cents=cents,
        reference=identifier(said.rtr_id) or identifier(said.end_to_end_id),
        detail=printable(said.motivo or "", _REASON_CHARACTERS_MAX) or None,
    )


def _listed(item: Raw) -> SentTransfer | None:
    """Read an item of the list; None if it is unreadable."""
    try:
        said = _read_listed(item)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    cents, asked_at, id = pix_cents(said.valor), instant(said.horario.solicitacao), identifier(said.id)
    if cents is None or asked_at is None or id is None or said.status not in _SENT:
        return None
    return SentTransfer(
        id=id,
        status=_SENT[said.status],
        amount_cents=cents,
        asked_at=asked_at,
        reference=identifier(said.end_to_end_id),
        pix_key=said.chave,
    )
