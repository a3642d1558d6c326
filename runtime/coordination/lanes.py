"""The lanes of work that workers are woken for (runtime/jobs.py)."""

from typing import Protocol

from domain.mode import Mode

WEBHOOKS = "webhooks"
PIX_HINTS = "pix_hints"
BOLETO_HINTS = "boleto_hints"
# By mode; there are no withdrawals in sandbox mode.
PIX_ORDERS = {mode: f"pix_orders_{mode}" for mode in Mode}
LOCATION_POOL = {mode: f"location_pool_{mode}" for mode in Mode}
BOLETO_ORDERS = {mode: f"boleto_orders_{mode}" for mode in Mode}
REFUND_ORDERS = {mode: f"refund_orders_{mode}" for mode in Mode}
WITHDRAWAL_ORDERS = {Mode.PRODUCTION: "withdrawal_orders_production"}
LANES = (
    WEBHOOKS,
    PIX_HINTS,
    BOLETO_HINTS,
    *PIX_ORDERS.values(),
    *LOCATION_POOL.values(),
    *BOLETO_ORDERS.values(),
    *REFUND_ORDERS.values(),
    *WITHDRAWAL_ORDERS.values(),
)


class LaneWaker(Protocol):
    def wake(self, lane: str) -> None: ...
