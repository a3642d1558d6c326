"""The simulated bank's boletos over HTTP: Banco do Brasil's API Cobrancas v2, and the locations of hybrid boletos.

OAuth, application key and faults are those of banks/simulated/wire.py. Except for three, the codes of refusals are
invented, because the real ones are not published: no client may depend on them. `quirks` holds any of "no_qr" (a hybrid
boleto is registered without its QR Code), "wrong_line" (the line is not the boleto's) and "shape_f" (errors as
{codigoMensagem, textoMensagem}).
"""

import re
from collections import OrderedDict
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any, Final

import msgspec
from aiohttp import web

from banks.banco_do_brasil.agreement import ConvenioAgreement
from banks.banco_do_brasil.cobrancas import INDICATORS
from banks.banco_do_brasil.nosso_numero import NUMBER
from banks.boletos import BoletoPayer, NewBoleto
from banks.simulated.boleto_terms import (
    WireTerms,
    WrongTerms,
    day_text,
    json_number,
    read_day,
    read_fine_from,
    read_late_days,
    read_terms,
    shown_terms,
)
from banks.simulated.boletos import (
    ANNOUNCED,
    OPEN,
    PAGE,
    SETTLED,
    WRITTEN_OFF_STATE,
    Became,
    BookedBoleto,
    ListedBoleto,
    SimulatedBoletos,
    boleto_payload,
)
from banks.simulated.signing import MEDIA_TYPE, Signer
from banks.simulated.wire import Handler, Invalid, Wire
from domain.documents import well_formed
from domain.instants import SAO_PAULO, day_of
from domain.money import BOLETO_CENTS_MAX

INFO: Final = "cobrancas.boletos-info"
REQUEST: Final = "cobrancas.boletos-requisicao"

NUMBER_USED: Final = "4874915"
INVALID_FIELD: Final = "4678420"
NOTHING_FOUND: Final = "4769515"
# Invented codes and texts, by the result of a change.
_WHY: Final[dict[Became, tuple[str, str]]] = {
    "written_off": ("4999001", "Boleto ja baixado."),
    "paid": ("4999002", "Boleto liquidado."),
    "announced": ("4999003", "Boleto com pagamento em processamento."),
    "too_young": ("4999004", "Boleto registrado ha menos de 30 minutos."),
}
_STATES: Final = {OPEN: "NORMAL", SETTLED: "LIQUIDADO", WRITTEN_OFF_STATE: "BAIXADO", ANNOUNCED: "TITULO EM LIQUIDACAO"}
_BY_PIX: Final = 61
_BY_INTERNET: Final = 23  # debit, internet
_CONTRACT: Final = 19581316
_CACHED_MAX = 10_000

