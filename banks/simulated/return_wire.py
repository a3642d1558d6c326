"""The simulated bank's outgoing money over HTTP: the devolucao of API Pix v2, and transfers to PIX keys.

Transfers have an API of this bank's own, under /transfers/v1, in the style of API Pix (docs/decisions/0007). The rules
for how long money is under way and whether it arrives are set at /simulated/refund-rules.
"""

from typing import Any, Final

import msgspec
from aiohttp import web

from banks.protocol import Rejected
from banks.simulated.requests import Wrong, asked_amount, asked_body, asked_rules
from banks.simulated.returns import BookedTransfer, SimulatedReturns
from banks.simulated.shown import shown_return, shown_sent
from banks.simulated.wire import (
    Invalid,
    Wire,
    asked_cents,
    asked_interval,
    asked_json,
    asked_page,
    is_plain_text,
    shown_paging,
)
from banks.transfers import PIX_UNKNOWN, Return, Transfer
from domain.documents import well_formed
from domain.money import PIX_CENTS_MAX
from domain.refund import is_pix_key

SETTLE_AFTER_S_MAX: Final = 3600.0


class ReturnWire:
    def __init__(self, wire: Wire, returns: SimulatedReturns) -> None:
        self._wire = wire
        self._returns = returns

    def routes(self) -> list[web.RouteDef]:
        api = self._wire.admitted
        return [
            web.put("/pix/v2/pix/{e2eid}/devolucao/{id}", api(self.put_return, "pix.write")),
            web.get("/pix/v2/pix/{e2eid}/devolucao/{id}", api(self.get_return, "pix.read")),
            web.put("/transfers/v1/transferencia/{id}", api(self.put_transfer, "pix.write")),
            web.get("/transfers/v1/transferencia/{id}", api(self.get_transfer, "pix.read")),
            web.get("/transfers/v1/transferencia", api(self.list_transfers, "pix.read")),
            web.post("/simulated/refund-rules", self.set_rules),
            web.get("/simulated/refund-rules", self.get_rules),
            web.post("/simulated/take-back", self.take_back),
        ]

    async def put_return(self, request: web.Request) -> web.Response:
        kind = "PixDevolucaoInvalida"
        body = await asked_json(request)
        if self._wire.fault == "refuse":
            raise Invalid(kind, 400, "Recusada a pedido.", of="devolucao")
        asked = Return(
            id=request.match_info["id"],
            end_to_end_id=request.match_info["e2eid"],
            amount_cents=_amount(body, kind),
            description=_description(body, kind),
        )
        booked = await self._returns.put_return(asked, once=True)
        if isinstance(booked, Rejected):
            if booked.code == PIX_UNKNOWN:
                raise Invalid("PixNaoEncontrado", 404, booked.message)
            raise Invalid(booked.code, 400, booked.message, of="devolucao")
        return web.json_response(shown_return(self._returns, booked), status=201)

    async def get_return(self, request: web.Request) -> web.Response:
        booked = await self._returns.booked_return(request.match_info["e2eid"], request.match_info["id"])
        if booked is None:
            raise Invalid("PixDevolucaoNaoEncontrada", 404, "A devolução não foi encontrada.")
        return web.json_response(shown_return(self._returns, booked))

    async def put_transfer(self, request: web.Request) -> web.Response:
        kind = "TransferenciaInvalida"
        body = await asked_json(request)
        if self._wire.fault == "refuse":
            raise Invalid(kind, 400, "Recusada a pedido.", of="transferencia")
        key, document = body.get("chave"), body.get("documento")
        if not isinstance(key, str) or not is_pix_key(key):
            raise Invalid(kind, 400, "A chave não respeita o schema.", of="chave")
        if not isinstance(document, str) or not well_formed(document, letters=True):
            raise Invalid(kind, 400, "O documento não respeita o schema.", of="documento")
        asked = Transfer(
            id=request.match_info["id"],
            pix_key=key,
            document=document,
            amount_cents=_amount(body, kind),
            description=_description(body, kind),
        )
        booked = await self._returns.put_transfer(asked)
        if isinstance(booked, Rejected):
            raise Invalid(booked.code, 400, booked.message, of="transferencia")
        return web.json_response(self._shown_transfer(booked), status=201)

    async def get_transfer(self, request: web.Request) -> web.Response:
        booked = await self._returns.booked_transfer(request.match_info["id"])
        if booked is None:
            raise Invalid("TransferenciaNaoEncontrada", 404, "A transferência não foi encontrada.")
        return web.json_response(self._shown_transfer(booked))

    async def list_transfers(self, request: web.Request) -> web.Response:
        since, until = asked_interval(request)
        page, per_page = asked_page(request)
        rows, total = await self._returns.transfer_page(since, until, page=page, per_page=per_page)
        return web.json_response(
            {
                "parametros": {"paginacao": shown_paging(page, per_page, total)},
                "transferencias": [{**self._shown_transfer(row), "documento": row.document} for row in rows],
            }
        )

    async def set_rules(self, request: web.Request) -> web.Response:
        """Any of {settle_after_s, fails}, for requests from now on; returns both."""
        rules = await asked_rules(request, await self._returns.rules())
        if not 0 <= rules.settle_after_s <= SETTLE_AFTER_S_MAX:
            raise Wrong(400, f"settle_after_s must be from 0 to {SETTLE_AFTER_S_MAX:.0f}")
        await self._returns.set_rules(rules)
        return web.json_response(msgspec.structs.asdict(rules))

    async def get_rules(self, request: web.Request) -> web.Response:
        return web.json_response(msgspec.structs.asdict(await self._returns.rules()))

    async def take_back(self, request: web.Request) -> web.Response:
        """{end_to_end_id, amount?}: the bank returns a PIX to its payer (MED), by default the whole amount."""
        body = await asked_body(request)
        end_to_end_id = body.get("end_to_end_id")
        pix = await self._wire.bank.booked_pix(end_to_end_id) if isinstance(end_to_end_id, str) else None
        if pix is None:
            raise Wrong(404, "the bank received no such PIX")
        cents = asked_amount(body, cents_max=PIX_CENTS_MAX) or pix.amount_cents
        booked = await self._returns.take_back(pix.end_to_end_id, cents)
        if isinstance(booked, Rejected):
            raise Wrong(409, booked.message)
        return web.json_response(shown_return(self._returns, booked))

    def _shown_transfer(self, booked: BookedTransfer) -> dict[str, Any]:
        shown = shown_sent(self._returns, booked, done="REALIZADO")
        return {"endToEndId": booked.end_to_end_id, "chave": booked.pix_key, **shown}


def _amount(body: dict[str, Any], kind: str) -> int:
    amount_cents = asked_cents(body.get("valor"))
    if amount_cents is None:
        shown = str(body.get("valor"))[:40]
        raise Invalid(kind, 400, "O valor não respeita o schema.", of="valor", value=shown)
    return amount_cents


def _description(body: dict[str, Any], kind: str) -> str | None:
    text = body.get("descricao")
    if text is not None and not is_plain_text(text):
        raise Invalid(kind, 400, "A descrição não respeita o schema.", of="descricao")
    return text
