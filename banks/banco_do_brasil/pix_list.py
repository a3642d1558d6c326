"""Reads the received PIX that API Pix v2 lists, each item separately."""

import re
from collections.abc import Sequence
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from banks.banco_do_brasil.text import END_TO_END_ID, identifier, pix_cents
from banks.lists import UnreadableItem, unreadable_item
from banks.received import PixReturn, ReceivedPix
from domain.documents import well_formed
from domain.instants import SAO_PAULO

_PER_PAGE: Final = 100
_OF_BOLETO = re.compile(r"BOLETO([0-9]{17})DATA[0-9]{8}")
_GONE_BACK: Final = "DEVOLVIDO"
_NOT_GONE_BACK: Final = frozenset({"EM_PROCESSAMENTO", "NAO_REALIZADO"})


class _Payer(Struct, frozen=True):
    cpf: str | None = None
    cnpj: str | None = None
    nome: str | None = None


class _Part(Struct, frozen=True):
    valor: str = "0.00"


class _Parts(Struct, frozen=True):
    """The componentesValor: amounts added to and subtracted from a charge with a due date."""

    juros: _Part = _Part()
    multa: _Part = _Part()
    desconto: _Part = _Part()


class _Pix(Struct, frozen=True, rename="camel"):
    end_to_end_id: str
    valor: str
    horario: str
    txid: str | None = None
    pagador: _Payer | None = None
    componentes_valor: Raw = Raw(b"{}")
    devolucoes: list[Raw] | None = None


class _Devolucao(Struct, frozen=True, rename="camel"):
    id: str
    valor: str
    status: str
    rtr_id: str | None = None


class _Paging(Struct, frozen=True, rename="camel"):
    pagina_atual: int | None = None
    quantidade_de_paginas: int | None = None


class Parameters(Struct, frozen=True):
    paginacao: _Paging | None = None

    @property
    def pages(self) -> int:
        return (self.paginacao or _Paging()).quantidade_de_paginas or 1

    def is_first_again(self, page: int) -> bool:
        """Whether the bank answered with its first page when asked for a later one. It ignores parameters that it does
        not know, and has renamed this one between versions."""
        return page > 0 and (self.paginacao or _Paging()).pagina_atual == 0


class ReceivedList(Struct, frozen=True):
    """An answer to GET /pix. The real bank leaves out an empty `pix`; an answer with neither member is no list."""

    parametros: Parameters | None = None
    pix: list[Raw] | None = None


_read_pix = msgspec.json.Decoder(_Pix).decode
_read_parts = msgspec.json.Decoder(_Parts).decode
_read_return = msgspec.json.Decoder(_Devolucao).decode
_read_any = msgspec.json.Decoder().decode


def read_received(items: Sequence[Raw], *, txid: str | None = None) -> tuple[list[ReceivedPix], list[UnreadableItem]]:
    """Return the readable PIX and the unreadable items. `txid` is that of the cob under which the items were listed,
    since they need not repeat it.

    A PIX with an unreadable devolucao is in both lists: the money arrived, but staff must check what was returned.
    """
    received, unreadable = [], []
    for item in items:
        try:
            said = _read_pix(item)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            said = None
        pix = _received(said, txid) if said is not None else None
        if pix is not None:
            received.append(pix)
        if pix is None or said is None or None in _returns(said):
            unreadable.append(_unreadable(bytes(item)))
    return received, unreadable


def list_query(since: datetime, until: datetime, page: int) -> dict[str, str]:
    """Return the query for a page (from 0) of a list of API Pix over the closed interval."""
    return {
        "inicio": since.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "fim": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "paginacao.paginaAtual": str(page),
        "paginacao.itensPorPagina": str(_PER_PAGE),
    }


def instant(text: str) -> datetime | None:
    """Return an instant in UTC, as needed for showing and comparing instants as text. The bank writes any offset;
    without one it means the time of Brasilia. None if unreadable, or at the ends of the calendar, where other time
    zones cannot express the instant."""
    try:
        at = datetime.fromisoformat(text)
        at = (at if at.tzinfo is not None else at.replace(tzinfo=SAO_PAULO)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return at if MINYEAR < at.year < MAXYEAR else None


def number_of_txid(txid: str | None) -> str | None:
    """Return the boleto's number from the bank's own txid of a boleto: "BOLETO", 17 digits, "DATA" and the day."""
    match = _OF_BOLETO.fullmatch(txid or "")
    return f"000{match[1]}" if match is not None else None


def _received(pix: _Pix, txid: str | None) -> ReceivedPix | None:
    cents, paid_at = pix_cents(pix.valor), instant(pix.horario)
    if cents is None or paid_at is None or END_TO_END_ID.fullmatch(pix.end_to_end_id) is None:
        return None
    interest_cents, fine_cents, discount_cents = _parts(pix.componentes_valor)
    payer = pix.pagador or _Payer()
    document = payer.cpf or payer.cnpj
    of = identifier(pix.txid or txid)
    return ReceivedPix(
        end_to_end_id=pix.end_to_end_id,
        txid=of,
        amount_cents=cents,
        paid_at=paid_at,
        payer_name=payer.nome,
        payer_document=document if document and well_formed(document, letters=True) else None,
        interest_cents=interest_cents,
        fine_cents=fine_cents,
        discount_cents=discount_cents,
        boleto_number=number_of_txid(of),
        returned=tuple(each for each in _returns(pix) if isinstance(each, PixReturn)),
    )


def _parts(told: Raw) -> tuple[int, int, int]:
    """Return interest, fine and discount in cents; 0 for unreadable parts, since the money arrived all the same."""
    try:
        parts = _read_parts(told)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        parts = _Parts()
    return pix_cents(parts.juros.valor) or 0, pix_cents(parts.multa.valor) or 0, pix_cents(parts.desconto.valor) or 0


def _returns(pix: _Pix) -> list[PixReturn | str | None]:
    """Return each devolucao of a PIX: as PixReturn if completed, as its status if not completed, None if unreadable."""
    returns: list[PixReturn | str | None] = []
    for item in pix.devolucoes or ():
        try:
            said = _read_return(item)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            returns.append(None)
            continue
        cents = pix_cents(said.valor)
        if said.status in _NOT_GONE_BACK:
            returns.append(said.status)
        elif said.status != _GONE_BACK or cents is None or (id := identifier(said.id)) is None:
            returns.append(None)
        else:
            returns.append(PixReturn(id=id, return_id=identifier(said.rtr_id), amount_cents=cents))
    return returns


def _unreadable(item: bytes) -> UnreadableItem:
    try:
        said: Any = _read_any(item)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        said = None
    return unreadable_item(item, said.get("endToEndId") if isinstance(said, dict) else None)