_SEU_NUMERO = re.compile(r"[A-Z0-9'\- ]{1,15}")
_FREE_TEXT = re.compile(r"[A-Z0-9 ]{1,25}")
_TEXT = re.compile(r"[A-Z0-9 .,/&\-]+")
_MONEY = re.compile(r'"?([0-9]{1,8})(?:\.([0-9]{1,2}))?"?')
_PROTEST_DAYS: Final = frozenset({0, *range(3, 30), 35, 40, 45})
_STATES_OF_BRAZIL: Final = frozenset(
    {
        "AC", "AL", "AM", "AP", "BA", "CE", "DF", "ES", "GO", "MA", "MG", "MS", "MT", "PA", "PB", "PE", "PI", "PR",
        "RJ", "RN", "RO", "RR", "RS", "SC", "SE", "SP", "TO",
    }
)  # fmt: skip
_LIST_PARAMETERS: Final = frozenset(
    {
        "indicadorSituacao", "agenciaBeneficiario", "contaBeneficiario", "boletoVencido", "carteiraConvenio",
        "variacaoCarteiraConvenio", "modalidadeCobranca", "dataInicioVencimento", "dataFimVencimento",
        "dataInicioRegistro", "dataFimRegistro", "dataInicioMovimento", "dataFimMovimento",
        "codigoEstadoTituloCobranca", "indice",
    }
)  # fmt: skip
# All other fields of the detail: numbers are 0, and dates and texts "", until they are known.
_ZEROS: Final = (
    "codigoTipoMulta", "codigoCanalPagamento", "codigoIndicadorEconomico", "codigoTipoJuroMora",
    "valorPagamentoParcialTitulo", "valorAbatimentoTituloCobranca", "percentualJuroMoraTitulo",
    "valorJuroMoraTitulo", "percentualMultaTitulo", "valorMultaTituloCobranca", "quantidadeParcelaTituloCobranca",
    "codigoTipoInscricaoSacador", "numeroInscricaoSacadorAvalista", "percentualDescontoTitulo",
    "valorDescontoTitulo", "codigoDescontoTitulo", "quantidadeDiaProtesto", "quantidadeDiaPrazoLimiteRecebimento",
    "codigoOcorrenciaCartorio", "valorAbatimentoTotal", "valorJuroMoraRecebido", "valorDescontoUtilizado",
    "valorPagoSacado", "valorCreditoCedente", "codigoTipoLiquidacao", "codigoPrefixoDependenciaRecebedor",
    "codigoNaturezaRecebimento", "codigoTipoBaixaTitulo", "valorMultaRecebido", "valorReajuste",
    "valorOutroRecebido",
)  # fmt: skip
_BLANKS: Final = (
    "textoEmailPagador", "dataBaixaAutomaticoTitulo", "textoCampoUtilizacaoCedente", "nomeBairroSacadoCobranca",
    "dataProtestoTituloCobranca", "nomeSacadorAvalistaTitulo", "dataDescontoTitulo", "dataMultaTitulo",
    "dataLimiteRecebimentoTitulo", "dataCreditoLiquidacao", "dataRecebimentoTitulo",
)  # fmt: skip


class BoletoInvalid(Exception):
    """A request the bank refuses."""

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        super().__init__(code)
        self.code = code
        self.message = message
        self.status = status


