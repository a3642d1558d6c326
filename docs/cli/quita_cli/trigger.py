"""`trigger KIND`: makes the calls that lead to an event of this kind in the sandbox."""

import argparse
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any, Final

from .api import Api
from .output import show

AMOUNT: Final = "10.00"
_DUE_DAYS: Final = 10
_CLOCK: Final = "/v1/sandbox/clock"
# Invented data: the sandbox accepts any well-formed document.
_PAGADOR: Final = {
    "nome": "Pagador de Teste", "documento": "12345678909", "tipoPessoa": "PESSOA_FISICA", "cep": "01310100",
    "logradouro": "Avenida Paulista", "numero": "1578", "cidade": "São Paulo", "uf": "SP",
}  # fmt: skip


def _pix(api: Api) -> str:
    account_id = api.get("/v1/me")["account_id"]
    made = api.post("/v1/charges/pix", {"account_id": account_id, "amount": AMOUNT}, key=True)
    return str(made["charge_id"])


def _boleto(api: Api) -> str:
    due = _in_days(api, _DUE_DAYS)
    body = {"tipo": "boleto", "valorCents": AMOUNT, "dataVencimento": due, "pagador": _PAGADOR}
    return str(api.post("/v1/charges/boleto", body, key=True)["charge_id"])


def _in_days(api: Api, days: int) -> str:
    """The day so many days from now by the sandbox's clock, which may be ahead of this machine's."""
    return (date.fromisoformat(api.get(_CLOCK)["now"][:10]) + timedelta(days=days)).isoformat()


def _after(path: str, body: Any = None) -> Callable[[Api], str]:
    def play(api: Api) -> str:
        charge_id = _pix(api)
        api.post(path.format(charge_id=charge_id), body)
        return charge_id

    return play


def _refund(api: Api, *, bank: str | None = None) -> str:
    charge_id = _after("/v1/charges/{charge_id}/simulate-payment")(api)
    api.post(f"/v1/charges/{charge_id}/refunds", {}, key=True, sandbox_bank=bank)
    return charge_id


def _refused_refund(api: Api) -> str:
    return _refund(api, bank="refuse")


def _redated(api: Api) -> str:
    charge_id = _boleto(api)
    api.patch("/v1/charges/due-date", {"charge_id": charge_id, "due_date": _in_days(api, _DUE_DAYS + 10)})
    return charge_id


# fmt: off
KINDS: Final[dict[str, Callable[[Api], str]]] = {
    "payment.received":        _after("/v1/charges/{charge_id}/simulate-payment"),
    "charge.cancelled":        _after("/v1/charges/{charge_id}/cancel"),
    "charge.expired":          _after("/v1/sandbox/charges/{charge_id}/expire"),
    "charge.failed":           _after("/v1/sandbox/charges/{charge_id}/fail"),
    "charge.due_date_changed": _redated,
    "charge.refunded":         _refund,
    "refund.succeeded":        _refund,
    "refund.failed":           _refused_refund,
    "payment.anomaly":         _after("/v1/sandbox/charges/{charge_id}/pay", {"times": 2}),
}
# fmt: on
"""Withdrawal events are missing: there are no withdrawals in the sandbox."""


def happen(kind: str, api: Api) -> str:
    """Makes the event happen; returns its charge_id. The first call works with test credentials only, because with a
    production credential the calls would create a real charge."""
    api.get(_CLOCK)
    return KINDS[kind](api)


def trigger(args: argparse.Namespace, api: Api) -> int:
    charge_id = happen(args.kind, api)
    show(args, {"type": args.kind, "charge_id": charge_id}, f"{args.kind}: charge {charge_id}")
    return 0
