"""A valid request for every operation that takes a body. A case then changes one thing, which is the only possible
cause of the refusal.

A route that takes a body and is missing here fails the test of completeness.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from commands.merchants.merchants import MerchantCreated
from tests.conformance.world import NOBODY, Body, World, schedule_body
from tests.support.boleto_merchant import boleto_body, in_days
from tests.support.dual_merchant import dual_body

Given = Callable[[World, MerchantCreated], Body]

BODIES: Final[dict[str, Given]] = {
    "createPixCharge": lambda world, of: {"account_id": str(of.account_id), "amount": "10.00"},
    "createBoletoCharge": lambda world, of: boleto_body(),
    "createDualCharge": lambda world, of: dual_body(),
    "changeDueDate": lambda world, of: {"charge_id": NOBODY, "due_date": in_days(20)},
    "cancelChargeByReference": lambda world, of: {"charge_id": NOBODY},
    "sandboxPay": lambda world, of: {},
    "createRefund": lambda world, of: {},
    "createSchedule": lambda world, of: schedule_body(),
    "sendChargeEmail": lambda world, of: {"to": "ana@example.com"},
    "createWithdrawal": lambda world, of: {"amount": "1.50"},
    # An instant in the past: the clock stays where it is.
    "advanceSandboxClock": lambda world, of: {"to": "2026-01-01T00:00:00Z"},
    "redeliverEvents": lambda world, of: {"from_sequence": 1, "to_sequence": 1},
}
"""Bodies by operation, each made for a merchant."""

Owned = Callable[[World, str, MerchantCreated], Awaitable[str]]

RESOURCES: Final[dict[str, tuple[str, Owned]]] = {
    "charge_id": ("CHARGE_NOT_FOUND", lambda world, mode, of: world.pix(mode, of)),
    "refund_id": ("REFUND_NOT_FOUND", lambda world, mode, of: world.refund(mode, of)),
    "delivery_id": ("DELIVERY_NOT_FOUND", lambda world, mode, of: world.delivery(mode, of)),
    "request_id": ("REQUEST_NOT_FOUND", lambda world, mode, of: world.logged_request(mode, of)),
    "schedule_id": ("SCHEDULE_NOT_FOUND", lambda world, mode, of: world.schedule(of)),
    "withdrawal_id": ("WITHDRAWAL_NOT_FOUND", lambda world, mode, of: world.withdrawal(of)),
}
"""By an identifier in a path: the code that says that the resource is not there, and the function that creates one of a
merchant's in a mode."""

ONE_MODE: Final = frozenset({"schedule_id", "withdrawal_id"})
"""Resources of production only: there is none of the other mode that could be asked for."""

Asked = tuple[str, Body | None]


async def _paid(world: World) -> str:
    return f"/v1/charges/{await world.paid()}"


async def _to_refund(world: World) -> str:
    return f"{await _paid(world)}/refunds"


async def _to_withdraw(world: World) -> str:
    await world.fund(world.mine)
    return "/v1/withdrawals"


PLACES: Final[dict[str, Callable[[World], Awaitable[str]]]] = {
    "createRefund": _to_refund,
    "createWithdrawal": _to_withdraw,
}
"""Paths of creations that need another resource to be there first."""


async def _withdraw(world: World) -> Asked:
    return await _to_withdraw(world), {"amount": "1.50"}


async def _print(world: World) -> Asked:
    return f"/v1/charges/boleto/{await world.boleto()}/pdf", None


async def _redate(world: World) -> Asked:
    return "/v1/charges/due-date", {"charge_id": await world.boleto(), "due_date": in_days(20)}


async def _cancel(world: World) -> Asked:
    return "/v1/charges/cancel", {"charge_id": await world.pix(), "reason": "paid_externally"}


async def _refund(world: World) -> Asked:
    return f"{await _paid(world)}/refunds", {"amount": "1.00"}


async def _refunds(world: World) -> Asked:
    path = f"{await _paid(world)}/refunds"
    assert (await world.test("POST", path, {}, key=world.new_key())).status == 201
    return path, None


async def _key(world: World) -> Asked:
    key = world.new_key()
    body = BODIES["createPixCharge"](world, world.mine)
    assert (await world.test("POST", "/v1/charges/pix", body, key=key)).status == 201
    return f"/v1/idempotency-keys/{key}", None


async def _resume(world: World) -> Asked:
    path = f"/v1/charge-schedules/{await world.schedule()}"
    assert (await world.production("POST", f"{path}/pause")).status == 200
    return f"{path}/resume", None


async def _range(world: World) -> Asked:
    await world.delivery()
    return "/v1/events/redeliver", {"from_sequence": 1, "to_sequence": 2}


async def _mail(world: World) -> Asked:
    return f"/v1/portal/charges/{await world.pix('production')}/send-email", {"to": "ana@example.com"}


GRANTED: Final[dict[str, Callable[[World], Awaitable[Asked]]]] = {
    "printBoleto": _print,
    "changeDueDate": _redate,
    "cancelChargeByReference": _cancel,
    "createRefund": _refund,
    "createWithdrawal": _withdraw,
    "listRefundsOfCharge": _refunds,
    "getIdempotencyKey": _key,
    "resumeSchedule": _resume,
    "redeliverEvents": _range,
    "sendChargeEmail": _mail,
}
"""Path and body of a request that is granted, for operations that need more than a resource and a valid body."""