class BoletoWire:
    def __init__(
        self,
        wire: Wire,
        boletos: SimulatedBoletos,
        signer: Signer,
        agreement: ConvenioAgreement,
    ) -> None:
        self.boletos = boletos
        self.quirks: frozenset[str] = frozenset()
        self._wire = wire
        self._signer = signer
        self._agreement = agreement
        self._carteira = int(agreement.carteira)
        # The last detail shown of each boleto, and until when it is repeated; oldest first.
        self._shown: OrderedDict[str, tuple[datetime, bytes]] = OrderedDict()

    def routes(self) -> list[web.RouteDef]:
        one = "/cobrancas/v2/boletos/{number}"
        return [
            web.post("/cobrancas/v2/boletos", self._api(self.register, REQUEST, shape="A")),
            web.get("/cobrancas/v2/boletos", self._api(self.list_boletos, INFO, shape="B")),
            web.get(one, self._api(self.detail, INFO, shape="B")),
            web.patch(one, self._api(self.change, REQUEST, shape="B")),
            web.post(f"{one}/baixar", self._api(self.write_off, REQUEST, shape="B")),
            web.post(f"{one}/gerar-pix", self._api(self.add_pix, REQUEST, shape="A")),
            web.post(f"{one}/cancelar-pix", self._api(self.remove_pix, REQUEST, shape="A")),
            web.get(f"{one}/pix", self._api(self.pix, INFO, shape="A")),
            web.get("/pix/v2/cobv/{token}", self._wire.faulty(self.location)),
        ]

    def _api(self, handle: Handler, scope: str, *, shape: str) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            try:
                return await handle(request)
            except BoletoInvalid as invalid:
                return self._error(invalid, shape)

        return self._wire.admitted(answer, scope)

    def _error(self, invalid: BoletoInvalid, shape: str) -> web.Response:
        if shape == "B":
            told = {"code": f"{invalid.code}.1", "message": invalid.message, "action": "Verifique os dados."}
            return web.json_response({"errors": [told]}, status=invalid.status)
        if "shape_f" in self.quirks:
            told = {"codigoMensagem": invalid.code, "textoMensagem": invalid.message, "textoProvidencia": "-"}
        else:
            told = {
                "codigo": invalid.code, "versao": "1", "mensagem": invalid.message,
                "providencia": "Verifique os dados.", "ocorrencia": "CHOQ00002345678901",
            }  # fmt: skip
        return web.json_response({"erros": [told]}, status=invalid.status)

    # Registering

    async def register(self, request: web.Request) -> web.Response:
        body = await _body(request)
        self._refuse_on_request()
        boleto = _boleto(body, self._agreement, today=self.boletos.today(), with_pix="no_qr" not in self.quirks)
        if not await self.boletos.add(boleto, _terms(body, boleto)):
            raise BoletoInvalid(NUMBER_USED, "Nosso Numero ja incluido anteriormente.")
        booked = await self._booked(boleto.number)
        barcode, line = booked.codes
        if "wrong_line" in self.quirks:
            line = line[:-1] + str((int(line[-1]) + 1) % 10)
        agreement = self._agreement
        shown = {
            "numero": booked.number,
            "numeroCarteira": self._carteira,
            "numeroVariacaoCarteira": agreement.variacao,
            "codigoCliente": 704950857,
            "linhaDigitavel": line,
            "codigoBarraNumerico": barcode,
            "numeroContratoCobranca": _CONTRACT,
            "beneficiario": {
                "agencia": agreement.agencia, "contaCorrente": agreement.conta, "tipoEndereco": 0,
                "logradouro": "Cliente nao informado", "bairro": "", "cidade": "BRASILIA", "codigoCidade": 0,
                "uf": "DF", "cep": 70000000, "indicadorComprovacao": "",
            },
            "qrCode": _qr(booked),
        }  # fmt: skip
        return web.json_response(shown, status=201)

    # Reading

    async def detail(self, request: web.Request) -> web.Response:
        number = self._number(request)
        now = self.boletos.now()
        until, cached = self._shown.get(number, (now, b""))
        if cached and now < until:
            return web.Response(body=cached, content_type="application/json")
        booked = await self._booked(number)
        shown = msgspec.json.encode(self._detail(booked))
        if (age_s := (await self.boletos.rules()).detail_cache_s) > 0:
            self._shown[number] = (now + timedelta(seconds=age_s), shown)
            self._shown.move_to_end(number)
            if len(self._shown) > _CACHED_MAX:
                self._shown.popitem(last=False)
        return web.Response(body=shown, content_type="application/json")

    def _detail(self, booked: BookedBoleto) -> dict[str, Any]:
        payer = self.boletos.payer(booked)
        barcode, line = booked.codes
        shown: dict[str, Any] = {
            **dict.fromkeys(_ZEROS, 0),
            **dict.fromkeys(_BLANKS, ""),
            "codigoLinhaDigitavel": line,
            "textoCodigoBarrasTituloCobranca": barcode,
            "textoMensagemBloquetoTitulo": booked.description or "",
            "numeroContratoCobranca": _CONTRACT,
            "codigoTipoInscricaoSacado": 1 if len(payer.document) == 11 else 2,
            "numeroInscricaoSacadoCobranca": int(payer.document) if payer.document.isdigit() else payer.document,
            "codigoEstadoTituloCobranca": booked.state,
            "codigoTipoTituloCobranca": 2,
            "codigoModalidadeTitulo": 1,
            "codigoAceiteTituloCobranca": "N",
            "codigoPrefixoDependenciaCobrador": self._agreement.agencia,
            "numeroTituloCedenteCobranca": booked.seu_numero,
            "dataEmissaoTituloCobranca": day_text(booked.issued_on),
            "dataRegistroTituloCobranca": day_text(day_of(booked.registered_at)),
            "dataVencimentoTituloCobranca": day_text(booked.due_on),
            "valorOriginalTituloCobranca": json_number(booked.amount_cents),
            "valorAtualTituloCobranca": json_number(booked.due(self.boletos.today()).total_cents),
            "nomeSacadoCobranca": payer.name,
            "textoEnderecoSacadoCobranca": payer.street,
            "nomeMunicipioSacadoCobranca": payer.city,
            "siglaUnidadeFederacaoSacadoCobranca": payer.state,
            "numeroCepSacadoCobranca": int(payer.zip_code),
            "numeroCarteiraCobranca": self._carteira,
            "numeroVariacaoCarteiraCobranca": self._agreement.variacao,
            "indicadorPermissaoRecebimentoParcial": "N",
            **shown_terms(booked.agreed, booked.fine_from, booked.late_days, booked.due_on),
        }
        if booked.state == WRITTEN_OFF_STATE:
            shown["codigoTipoBaixaTitulo"] = 11  # client, on-line
        if booked.state == SETTLED:
            assert booked.paid_at is not None
            assert booked.settled_at is not None
            shown |= {
                "codigoCanalPagamento": _BY_PIX if booked.rail == "pix" else _BY_INTERNET,
                "codigoTipoLiquidacao": 1,
                "valorPagoSacado": json_number(booked.paid_cents),
                "valorCreditoCedente": json_number(booked.paid_cents),
                "valorJuroMoraRecebido": json_number(booked.interest_cents),
                "valorMultaRecebido": json_number(booked.fine_cents),
                "valorDescontoUtilizado": json_number(booked.discount_cents),
                "dataRecebimentoTitulo": day_text(day_of(booked.paid_at)),
                "dataCreditoLiquidacao": day_text(day_of(booked.settled_at)),
            }
        return shown

    async def list_boletos(self, request: web.Request) -> web.Response:
        query = request.query
        situation = query.get("indicadorSituacao")
        needed = (query.get("agenciaBeneficiario"), query.get("contaBeneficiario"))
        overdue = {"S": (True,), "N": (False,), None: (True, False)}.get(query.get("boletoVencido"))
        if situation not in ("A", "B") or None in needed or overdue is None:
            raise BoletoInvalid(INVALID_FIELD, "Parametro obrigatorio ausente ou invalido.")
        mine = needed == (str(self._agreement.agencia), str(self._agreement.conta))
        skip = _whole(query.get("indice", "0"))
        # With an unknown parameter the bank finds nothing, and does not say why.
        if not mine or not _LIST_PARAMETERS.issuperset(set(query) - {self._wire.app_key_param}):
            raise _nothing_found()
        rows: list[ListedBoleto]
        today = self.boletos.today()
        registered = _days(query, "Registro", today)
        due = _days(query, "Vencimento", date(2100, 1, 1))
        if situation == "A":
            rows = await self.boletos.open_page(registered=registered, due=due, overdue=overdue, skip=skip)
        else:
            moved = _days(query, "Movimento", today)
            if max(moved[0], registered[0]) > today:
                raise BoletoInvalid(INVALID_FIELD, "Data futura.")
            code = query.get("codigoEstadoTituloCobranca")
            rows = await self.boletos.closed_page(
                moved=moved,
                registered=registered,
                due=due,
                overdue=overdue,
                states=(SETTLED, WRITTEN_OFF_STATE) if code is None else (_whole(code),),
                skip=skip,
            )
        if not rows:
            raise _nothing_found()
        more = len(rows) > PAGE
        shown = {
            "indicadorContinuidade": "S" if more else "N",
            "quantidadeRegistros": min(len(rows), PAGE),
            "proximoIndice": skip + PAGE if more else 0,
            "boletos": [self._item(row, closed=situation == "B") for row in rows[:PAGE]],
        }
        return web.Response(body=msgspec.json.encode(shown), content_type="application/json")

    def _item(self, row: ListedBoleto, *, closed: bool) -> dict[str, Any]:
        state = ANNOUNCED if row.payments else OPEN
        if closed:
            state = SETTLED if row.payments else WRITTEN_OFF_STATE
        moved = "" if row.moved_at is None or not closed else day_text(day_of(row.moved_at))
        return {
            "numeroBoletoBB": row.number,
            "estadoTituloCobranca": _STATES[state],
            "codigoEstadoTituloCobranca": state,
            "dataRegistro": day_text(day_of(row.registered_at)),
            "dataVencimento": day_text(row.due_on),
            "dataMovimento": moved or day_text(day_of(row.registered_at)),
            "dataCredito": moved if state == SETTLED else "",
            "valorOriginal": json_number(row.amount_cents),
            "valorAtual": json_number(row.amount_cents),
            "valorPago": "" if row.garbled else json_number(row.paid_cents),
            "contrato": _CONTRACT,
            "carteiraConvenio": self._carteira,
            "variacaoCarteiraConvenio": self._agreement.variacao,
        }

    # Changing

    async def change(self, request: web.Request) -> web.Response:
        body = await _body(request)
        self._agreed(body.get("numeroConvenio"))
        self._refuse_on_request()
        asked = [name for name in INDICATORS if body.get(name) == "S"]
        if any(body.get(name) not in ("S", "N") for name in INDICATORS) or len(asked) != 1:
            raise BoletoInvalid("4999010", "Informe todos os indicadores, um deles com S.")
        number = self._number(request, body)
        if asked == ["indicadorNovaDataVencimento"]:
            change = body.get("alteracaoData")
            due_on = read_day(change.get("novaDataVencimento") if isinstance(change, dict) else None)
            if due_on is None or due_on < self.boletos.today():
                raise BoletoInvalid("4999012", "Data de vencimento invalida.")
            _done(await self.boletos.change(number, due_on=due_on))
        elif asked in (["indicadorCobrarMulta"], ["indicadorAlterarPrazoBoletoVencido"]):
            await self._change_terms(number, body)
        else:
            raise BoletoInvalid("4999011", "Alteracao nao disponivel para o convenio.")
        at = self.boletos.now().astimezone(SAO_PAULO)
        shown = {
            "numeroContratoCobranca": _CONTRACT,
            "dataAtualizacao": day_text(at.date()),
            "horarioAtualizacao": f"{at:%H:%M:%S}",
        }
        return web.json_response(shown)

    async def _change_terms(self, number: str, body: dict[str, Any]) -> None:
        booked = await self._booked(number)
        try:
            if body["indicadorCobrarMulta"] == "S":
                begins = read_fine_from(body.get("multa"), due_on=booked.due_on, late_days=booked.late_days)
                _done(await self.boletos.change(number, fine_from=begins))
            else:
                days = read_late_days(body.get("alteracaoPrazo"))
                _done(await self.boletos.change(number, late_days=days))
        except WrongTerms as wrong:
            raise _field(str(wrong)) from None

    async def write_off(self, request: web.Request) -> web.Response:
        body = await _body(request)
        self._refuse_on_request()
        _done(await self.boletos.write_off(self._number(request, body)))
        at = self.boletos.now().astimezone(SAO_PAULO)
        shown = {
            "numeroContratoCobranca": str(_CONTRACT),
            "dataBaixa": day_text(at.date()),
            "horarioBaixa": f"{at:%H:%M:%S}",
        }
        return web.json_response(shown)

    # The PIX side

    async def add_pix(self, request: web.Request) -> web.Response:
        number = self._number(request, await _body(request))
        await self._booked(number)
        if not await self.boletos.add_pix(number):
            raise BoletoInvalid("4999020", "Situacao do boleto nao permite Pix.")
        return await self._shown_pix(number)

    async def remove_pix(self, request: web.Request) -> web.Response:
        number = self._number(request, await _body(request))
        before = await self._booked(number)
        if not await self.boletos.remove_pix(number):
            raise BoletoInvalid("4999021", "Boleto sem Pix a cancelar.")
        return web.json_response({"pix": {"chave": ""}, "qrCode": _qr(before)})

    async def pix(self, request: web.Request) -> web.Response:
        return await self._shown_pix(self._number(request))

    async def _shown_pix(self, number: str) -> web.Response:
        booked = await self._booked(number)
        if booked.txid is None:
            raise _nothing_found()
        paid = booked.rail == "pix" and booked.paid_at is not None
        shown = {
            "id": number,
            "dataRegistroTituloCobranca": day_text(day_of(booked.registered_at)),
            "agenciaBeneficiario": self._agreement.agencia,
            "contaBeneficiario": self._agreement.conta,
            "valorOriginalTituloCobranca": json_number(booked.amount_cents),
            "validadeTituloCobranca": day_text(booked.due_on),
            "pix": {
                "valorRecebido": json_number(booked.paid_cents) if paid else 0,
                "timestamp": booked.paid_at.isoformat() if paid and booked.paid_at is not None else "",
            },
            "qrCode": {**_qr(booked), "tipo": 1},
        }
        return web.Response(body=msgspec.json.encode(shown), content_type="application/json")

    async def location(self, request: web.Request) -> web.Response:
        booked = await self.boletos.booked_at(request.match_info["token"])
        if booked is None:
            raise Invalid("CobPayloadNaoEncontrado", 404, "Não há cobrança nesta location.")
        signed = self._signer.sign(boleto_payload(booked, now=self.boletos.now()))
        return web.Response(body=signed, content_type=MEDIA_TYPE)

    # The common parts of requests

    def _refuse_on_request(self) -> None:
        if self._wire.fault == "refuse":
            raise BoletoInvalid(INVALID_FIELD, "Recusado a pedido.")

    async def _booked(self, number: str) -> BookedBoleto:
        booked = await self.boletos.booked(number)
        if booked is None:
            raise _nothing_found()
        return booked

    def _number(self, request: web.Request, body: Mapping[str, Any] | None = None) -> str:
        """Return the boleto's number after checking the agreement, which the body or, without a body, the query
        names."""
        named = request.query.get("numeroConvenio", "") if body is None else body.get("numeroConvenio")
        self._agreed(named)
        number = request.match_info["number"]
        if NUMBER.fullmatch(number) is None or number[3:10] != self._agreement.convenio:
            raise _nothing_found()
        return number

    def _agreed(self, named: object) -> None:
        if str(named) != self._agreement.convenio:
            raise BoletoInvalid("4999030", "Convenio nao informado ou inexistente.")


