"""Banco do Brasil, API Cobrancas v2: registering, reading, changing and writing off boletos.

Peculiarities: dates are `dd.mm.aaaa`, numbers have no leading zeros, a PATCH makes one change but names every
indicator, an empty list is a 404, and a detail may be 30 s old. The codes of most refusals are not published, so the
only code acted on is "number used"; after any other answer that is not plainly yes, reading the boleto decides.
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from datetime import MAXYEAR, MINYEAR, date, datetime, timedelta
from typing import Any, Final, Literal

import msgspec
import structlog
from msgspec import Raw, Struct

from banks.banco_do_brasil.agreement import ConvenioAgreement
from banks.banco_do_brasil.nosso_numero import control_number
from banks.banco_do_brasil.terms import moved_terms, terms_body
from banks.banco_do_brasil.text import day_text, fold_for_bank
from banks.banco_do_brasil.transport import (
    PAUSE_S_MAX,
    Heard,
    Transport,
    not_listed,
    nothing_found,
    read,
    refusal,
    unknown,
)
from banks.boletos import (
    LINE_MISMATCH,
    NOT_FOUND,
    NUMBER_TAKEN,
    PAID,
    PIX_REFUSED,
    WRITTEN_OFF,
    BoletoState,
    NewBoleto,
    NotYet,
    PaidBoleto,
    RegisteredBoleto,
)
from banks.lists import LATER_MAX, BankPage, TooWide, UnreadableItem, unreadable_item
from banks.protocol import BOLETO_DAYS_MAX, Done, NotFound, Rejected, Unknown
from banks.received import ReceivedPix
from domain.boleto.codes import barcode_of_line
from domain.boleto.terms import PaymentTerms
from domain.instants import day_of
from domain.money import BOLETO_CENTS_MAX, reais
from domain.pix.br_code import is_br_code

INFO = ("cobrancas.boletos-info",)
REQUEST = ("cobrancas.boletos-requisicao",)
TOO_YOUNG = timedelta(minutes=30)
"""The bank changes a boleto or writes it off only this long after its registration."""
DETAIL_AGE_S = 30.0
"""Within this time the bank repeats its earlier answer to a request for a boleto's detail."""

INDICATORS: Final = (
    "indicadorNovaDataVencimento", "indicadorNovoValorNominal", "indicadorAtribuirDesconto",
    "indicadorAlterarDesconto", "indicadorAlterarDataDesconto", "indicadorProtestar", "indicadorSustacaoProtesto",
    "indicadorCancelarProtesto", "indicadorIncluirAbatimento", "indicadorAlterarAbatimento", "indicadorCobrarJuros",
    "indicadorDispensarJuros", "indicadorCobrarMulta", "indicadorDispensarMulta", "indicadorNegativar",
    "indicadorAlterarSeuNumero", "indicadorAlterarEnderecoPagador", "indicadorAlterarPrazoBoletoVencido",
)  # fmt: skip
"""Every change that a PATCH can name: one is "S", all others are "N"."""

_CLOCKS = timedelta(minutes=1)  # allowed difference between the bank's clock and ours
_NUMBER_USED: Final = "4874915"
_OPEN: Final = frozenset({1, 2, 3, 4, 8})
_PAID: Final = frozenset({6, 10, 11, 12, 16})
_WRITTEN_OFF: Final = 7
_BY_PIX: Final = 61  # codigoCanalPagamento of the detail
_REMEMBERED_MAX = 10_000  # boletos whose latest read is remembered
_EMV_CHARACTERS_MAX = 512

_MONEY = re.compile(r'"?([0-9]{1,12})(?:\.([0-9]{1,2})0*)?"?')
_NULL: Final = Raw(b"null")
_DAY = re.compile(r"([0-9]{2})[./]([0-9]{2})[./]([0-9]{4})")

_log = structlog.get_logger()


class _QrCode(Struct, frozen=True, rename="camel"):
    emv: str | None = None
    tx_id: str | None = None


class _Registered(Struct, frozen=True, rename="camel"):
    numero: str
    linha_digitavel: str
    codigo_barra_numerico: str
    qr_code: _QrCode | None = None


class _PixOfBoleto(Struct, frozen=True, rename="camel"):
    """The answer to GET pix and to POST gerar-pix."""

    qr_code: _QrCode | None = None


