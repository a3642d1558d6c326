"""The simulated bank's charges with a due date over HTTP: cobv of API Pix v2."""

from datetime import date
from typing import Any, Final

from aiohttp import web

from banks.banco_do_brasil.cobv import AMOUNT, PERCENT, PERCENT_PER_MONTH
from banks.banco_do_brasil.cobv import terms_value as shown_value
from banks.protocol import Cobv, NotFound, Rejected
from banks.simulated.bank import BookedCob
from banks.simulated.cobvs import REFUSED, REMOVED
from banks.simulated.wire import Invalid, Wire, asked_cents, asked_json
from domain.boleto.business_days import effective_due_date
from domain.boleto.terms import DISCOUNTS_MAX, Discount, Fine, Interest, PaymentTerms
from domain.documents import well_formed
from domain.instants import day_of, parse_day
from domain.money import reais

_TXID: Final = "{txid:[a-zA-Z0-9]{26,35}}"
_VALID_DAYS: Final = 30
"""The standard's default number of days for late payment."""
_VALID_DAYS_MAX: Final = 999


class CobvWire:
    """The routes of cobv. Locations of hybrid boletos have the same path, with a shorter last part: these routes must
    be added before theirs."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._bank = wire.bank

    def routes(self) -> list[web.RouteDef]:
        admitted = self._wire.admitted
        return [
            web.put(f"/pix/v2/cobv/{_TXID}", admitted(self.put, "cobv.write")),
            web.patch(f"/pix/v2/cobv/{_TXID}", admitted(self.patch, "cobv.write")),
            web.get(f"/pix/v2/cobv/{_TXID}", admitted(self.get, "cobv.read")),
        ]

    async def put(self, request: web.Request) -> web.Response:
        body = await asked_json(request)
        if self._wire.fault == "refuse":
            raise Invalid(REFUSED, 400, "Recusada a pedido.", of="cobv")
        cobv = _cobv(request.match_info["txid"], body)
        today = day_of(self._bank.now())
        if cobv.due_on < today:
            raise _schema("cobv.calendario.dataDeVencimento", cobv.due_on)
        became = await self._bank.cobvs.put_cobv(cobv)
        if isinstance(became, Rejected):
            raise Invalid(became.code, 400, became.message, of="cobv")
        return web.json_response(self._shown(await self._booked(cobv.txid)), status=201)

    async def patch(self, request: web.Request) -> web.Response:
        body, txid = await asked_json(request), request.match_info["txid"]
        if body == {"status": REMOVED}:
            changed = await self._bank.cobvs.remove_cobv(txid)
        elif list(body) == ["calendario"]:
            terms = (await self._booked(txid)).agreed or PaymentTerms()
            due_on, days = _calendar(body)
            moved = PaymentTerms(fine=terms.fine, interest=terms.interest, discounts=terms.discounts, payable_days=days)
            changed = await self._bank.cobvs.revise_cobv(txid, due_on, moved)
        else:
            raise Invalid(REFUSED, 400, "Só a remoção ou outro calendário é aceito, sozinho.", of="cobv.status")
        if isinstance(changed, NotFound):
            raise _not_found()
        if isinstance(changed, Rejected):
            raise Invalid(changed.code, 400, changed.message, of="cobv.status")
        return web.json_response(self._shown(await self._booked(txid)))

    async def get(self, request: web.Request) -> web.Response:
        cobv = await self._booked(request.match_info["txid"])
        return web.json_response(self._shown(cobv) | await self._wire.received_of(cobv))

    async def _booked(self, txid: str) -> BookedCob:
        booked = await self._bank.booked(txid)
        if booked is None or booked.due_on is None:
            raise _not_found()
        return booked

    def _shown(self, cobv: BookedCob) -> dict[str, Any]:
        assert cobv.due_on is not None
        terms = cobv.agreed or PaymentTerms()
        return self._wire.shown(cobv) | {
            "calendario": {
                "dataDeVencimento": cobv.due_on.isoformat(),
                "validadeAposVencimento": terms.payable_days,
            },
            "valor": {"original": reais(cobv.amount_cents), **shown_value(terms)},
            "loc": {"id": cobv.location_id, "location": cobv.location, "tipoCob": "cobv"},
        }


def _cobv(txid: str, body: dict[str, Any]) -> Cobv:
    """Read the charge of a PUT; Invalid names the first property that breaks a rule of the standard."""
    value, payer = _object(body, "valor"), _object(body, "devedor")
    amount_cents = _hundredths(value.get("original"), "cobv.valor.original")
    due_on, days = _calendar(body)
    document, name, key = payer.get("cpf") or payer.get("cnpj"), payer.get("nome"), body.get("chave")
    if not (isinstance(document, str) and well_formed(document, letters=True) and isinstance(name, str) and name):
        raise _schema("cobv.devedor", document)
    if not isinstance(key, str) or not 0 < len(key) <= 77:
        raise _schema("cobv.chave", key)
    location_id = _object(body, "loc").get("id")
    if type(location_id) is not int or not 0 < location_id < 2**63:
        raise _schema("cobv.loc.id", location_id)
    return Cobv(
        txid=txid,
        amount_cents=amount_cents,
        due_on=due_on,
        terms=_terms(value, amount_cents, due_on, days),
        location_id=location_id,
        pix_key=key,
        payer_name=name,
        payer_document=document,
        description=body.get("solicitacaoPagador"),
    )


def _calendar(body: dict[str, Any]) -> tuple[date, int]:
    calendar = _object(body, "calendario")
    days = calendar.get("validadeAposVencimento", _VALID_DAYS)
    if type(days) is not int or not 0 <= days <= _VALID_DAYS_MAX:
        raise _schema("cobv.calendario.validadeAposVencimento", days)
    return _day(calendar.get("dataDeVencimento"), "cobv.calendario.dataDeVencimento"), days


def _terms(value: dict[str, Any], amount_cents: int, due_on: date, days: int) -> PaymentTerms:
    fine_cents, fine_bps = _either(value, "multa", PERCENT)
    day_cents, month_bps = _either(value, "juros", PERCENT_PER_MONTH)
    return PaymentTerms(
        fine=Fine(amount_cents=fine_cents, percent_bps=fine_bps) if fine_cents or fine_bps else None,
        interest=Interest(day_cents=day_cents, month_bps=month_bps) if day_cents or month_bps else None,
        discounts=_discounts(value, amount_cents, due_on),
        payable_days=days,
    )


def _either(value: dict[str, Any], name: str, percent: int) -> tuple[int, int]:
    """Return cents and hundredths of a percent; at most one of the two is not 0."""
    given = _object(value, name)
    if not given:
        return 0, 0
    kind = given.get("modalidade")
    hundredths = _hundredths(given.get("valorPerc"), f"cobv.valor.{name}.valorPerc")
    if kind not in (AMOUNT, percent):
        raise _schema(f"cobv.valor.{name}.modalidade", kind)
    return (hundredths, 0) if kind == AMOUNT else (0, hundredths)


def _discounts(value: dict[str, Any], amount_cents: int, due_on: date) -> tuple[Discount, ...]:
    given = _object(value, "desconto")
    if not given:
        return ()
    kind, dated = given.get("modalidade"), given.get("descontoDataFixa")
    if kind not in (AMOUNT, PERCENT) or not isinstance(dated, list) or not 0 < len(dated) <= DISCOUNTS_MAX:
        raise _schema("cobv.valor.desconto", kind)
    found: list[Discount] = []
    for each in dated:
        until = _day(each.get("data") if isinstance(each, dict) else None, "cobv.valor.desconto.descontoDataFixa.data")
        hundredths = _hundredths(each.get("valorPerc"), "cobv.valor.desconto.descontoDataFixa.valorPerc")
        over = hundredths >= (amount_cents if kind == AMOUNT else 10_000)
        if over or until > effective_due_date(due_on) or (found and until <= found[-1].until):
            raise _schema("cobv.valor.desconto.descontoDataFixa", until)
        found.append(
            Discount(until=until, amount_cents=hundredths)
            if kind == AMOUNT
            else Discount(until=until, percent_bps=hundredths)
        )
    return tuple(found)


def _hundredths(given: object, of: str) -> int:
    hundredths = asked_cents(given)
    if hundredths is None:
        raise _schema(of, given)
    return hundredths


def _day(given: object, of: str) -> date:
    try:
        return parse_day(given if isinstance(given, str) else "")
    except ValueError:
        raise _schema(of, given) from None


def _object(body: dict[str, Any], name: str) -> dict[str, Any]:
    found = body.get(name, {})
    if not isinstance(found, dict):
        raise _schema(f"cobv.{name}", found)
    return found


def _schema(of: str, value: object) -> Invalid:
    return Invalid(REFUSED, 400, "O campo não respeita o schema.", of=of, value=str(value)[:100])


def _not_found() -> Invalid:
    return Invalid("CobVNaoEncontrada", 404, "A cobrança não foi encontrada.")