def _boleto(body: dict[str, Any], agreement: ConvenioAgreement, *, today: date, with_pix: bool) -> NewBoleto:
    """Read the boleto of a POST; BoletoInvalid names the first broken rule of the guide."""
    own = (body.get("numeroConvenio"), body.get("numeroCarteira"), body.get("numeroVariacaoCarteira"))
    if own != (int(agreement.convenio), int(agreement.carteira), agreement.variacao):
        raise BoletoInvalid("4999030", "Convenio, carteira ou variacao inexistente.")
    number, seu_numero = body.get("numeroTituloCliente"), body.get("numeroTituloBeneficiario")
    if not isinstance(number, str) or NUMBER.fullmatch(number) is None or number[3:10] != agreement.convenio:
        raise _field("numeroTituloCliente")
    if not isinstance(seu_numero, str) or _SEU_NUMERO.fullmatch(seu_numero) is None or not seu_numero.strip():
        raise _field("numeroTituloBeneficiario")
    _one_of(body, "codigoModalidade", (1, 4))
    _one_of(body, "indicadorAceiteTituloVencido", ("S", "N"))
    _one_of(body, "codigoAceite", ("A", "N"))
    _one_of(body, "codigoTipoTitulo", (2, 4, 12, 17, 19, 23, 24, 25, 32, 99))
    _one_of(body, "indicadorPermissaoRecebimentoParcial", ("S", "N"))
    issued_on, due_on = read_day(body.get("dataEmissao")), read_day(body.get("dataVencimento"))
    if issued_on is None or issued_on < today:
        raise _field("dataEmissao")
    if due_on is None or due_on < issued_on:
        raise _field("dataVencimento")
    amount_cents = _cents(body.get("valorOriginal"))
    if (
        not amount_cents
        or amount_cents > BOLETO_CENTS_MAX
        or amount_cents <= (_cents(body.get("valorAbatimento", 0)) or 0)
    ):
        raise _field("valorOriginal")
    if body.get("quantidadeDiasProtesto", 0) not in _PROTEST_DAYS:
        raise _field("quantidadeDiasProtesto")
    own_text = body.get("campoUtilizacaoBeneficiario")
    if own_text is not None and (not isinstance(own_text, str) or _FREE_TEXT.fullmatch(own_text) is None):
        raise BoletoInvalid(INVALID_FIELD, "Campo utilizacao beneficiario preenchido com dados invalidos")
    message = body.get("mensagemBloquetoOcorrencia")
    if message is not None:
        message = _text(body, "mensagemBloquetoOcorrencia", 165)
    return NewBoleto(
        number=number,
        seu_numero=seu_numero,
        amount_cents=amount_cents,
        issued_on=issued_on,
        due_on=due_on,
        # Any value other than "S" silently means "N", as the guide says.
        hybrid=body.get("indicadorPix") == "S" and with_pix,
        payer=_payer(body.get("pagador")),
        description=message,
    )


