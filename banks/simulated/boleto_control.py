"""Control of the simulated bank's boletos: payers, rules, and the callbacks that announce payments to receivers."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

import aiohttp
import msgspec
from aiohttp import web

from banks.banco_do_brasil.nosso_numero import NUMBER
from banks.simulated.bank import Untold
from banks.simulated.boletos import (
    ANNOUNCED,
    OPEN,
    SETTLED,
    BookedBoleto,
    Rail,
    SimulatedBoletos,
    UntoldPayment,
)
from banks.simulated.requests import Wrong, asked_amount, asked_body, asked_rules, asked_times
from domain.boleto.codes import barcode_of_line
from domain.instants import SAO_PAULO, iso, to_millisecond
from domain.money import BOLETO_CENTS_MAX, reais

TOLD_AT_ONCE = 200

_TELL_ATTEMPTS = 12
_TELL_S = 5.0
_TXID = re.compile(r"BOLETO([1-9][0-9]{16})DATA[0-9]{8}")
# Codes of the announcement: paid by another bank, called off; and the channel.
_BY_OTHER_BANK: Final = 2
_CALLED_OFF: Final = 10
_CHANNELS: Final = {"boleto": 3, "pix": 4}
_WHY: Final = {OPEN: "has no PIX side", ANNOUNCED: "is being paid", SETTLED: "is paid"}

Due = TypeVar("Due", Untold, UntoldPayment)


class BoletoControl:
    """The control API for the webhook, the rules, and calling payments off. Payments, also of boletos, are POST
    /simulated/pay."""

    def __init__(self, boletos: SimulatedBoletos) -> None:
        self._boletos = boletos

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/simulated/boleto-webhook", self.set_webhook),
            web.get("/simulated/boleto-webhook", self.get_webhook),
            web.post("/simulated/boleto-rules", self.set_rules),
            web.get("/simulated/boleto-rules", self.get_rules),
            web.post("/simulated/boleto-call-off", self.call_off),
        ]

    async def set_webhook(self, request: web.Request) -> web.Response:
        """{url}: the address to which announcements are POSTed from now on. At the real bank it is entered by hand in
        the portal."""
        url = (await asked_body(request)).get("url")
        if not isinstance(url, str) or not url.startswith(("https://", "http://")) or len(url) > 2048:
            raise Wrong(400, "url must be an http or https address")
        await self._boletos.set_webhook(url)
        return web.json_response({"url": url})

    async def get_webhook(self, request: web.Request) -> web.Response:
        return web.json_response({"url": await self._boletos.webhook()})

    async def set_rules(self, request: web.Request) -> web.Response:
        """Any of {apply_30_minutes, detail_cache_s, settle_after_s}; returns all of them."""
        rules = await asked_rules(request, await self._boletos.rules())
        if not (0 <= rules.detail_cache_s <= 3600 and 0 <= rules.settle_after_s <= 3600):
            raise Wrong(400, "seconds must be from 0 to 3600")
        await self._boletos.set_rules(rules)
        return web.json_response(msgspec.structs.asdict(rules))

    async def get_rules(self, request: web.Request) -> web.Response:
        return web.json_response(msgspec.structs.asdict(await self._boletos.rules()))

    async def call_off(self, request: web.Request) -> web.Response:
        """{number}: calls off the payments that are announced but not settled; returns {called_off: how many}."""
        number = (await asked_body(request)).get("number")
        if not isinstance(number, str):
            raise Wrong(400, "number is missing")
        return web.json_response({"called_off": await self._boletos.call_off(number)})


def is_of_boleto(body: dict[str, Any]) -> bool:
    """Whether a requested payment is of a boleto: the body names a number, a line, or a boleto's txid."""
    return "number" in body or "line" in body or str(body.get("txid", "")).startswith("BOLETO")