class _Detail(Struct, frozen=True):
    """The needed fields of the detail, under the bank's own names. Amounts are kept as raw JSON, so that they never
    become floats. Optional fields may be null as well as absent."""

    codigoEstadoTituloCobranca: int
    numeroTituloCedenteCobranca: str
    numeroInscricaoSacadoCobranca: int | str
    dataVencimentoTituloCobranca: str
    valorOriginalTituloCobranca: Raw
    codigoLinhaDigitavel: str
    textoCodigoBarrasTituloCobranca: str
    dataRegistroTituloCobranca: str | None = None
    dataMultaTitulo: str | None = None
    quantidadeDiaPrazoLimiteRecebimento: int | None = None
    dataRecebimentoTitulo: str | None = None
    valorPagoSacado: Raw = _NULL
    valorJuroMoraRecebido: Raw = _NULL
    valorMultaRecebido: Raw = _NULL
    valorDescontoUtilizado: Raw = _NULL
    codigoCanalPagamento: int | None = None


class _Item(Struct, frozen=True, rename="camel"):
    numero_boleto_bb: str = msgspec.field(name="numeroBoletoBB")
    codigo_estado_titulo_cobranca: int
    data_movimento: str
    valor_pago: Raw = Raw(b"0")


class _List(Struct, frozen=True, rename="camel"):
    boletos: list[Raw] | None
    indicador_continuidade: str | None = None
    proximo_indice: int | None = None


_read_item = msgspec.json.Decoder(_Item, strict=False).decode  # not strict, as in transport.read


class _Found(Struct, frozen=True):
    state: BoletoState
    payer_document: int | str
    fresh: bool
    """False if the bank may have repeated an earlier answer."""


