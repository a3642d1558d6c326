"""`webhook list|test`: lists the deliveries to the registered endpoint, and sends a test delivery.

The endpoint's address and secret can be changed in the dashboard only: no API credential may change where payment
events are sent.
"""

import argparse
import time
from typing import Any, Final

from .api import Api
from .output import show, show_rows
from .trigger import happen

_WAIT_S_MAX: Final = 60.0
_NO_ENDPOINT_S: Final = 3.0
"""Without a delivery after this time there is no endpoint: a delivery is created with its event."""
_POLL_S: Final = 0.5


def list_deliveries(args: argparse.Namespace, api: Api) -> int:
    show_rows(args, api.get("/v1/webhook-deliveries", limit=args.limit, state=args.state)["data"], _line)
    return 0


def try_out(args: argparse.Namespace, api: Api) -> int:
    """Pays a test charge and waits for the delivery of its payment.received; returns 1 unless the endpoint accepts."""
    charge_id = happen("payment.received", api)
    (event,) = api.get("/v1/events", charge_id=charge_id, type=["payment.received"])["data"]
    begun = time.monotonic()
    while True:
        found: list[dict[str, Any]] = api.get("/v1/webhook-deliveries", event_id=event["event_id"])["data"]
        wait_s = _WAIT_S_MAX if found else _NO_ENDPOINT_S
        if (found and found[0]["attempts"]) or time.monotonic() - begun > wait_s:
            break
        time.sleep(_POLL_S)
    if not found:
        show(args, {"delivery": None}, "no endpoint is registered: do so in the dashboard, or use `quita-cli listen`")
        return 1
    show(args, found[0], _line(found[0]))
    return 0 if found[0]["state"] == "delivered" else 1


def _line(delivery: dict[str, Any]) -> str:
    last = delivery["attempts"][-1] if delivery["attempts"] else {}
    outcome = last.get("status") or last.get("outcome") or ""
    return (
        f"{delivery['delivery_id']}  {delivery['state']:<9}  {delivery['attempt_count']:>2}  {outcome!s:<18}  "
        f"{delivery['type']:<24}  {delivery['created_at']}  {delivery['url']}"
    )