async def pay_boleto(boletos: SimulatedBoletos, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Pay a boleto. The body is {number or line or txid, rail?, amount?, times?, force?}; returns [{number, rail,
    end_to_end_id, amount, paid_at}].

    The default amount is what the boleto costs today. The default rail is pix if a txid is given, else boleto. A
    payer's bank checks before it pays: the boleto must be open and payable today, unless `force` says that the money
    was under way already. Raises Wrong.
    """
    number = _number(body)
    rail = body.get("rail", "pix" if "txid" in body else "boleto")
    if rail not in _CHANNELS:
        raise Wrong(400, "rail must be boleto or pix")
    times = asked_times(body)
    amount_cents = asked_amount(body, cents_max=BOLETO_CENTS_MAX)
    booked = await boletos.booked(number)
    if booked is None:
        raise Wrong(404, "the bank has no such boleto")
    force = body.get("force") is True
    if not force and boletos.today() > booked.last_day:
        raise Wrong(409, "the boleto's time has passed")
    if "line" in body and body["line"] != booked.codes[1] and not force:
        raise Wrong(409, "the line is not the boleto's, or no longer")
    paid = await boletos.pay(
        number,
        rail=cast(Rail, rail),
        amount_cents=amount_cents,
        paid_at=to_millisecond(boletos.now()),
        times=times,
        force=force,
    )
    if not paid:
        raise Wrong(409, f"the boleto {_WHY.get((await _now(boletos, booked)).state, 'was written off')} at the bank")
    return [
        {
            "number": each.number,
            "rail": each.rail,
            "end_to_end_id": each.end_to_end_id,
            "amount": reais(each.amount_cents),
            "paid_at": iso(each.paid_at),
        }
        for each in paid
    ]


async def tell_boletos(boletos: SimulatedBoletos, http: aiohttp.ClientSession) -> int:
    """Send the due announcements, an array of payments in one POST; returns how many were due."""
    due = await boletos.claim_untold(limit=TOLD_AT_ONCE, attempts_max=_TELL_ATTEMPTS)
    told = await post_by_url(http, due, lambda part: [shown_announcement(each) for each in part], taken=range(200, 300))
    if told:
        await boletos.mark_told([each.payment_id for each in told])
    return len(due)


async def post_by_url(
    http: aiohttp.ClientSession,
    due: Sequence[Due],
    shown: Callable[[list[Due]], object],
    *,
    path: str = "",
    taken: range,
) -> list[Due]:
    """POST the due items, in one body for each address; returns the items whose POST was answered with a status in
    `taken`."""
    by_url: defaultdict[str, list[Due]] = defaultdict(list)
    for each in due:
        by_url[each.url].append(each)

    async def post(url: str, part: list[Due]) -> list[Due]:
        try:
            async with http.post(
                url + path,
                data=msgspec.json.encode(shown(part)),
                headers={"Content-Type": "application/json"},
                timeout=aiohttp.ClientTimeout(total=_TELL_S),
                allow_redirects=False,
            ) as response:
                return part if response.status in taken else []
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            return []

    parts = await asyncio.gather(*(post(url, part) for url, part in by_url.items()))
    return [each for part in parts for each in part]


def shown_announcement(payment: UntoldPayment) -> dict[str, Any]:
    """Return an item of the webhook BAIXA OPERACIONAL. It has dates in two notations, like the real bank's."""
    return {
        "id": payment.number,
        "dataRegistro": f"{payment.registered_at.astimezone(SAO_PAULO):%d.%m.%Y}",
        "dataVencimento": f"{payment.due_on:%d.%m.%Y}",
        "valorOriginal": msgspec.Raw(reais(payment.boleto_cents).encode()),
        "valorPagoSacado": msgspec.Raw(reais(payment.amount_cents).encode()),
        "numeroConvenio": int(payment.number[3:10]),
        "numeroOperacao": payment.payment_id,
        "carteiraConvenio": 17,
        "variacaoCarteiraConvenio": 35,
        "codigoEstadoBaixaOperacional": _CALLED_OFF if payment.called_off else _BY_OTHER_BANK,
        "dataLiquidacao": f"{payment.paid_at.astimezone(SAO_PAULO):%d/%m/%Y %H:%M:%S}",
        "instituicaoLiquidacao": "999",
        "canalLiquidacao": _CHANNELS[payment.rail],
        "codigoModalidadeBoleto": 1,
        "tipoPessoaPortador": 1,
        "identidadePortador": int(payment.payer_document),
        "nomePortador": payment.payer_name,
        "formaPagamento": 2,
    }


async def _now(boletos: SimulatedBoletos, before: BookedBoleto) -> BookedBoleto:
    return await boletos.booked(before.number) or before


def _number(body: dict[str, Any]) -> str:
    """Return the boleto number from the body's number, line or txid; if several are given, they must agree."""
    named = set()
    if isinstance(number := body.get("number"), str) and NUMBER.fullmatch(number):
        named.add(number)
    if isinstance(txid := body.get("txid"), str) and (match := _TXID.fullmatch(txid)):
        named.add(f"000{match[1]}")
    if isinstance(line := body.get("line"), str):
        try:
            named.add(f"000{barcode_of_line(line)[25:42]}")
        except ValueError as error:
            raise Wrong(400, f"line: {error}") from None
    if len(named) != 1:
        raise Wrong(400, "give the boleto's number, its line or its txid")
    return named.pop()