class Cobrancas:
    """The boletos of one agreement (convenio of seven digits, type 4: we choose the numbers).

    `api_url` is ".../cobrancas/v2"; `pix_received` returns the PIX with a txid that arrived until the end of a day;
    `detail_age_s` is for tests.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        api_url: str,
        agreement: ConvenioAgreement,
        pix_received: Callable[[str, date], Awaitable[list[ReceivedPix] | Unknown]],
        now: Callable[[], datetime],
        detail_age_s: float = DETAIL_AGE_S,
    ) -> None:
        self._transport = transport
        self._url = f"{api_url}/boletos"
        self._agreement = agreement
        self._convenio = int(agreement.convenio)
        self._prefix = f"000{agreement.convenio}"
        self._pix_received = pix_received
        self._now = now
        self._detail_age_s = detail_age_s
        # The loop time at which each boleto was last read freshly, oldest first.
        self._read_at: OrderedDict[str, float] = OrderedDict()

    async def register_boleto(self, boleto: NewBoleto) -> Done[RegisteredBoleto] | Rejected | Unknown:
        try:
            codes = self._codes(boleto)
        except ValueError as error:
            return Rejected("INVALID_BOLETO", str(error)[:200])
        if self._transport.pause_s(REQUEST) > PAUSE_S_MAX:
            # Tried again and looked for like a boleto whose answer was lost, each would cost the bank a dozen calls.
            return Unknown("HTTP 429", asked=False)
        heard = await self._transport.ask("POST", self._url, REQUEST, body=self._body(boleto))
        made = read(heard, _Registered) if isinstance(heard, Heard) and heard.ok else None
        if made is not None and made.numero == boleto.number:
            if wrong := _line_differs(boleto, codes, made.codigo_barra_numerico, made.linha_digitavel):
                return wrong
            return await self._with_pix(boleto, _emv(made.qr_code))
        # The answer was lost, or the no is due to an earlier attempt of ours that did use this number: reading the
        # boleto tells.
        no = refusal(heard)
        found = await self._find(boleto.number)
        match found:
            case _Found(state):
                if not _same(found, boleto):
                    if no is None or no.code == _NUMBER_USED:
                        return Rejected(NUMBER_TAKEN, "The number is another boleto's.")
                    return no
                if wrong := _line_differs(boleto, codes, state.barcode, state.line):
                    return wrong
                if state.status == "written_off":
                    return Rejected(WRITTEN_OFF, "The boleto was written off.")
                return await self._with_pix(boleto, None)
            case NotFound():
                # "Number used" but not found: the bank repeated an answer from before the registration.
                return no if no is not None and no.code != _NUMBER_USED else unknown(heard)
            case Unknown():
                return found

    async def find_boleto(self, number: str) -> BoletoState | NotFound | Unknown:
        found = await self._find(number)
        if not isinstance(found, _Found):
            return found
        state = found.state
        # If the total is not the boleto's amount, there were several payments, and earlier ones may have been PIX.
        if not state.paid_by_pix and state.paid_cents in (0, state.amount_cents):
            return state
        pix = await self._pix_of(number)
        qr = pix.qr_code if isinstance(pix, _PixOfBoleto) else None
        txid = qr.tx_id.strip() if qr is not None and qr.tx_id else None
        received: list[ReceivedPix] | Unknown = []
        if txid is not None and state.paid_on is not None:
            # Cobrancas knows that PIX paid it, and the txid; only API Pix lists the PIX themselves. One request for the
            # days up to the latest payment is enough: earlier PIX were read when they arrived. Its failure is harmless.
            received = await self._pix_received(txid, state.paid_on)
        return msgspec.structs.replace(
            state, qr_code=_emv(qr), txid=txid, pix=() if isinstance(received, Unknown) else tuple(received)
        )

    async def redate_boleto(
        self, number: str, due_on: date, *, terms: PaymentTerms | None = None, registered_at: datetime | None = None
    ) -> Done[None] | Rejected | NotYet | Unknown:
        new_date = {"alteracaoData": {"novaDataVencimento": day_text(due_on)}}
        heard = await self._change(number, "indicadorNovaDataVencimento", new_date)
        if not _plainly_done(heard):
            moved = await self._became(
                number, heard, lambda state: state.status == "open" and state.due_on == due_on, registered_at
            )
            if not isinstance(moved, Done):
                return moved
        # The bank moves only the due date: the fine would still begin on its old day, and the last payable day would
        # differ from the printed one.
        for indicator, change in () if terms is None else moved_terms(terms, due_on):
            heard = await self._change(number, indicator, change)
            if not _plainly_done(heard):
                # A new due date without its terms is not success: after a no, reconciliation restores the old date;
                # after silence, the whole change is tried again.
                return refusal(heard) or unknown(heard)
        return Done(None)

    async def write_off_boleto(
        self, number: str, *, registered_at: datetime | None = None
    ) -> Done[None] | Rejected | NotYet | Unknown:
        heard = await self._transport.ask(
            "POST", f"{self._url}/{number}/baixar", REQUEST, body={"numeroConvenio": self._convenio}
        )
        if _plainly_done(heard):
            return Done(None)
        return await self._became(number, heard, lambda state: state.status == "written_off", registered_at)

    async def paid_page(
        self, since: date, until: date, after: str | None = None
    ) -> Done[BankPage[PaidBoleto]] | TooWide | Unknown:
        assert since <= until < since + timedelta(days=BOLETO_DAYS_MAX)
        # The guide requires the filter `boletoVencido` and does not say what its absence means, so the two lists are
        # paged one after the other. `after` is the list and the index.
        overdue, _, index = (after or "N:0").partition(":")
        query = {
            "indicadorSituacao": "B",
            "agenciaBeneficiario": str(self._agreement.agencia),
            "contaBeneficiario": str(self._agreement.conta),
            "boletoVencido": overdue,
            "dataInicioMovimento": day_text(since),
            "dataFimMovimento": day_text(until),
            "indice": index,
        }
        heard = await self._transport.ask("GET", self._url, INFO, query=query)
        other = "S:0" if overdue == "N" else None
        if _empty_404(heard) or nothing_found(heard):
            return Done(BankPage(items=[], following=other))
        if not isinstance(heard, Heard) or not heard.ok:
            return not_listed(heard)
        page = read(heard, _List)
        if page is None:
            return Unknown("unreadable list")
        listed = page.boletos or ()
        items, unreadable = self._paid(listed)
        following = page.proximo_indice or 0
        if following <= int(index):  # not given by the bank: an index counts boletos
            following = int(index) + len(listed)
        if page.indicador_continuidade != "S" or following <= int(index):
            return Done(BankPage(items=items, unreadable=unreadable, following=other))
        # The bank names only the next page, by an index that counts boletos. Later pages are guessed at the same
        # distance, as many as were read already, so that at most half of the requests go beyond the end. The caller
        # uses a guessed page only if the bank names the same index.
        apart = following - int(index)
        guessed = min(int(index) // apart + 1, LATER_MAX)
        return Done(
            BankPage(
                items=items,
                unreadable=unreadable,
                following=f"{overdue}:{following}",
                later=[f"{overdue}:{following + apart * n}" for n in range(1, guessed + 1)],
            )
        )

    async def _change(self, number: str, indicator: str, change: dict[str, Any]) -> Heard | Unknown:
        body = {"numeroConvenio": self._convenio, **dict.fromkeys(INDICATORS, "N"), indicator: "S", **change}
        return await self._transport.ask("PATCH", f"{self._url}/{number}", REQUEST, body=body)

    async def _became(
        self,
        number: str,
        heard: Heard | Unknown,
        as_wanted: Callable[[BoletoState], bool],
        registered_at: datetime | None,
    ) -> Done[None] | Rejected | NotYet | Unknown:
        """Return the outcome of a change that was not plainly confirmed, from reading the boleto."""
        no = refusal(heard)
        found = await self._find(number)
        if isinstance(found, NotFound):
            return Rejected(NOT_FOUND, "The bank has no such boleto.")
        if isinstance(found, Unknown):
            return found
        state = found.state
        # A stale detail does not prove a new due date (an earlier one may have been the same); a write-off is final.
        if as_wanted(state) and (found.fresh or state.status != "open"):
            return Done(None)
        if state.status == "paid":
            return Rejected(PAID, "The boleto is paid.")
        if state.status == "written_off":
            return Rejected(WRITTEN_OFF, "The boleto was written off.")
        if no is None or state.status != "open":
            return unknown(heard)
        if (wait := self._too_young(state, registered_at)) is not None:
            return wait
        # "Still open" confirms the no only if the detail is fresh.
        return no if found.fresh else Unknown("the detail may be old")

    def _too_young(self, state: BoletoState, registered_at: datetime | None) -> NotYet | None:
        now = self._now()
        if registered_at is not None:
            retry_at = registered_at + TOO_YOUNG + _CLOCKS
            return NotYet(retry_at) if now < retry_at else None
        # The detail has only the day of registration.
        earliest = day_of(now - TOO_YOUNG - _CLOCKS)
        return NotYet(None) if state.registered_on >= earliest else None

    async def _with_pix(self, boleto: NewBoleto, emv: str | None) -> Done[RegisteredBoleto] | Rejected | Unknown:
        """Return the registered boleto. A hybrid boleto must have a QR Code: if the answer lacks it, it is read or
        generated."""
        if boleto.hybrid and emv is None:
            there = await self._pix_of(boleto.number)
            if isinstance(there, Unknown):
                return there
            emv = _emv(there.qr_code) if isinstance(there, _PixOfBoleto) else None
        if boleto.hybrid and emv is None:
            body = {"numeroConvenio": self._convenio}
            heard = await self._transport.ask("POST", f"{self._url}/{boleto.number}/gerar-pix", REQUEST, body=body)
            made = read(heard, _PixOfBoleto) if isinstance(heard, Heard) and heard.ok else None
            emv = _emv(made.qr_code) if made is not None else None
            if emv is None:
                no = refusal(heard)
                return unknown(heard) if no is None else Rejected(PIX_REFUSED, f"{no.code} {no.message}"[:200])
        return Done(RegisteredBoleto(qr_code=emv if boleto.hybrid else None))

    async def _pix_of(self, number: str) -> _PixOfBoleto | NotFound | Unknown:
        heard = await self._transport.ask(
            "GET", f"{self._url}/{number}/pix", INFO, query={"numeroConvenio": str(self._convenio)}
        )
        if isinstance(heard, Heard) and heard.ok:
            return read(heard, _PixOfBoleto) or Unknown("unreadable pix of a boleto")
        # The error code for a boleto without PIX is not published, so any no counts as that; gerar-pix then decides.
        return NotFound() if refusal(heard) is not None or _empty_404(heard) else unknown(heard)

    async def _find(self, number: str) -> _Found | NotFound | Unknown:
        fresh = self._reads_afresh(number)
        heard = await self._transport.ask(
            "GET", f"{self._url}/{number}", INFO, query={"numeroConvenio": str(self._convenio)}
        )
        if isinstance(heard, Heard) and heard.ok:
            detail = read(heard, _Detail)
            state = _state(number, detail) if detail is not None else None
            if state is None or detail is None:
                return Unknown("unreadable boleto")
            return _Found(state, detail.numeroInscricaoSacadoCobranca, fresh)
        return NotFound() if _empty_404(heard) or nothing_found(heard) else unknown(heard)

    def _reads_afresh(self, number: str) -> bool:
        """Return whether the bank will read the boleto anew and not repeat an answer, as far as this process knows."""
        now = asyncio.get_running_loop().time()
        last = self._read_at.get(number)
        if last is not None and now < last + self._detail_age_s:
            return False
        self._read_at[number] = now
        self._read_at.move_to_end(number)
        if len(self._read_at) > _REMEMBERED_MAX:
            self._read_at.popitem(last=False)
        return True

    def _paid(self, listed: Sequence[Raw]) -> tuple[list[PaidBoleto], list[UnreadableItem]]:
        """Return our paid boletos and the unreadable items. The list has all boletos of the bank account, of every
        channel and agreement."""
        paid, unreadable = [], []
        for each in listed:
            try:
                item = _read_item(each)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                number = _number_of(each)
                if number is None or number.startswith(self._prefix):
                    unreadable.append(unreadable_item(bytes(each), number))
                continue
            if not item.numero_boleto_bb.startswith(self._prefix) or item.codigo_estado_titulo_cobranca not in _PAID:
                continue
            boleto = _paid_boleto(item)
            if boleto is None:
                unreadable.append(unreadable_item(bytes(each), item.numero_boleto_bb))
            else:
                paid.append(boleto)
        return paid, unreadable

    def _codes(self, boleto: NewBoleto) -> tuple[str, str]:
        if not boleto.number.startswith(self._prefix):
            raise ValueError("the number is another agreement's")
        return self._agreement.codes(boleto.number, due_on=boleto.due_on, amount_cents=boleto.amount_cents)

    def _body(self, boleto: NewBoleto) -> dict[str, Any]:
        # The bank accepts no day of issue before today: a registration that waited past midnight gets today's date.
        today = day_of(self._now())
        payer = boleto.payer
        house = fold_for_bank(payer.number, 10)
        street = fold_for_bank(payer.street, 60 - len(house) - 2)
        body: dict[str, Any] = {
            "numeroConvenio": self._convenio,
            "numeroCarteira": int(self._agreement.carteira),
            "numeroVariacaoCarteira": self._agreement.variacao,
            "codigoModalidade": 1,
            "dataEmissao": day_text(max(boleto.issued_on, today)),
            "dataVencimento": day_text(boleto.due_on),
            "valorOriginal": Raw(reais(boleto.amount_cents).encode()),
            **terms_body(boleto.terms, boleto.due_on),
            "codigoAceite": "N",
            "codigoTipoTitulo": 2,
            "descricaoTipoTitulo": "DM",
            "indicadorPermissaoRecebimentoParcial": "N",
            "numeroTituloBeneficiario": boleto.seu_numero,
            "numeroTituloCliente": boleto.number,
            "indicadorPix": "S" if boleto.hybrid else "N",
            "pagador": {
                "tipoInscricao": 1 if len(payer.document) == 11 else 2,
                # A JSON number without leading zeros; a CNPJ with letters is sent as text.
                "numeroInscricao": int(payer.document) if payer.document.isdigit() else payer.document,
                "nome": fold_for_bank(payer.name, 60) or "PAGADOR",
                "endereco": ", ".join(part for part in (street, house) if part) or "NAO INFORMADO",
                "cep": int(payer.zip_code),
                "cidade": fold_for_bank(payer.city, 30) or "NAO INFORMADA",
                "uf": payer.state.upper(),
            },
        }
        if text := fold_for_bank(boleto.description or "", 165):
            body["mensagemBloquetoOcorrencia"] = text
        return body


def _plainly_done(heard: Heard | Unknown) -> bool:
    return isinstance(heard, Heard) and heard.ok and "numeroContratoCobranca" in (read(heard, dict[str, Any]) or {})


def _empty_404(heard: Heard | Unknown) -> bool:
    """Whether this is the bank's 404 with an empty body. The body is not documented; a 404 with HTML or with the
    gateway's own JSON does not come from the bank's application."""
    return isinstance(heard, Heard) and heard.status == 404 and heard.body.strip() in (b"", b"{}", b"[]")


def _line_differs(boleto: NewBoleto, codes: tuple[str, str], barcode: str, line: str) -> Rejected | None:
    """Return a refusal if the bank's barcode or line differs from the computed one: such a boleto must never reach a
    payer."""
    if (barcode, line) == codes:
        return None
    _log.error("boleto_line_mismatch", number=boleto.number, ours=codes[1], the_banks=line[:60])
    return Rejected(LINE_MISMATCH, "The bank's line or barcode is not the one computed from the boleto.")


def _same(found: _Found, boleto: NewBoleto) -> bool:
    """Whether the boleto found is the one we requested. Texts are not compared: the bank folds and cuts them."""
    state, document = found.state, str(found.payer_document).strip()
    return (
        state.amount_cents == boleto.amount_cents
        and state.due_on == boleto.due_on
        and state.seu_numero.strip() == boleto.seu_numero.strip()
        and document.zfill(len(boleto.payer.document)) == boleto.payer.document
    )


def _state(number: str, detail: _Detail) -> BoletoState | None:
    """Return the boleto's state; None if the detail is unreadable or about another boleto. The detail has no number,
    but the barcode's free field contains it."""
    amount_cents = _cents(detail.valorOriginalTituloCobranca)
    due_on = _day(detail.dataVencimentoTituloCobranca)
    registered_on = _day(detail.dataRegistroTituloCobranca)
    parts = [
        0 if each == _NULL else _cents(each)
        for each in (
            detail.valorPagoSacado, detail.valorJuroMoraRecebido, detail.valorMultaRecebido,
            detail.valorDescontoUtilizado,
        )
    ]  # fmt: skip
    paid_cents, interest_cents, fine_cents, discount_cents = parts
    try:
        barcode = barcode_of_line(detail.codigoLinhaDigitavel)
    except ValueError:
        return None
    if barcode != detail.textoCodigoBarrasTituloCobranca or barcode[25:42] != number[3:]:
        return None
    if not amount_cents or due_on is None or registered_on is None or paid_cents is None:
        return None
    code = detail.codigoEstadoTituloCobranca
    paid = code in _PAID and paid_cents > 0  # paid without an amount: the bank does not show the payment yet
    status: Literal["open", "paid", "written_off", "in_between"] = "in_between"
    if paid:
        status = "paid"
    elif code in _OPEN:
        status = "open"
    elif code == _WRITTEN_OFF:
        status = "written_off"
    return BoletoState(
        number=number,
        seu_numero=detail.numeroTituloCedenteCobranca.strip(),
        status=status,
        amount_cents=amount_cents,
        due_on=due_on,
        line=detail.codigoLinhaDigitavel,
        barcode=barcode,
        registered_on=registered_on,
        fine_from=_day(detail.dataMultaTitulo),
        late_days=detail.quantidadeDiaPrazoLimiteRecebimento or 0,
        paid_cents=paid_cents if paid else 0,
        paid_on=_day(detail.dataRecebimentoTitulo) if paid else None,
        interest_cents=(interest_cents or 0) if paid else 0,
        fine_cents=(fine_cents or 0) if paid else 0,
        discount_cents=(discount_cents or 0) if paid else 0,
        paid_by_pix=paid and detail.codigoCanalPagamento == _BY_PIX,
    )


