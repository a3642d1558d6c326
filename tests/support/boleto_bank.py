"""A simulated bank with boletos on a real socket, an adapter for it, and a receiver of its announcements."""

import itertools
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date, timedelta
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from banks.banco_do_brasil.adapter import BancoDoBrasil
from banks.banco_do_brasil.agreement import boleto_codes
from banks.banco_do_brasil.nosso_numero import number_at_bank
from banks.boletos import BoletoPayer, NewBoleto
from banks.simulated.boleto_control import BoletoControl
from banks.simulated.boleto_wire import BoletoWire
from banks.simulated.cobv_wire import CobvWire
from banks.simulated.wire import Wire
from domain.instants import SAO_PAULO
from runtime.local.ports import free_port
from runtime.postgres import Pool
from tests.support.banking import (
    AGREEMENT,
    RunningBank,
    adapter_at,
    open_wire,
    serving_bank,
    utc_now,
)
from tests.support.listening import listening
from tests.support.merchant import until_answer

CONVENIO = AGREEMENT.convenio
# A number is never used again, not even by later runs on the same database.
_controls = itertools.count(random.randrange(1, 9_000_000_000))


def today() -> date:
    return utc_now().astimezone(SAO_PAULO).date()


def new_number() -> str:
    return number_at_bank(CONVENIO, next(_controls))


def new_boleto(**fields: Any) -> NewBoleto:
    payer = {
        "name": "João d'Ávila & Filhos – nº 3", "document": "01234567890", "street": "Rua São José", "number": "12-A",
        "city": "São Paulo", "state": "SP", "zip_code": "01310100",
    }  # fmt: skip
    given: dict[str, Any] = {
        "number": new_number(), "seu_numero": "PEDIDO-1", "amount_cents": 12345, "issued_on": today(),
        "due_on": today() + timedelta(days=10), "hybrid": False, "payer": BoletoPayer(**payer),
    }  # fmt: skip
    return NewBoleto(**(given | fields))


class RunningBoletoBank(RunningBank):
    def __init__(self, url: str, pool: Pool, wire: Wire, boletos: BoletoWire, http: aiohttp.ClientSession) -> None:
        super().__init__(url, wire, http)
        self.pool = pool
        self.books = self.bank.boletos
        self.boletos = boletos

    def adapter(self, **options: Any) -> BancoDoBrasil:
        return adapter_at(self.http, self.url, **options)

    async def rules(self, **rules: Any) -> None:
        status, _ = await self.control("boleto-rules", **rules)
        assert status == 200

    async def settled(self, number: str) -> None:
        """Settle the announced payment, as if time had passed."""
        now = utc_now()
        await self.pool.execute(
            "UPDATE simulated_boleto_payment SET settles_at = $2 WHERE number = $1 AND settles_at > $2",
            number,
            now,
        )
        await self.pool.execute(
            "UPDATE simulated_boleto SET moved_at = $2 WHERE number = $1 AND moved_at > $2", number, now
        )
        booked = await self.books.booked(number)
        assert booked is not None
        assert booked.paid_cents, "nothing was announced"


@asynccontextmanager
async def running_boleto_bank(pool: Pool) -> AsyncIterator[RunningBoletoBank]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    wire, signer = await open_wire(pool, url, slow_s=0.3)
    boletos = BoletoWire(wire, wire.bank.boletos, signer, AGREEMENT)
    routes = [*BoletoControl(wire.bank.boletos).routes(), *CobvWire(wire).routes(), *boletos.routes()]
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        running = RunningBoletoBank(url, pool, wire, boletos, http)
        async with serving_bank(running, port, *routes):
            yield running


@asynccontextmanager
async def canned_bank(answers: dict[str, Any]) -> AsyncIterator[str]:
    """A bank with fixed answers: "METHOD path" -> (status, body[, headers]), or a list of them, given in turn.

    Any other request is answered 404 without a body. By default token requests succeed.
    """
    token = {"POST /oauth/token": (200, {"access_token": "t", "expires_in": 600})}

    async def answer(request: web.Request) -> web.Response:
        canned = (token | answers).get(f"{request.method} {request.path}", (404, b""))
        if isinstance(canned, list):
            canned = canned.pop(0) if len(canned) > 1 else canned[0]
        status, body, *headers = canned
        text = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return web.Response(status=status, body=text, headers=headers[0] if headers else None)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with listening(app) as url:
        yield url


def detail(boleto: NewBoleto, **fields: Any) -> dict[str, Any]:
    """The detail of a boleto in the real bank's format, with the fields that the adapter reads."""
    barcode, line = boleto_codes(boleto.number, due_on=boleto.due_on, amount_cents=boleto.amount_cents)
    return {
        "codigoEstadoTituloCobranca": 1, "numeroTituloCedenteCobranca": boleto.seu_numero,
        "numeroInscricaoSacadoCobranca": int(boleto.payer.document),
        "dataVencimentoTituloCobranca": f"{boleto.due_on:%d.%m.%Y}", "valorOriginalTituloCobranca": 123.45,
        "codigoLinhaDigitavel": line, "textoCodigoBarrasTituloCobranca": barcode,
        "dataRegistroTituloCobranca": f"{today() - timedelta(days=2):%d.%m.%Y}", "dataRecebimentoTitulo": "",
        "valorPagoSacado": 0, "codigoCanalPagamento": 0,
    } | fields  # fmt: skip


class Receiver:
    """Receives the bank's announcements. `answers` are the statuses it gives in turn; the last one repeats."""

    def __init__(self) -> None:
        self.url = ""
        self.bodies: list[Any] = []
        self.answers = [200]

    async def receive(self, request: web.Request) -> web.Response:
        self.bodies.append(msgspec.json.decode(await request.read()))
        return web.Response(status=self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])

    def items(self, number: str) -> list[Any]:
        return [item for body in self.bodies for item in body if item["id"] == number]

    async def told(self, number: str, count: int) -> list[Any]:
        async def have_arrived() -> bool:
            return len(self.items(number)) >= count

        await until_answer(have_arrived)
        return self.items(number)


@asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    receiving = Receiver()
    app = web.Application()
    app.router.add_post("/boletos", receiving.receive)
    async with listening(app) as url:
        receiving.url = f"{url}/boletos"
        yield receiving