def _terms(body: dict[str, Any], boleto: NewBoleto) -> WireTerms:
    try:
        return read_terms(body, amount_cents=boleto.amount_cents, due_on=boleto.due_on)
    except WrongTerms as wrong:
        raise _field(str(wrong)) from None


def _payer(given: object) -> BoletoPayer:
    if not isinstance(given, dict):
        raise _field("pagador")
    kind, document = given.get("tipoInscricao"), given.get("numeroInscricao")
    if type(kind) is not int or kind not in (1, 2) or type(document) not in (int, str):
        raise _field("pagador.tipoInscricao")
    bare = str(document).zfill(11 if kind == 1 else 14)
    if not well_formed(bare, letters=True) or len(bare) != (11 if kind == 1 else 14):
        raise _field("pagador.numeroInscricao")
    zip_code, state = given.get("cep"), given.get("uf")
    if type(zip_code) is not int or not 0 <= zip_code <= 99_999_999:
        raise _field("pagador.cep")
    if state not in _STATES_OF_BRAZIL:
        raise _field("pagador.uf")
    return BoletoPayer(
        name=_text(given, "nome", 60),
        document=bare,
        street=_text(given, "endereco", 60),
        number="",
        city=_text(given, "cidade", 30),
        state=state,
        zip_code=f"{zip_code:08}",
    )