def _number_of(item: Raw) -> str | None:
    try:
        said = msgspec.json.decode(item)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    number = said.get("numeroBoletoBB") if isinstance(said, dict) else None
    return number if isinstance(number, str) else None


def _paid_boleto(item: _Item) -> PaidBoleto | None:
    paid_cents, moved_on = _cents(item.valor_pago), _day(item.data_movimento)
    if paid_cents is None or moved_on is None:
        return None
    if control_number(item.numero_boleto_bb) is None:
        return None  # an invalid number would be used as a key and stored as text
    return PaidBoleto(number=item.numero_boleto_bb, paid_cents=paid_cents, moved_on=moved_on)


def _emv(qr: _QrCode | None) -> str | None:
    """Return the BR Code; None if there is none or if it is invalid, since no payer's program would accept it."""
    text = (qr.emv or "").strip() if qr is not None else ""
    return text if len(text) <= _EMV_CHARACTERS_MAX and is_br_code(text) else None


def _cents(said: Raw) -> int | None:
    """Return the cents of an amount in reais, a JSON number or text; None for null, signs, exponents and fractions of a
    cent."""
    match = _MONEY.fullmatch(bytes(said).decode("utf-8", "replace"))
    if match is None:
        return None
    cents = int(match[1]) * 100 + int((match[2] or "").ljust(2, "0"))
    return cents if cents <= BOLETO_CENTS_MAX * 100 else None


def _day(text: str | None) -> date | None:
    """Return the day of `dd.mm.aaaa` or `dd/mm/aaaa`; None for "", "00.00.0000" and anything else. The first and the
    last year stand for no day: a payment of the year 1 would be early enough for every discount."""
    match = _DAY.fullmatch((text or "").strip()[:10])
    if match is None or int(match[3]) in (MINYEAR, MAXYEAR):
        return None
    try:
        return date(int(match[3]), int(match[2]), int(match[1]))
    except ValueError:
        return None