async def _body(request: web.Request) -> dict[str, Any]:
    if request.content_type != "application/json":
        raise BoletoInvalid(INVALID_FIELD, "Conteudo deve ser application/json.")
    try:
        return msgspec.json.decode(await request.read(), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise BoletoInvalid(INVALID_FIELD, "Conteudo nao e JSON.") from None


def _one_of(body: dict[str, Any], name: str, allowed: tuple[object, ...]) -> None:
    if body.get(name) not in allowed or isinstance(body.get(name), bool):
        raise _field(name)


def _text(given: dict[str, Any], name: str, length_max: int) -> str:
    text = given.get(name)
    if not isinstance(text, str) or len(text) > length_max or _TEXT.fullmatch(text) is None:
        raise _field(name)
    return text


def _field(name: str) -> BoletoInvalid:
    return BoletoInvalid(INVALID_FIELD, f"Campo {name} preenchido com dados invalidos")


def _nothing_found() -> BoletoInvalid:
    return BoletoInvalid(NOTHING_FOUND, "Nao ha informacoes para os dados informados.", status=404)


def _done(became: Became) -> None:
    if became == "not_found":
        raise _nothing_found()
    if became != "done":
        code, message = _WHY[became]
        raise BoletoInvalid(code, message)


def _qr(booked: BookedBoleto) -> dict[str, str]:
    if booked.location is None or booked.txid is None:
        return {"url": "", "txId": "", "emv": ""}
    # The bank's own example has the space after the txId.
    return {"url": booked.location, "txId": f"{booked.txid} ", "emv": booked.emv or ""}


def _cents(given: object) -> int | None:
    """Return the cents of a JSON number or text; a number was parsed as a float, so it is rounded to two decimals."""
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    match = _MONEY.fullmatch(f"{given:.2f}" if isinstance(given, float) else str(given))
    return None if match is None else int(match[1]) * 100 + int((match[2] or "").ljust(2, "0"))


def _days(query: Mapping[str, str], of: str, default_end: date) -> tuple[date, date]:
    """Return a date range of the list's query; an absent begin is 2000-01-01, an absent end is `default_end`."""
    begin, end = query.get(f"dataInicio{of}"), query.get(f"dataFim{of}")
    since = date(2000, 1, 1) if begin is None else read_day(begin)
    until = default_end if end is None else read_day(end)
    if since is None or until is None or since > until:
        raise BoletoInvalid(INVALID_FIELD, "Data invalida.")
    return since, until


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise BoletoInvalid(INVALID_FIELD, "Numero invalido.")
    return int(text)
