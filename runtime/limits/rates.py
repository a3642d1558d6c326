"""How often one client may ask for what needs no token, and how many test charges an account may create.

Counted in this process alone, so that it works, and refuses no other client, whatever became of Redis. An installation
of N processes lets a client do N times as much. A client that keeps to its rate is never refused: some seconds' worth
of each kind may come at once.
"""

import math
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from prometheus_client import Counter

from domain.errors import Code, Refused
from runtime.limits.variables import whole_numbers

_DAY_S: Final = 86_400.0
_BURST_S: Final = 10.0
_BURST_MIN: Final = 10.0
_CLIENTS_MAX: Final = 50_000
"""Clients counted for each kind. More than that within seconds come from everywhere: then all counts start anew."""

rate_limited_total = Counter(
    "rate_limited_total", "Requests refused for their rate, but for that of credentials, by kind.", ["what"]
)


class Rates(Struct, frozen=True, kw_only=True):
    """Requests a minute or a day; field `x_y` is the variable RATE_X_Y."""

    tokens_per_min: int = 3_000
    """POST /v1/oauth/token, of one address."""
    client_tokens_per_min: int = 600
    """Those that issue a token, for one client_id: a token lasts an hour."""
    pages_per_min: int = 3_000
    """Payers' pages and what they poll, and locations of the sandbox's QR Codes, of one address: a mobile network shows
    thousands of people as one address."""
    logos_per_min: int = 3_000
    """Merchants' logos, of one address: one with each page that is opened for the first time."""
    pdfs_per_min: int = 300
    """Boletos printed from a payer's page, of one address."""
    second_copies_per_min: int = 300
    """Second copies asked for on payers' pages, of one address."""
    sign_ins_per_min: int = 600
    """Forms to sign in or to recover access, of one address."""
    files_per_min: int = 300
    """CSV files, and logos that are uploaded, of one account."""
    callbacks_per_min: int = 60_000
    """Callbacks of banks, of one address."""
    sandbox_charges_per_day: int = 1_000_000
    """Test charges, of one account; a day's worth may come at once. A load test of 300/s goes on for 55 minutes."""


_RATE_MAX: Final = 10_000_000


def read_rates(env: Mapping[str, str]) -> Rates:
    """ValueError names the variable that is no number from 1 to its bound."""
    return Rates(**whole_numbers(env, Rates.__struct_fields__, lambda _: (1, _RATE_MAX), prefix="RATE_"))


class ClientRates:
    """Keeps one number for each client and kind: the time until which its requests are paid off (GCRA)."""

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._paid_until: dict[str, dict[str, float]] = {}

    def spend(self, what: str, client: str, *, now_s: float) -> None:
        """Count one request of `what` (a field of Rates); Refused(RATE_LIMITED) when it comes too soon. `now_s` is from
        a clock that never goes back."""
        is_daily = what.endswith("_per_day")
        request_s = (_DAY_S if is_daily else 60.0) / getattr(self._rates, what)
        ahead_s_max = _DAY_S if is_daily else max(_BURST_S, _BURST_MIN * request_s)
        clients = self._paid_until.setdefault(what, {})
        until = max(clients.get(client, 0.0), now_s) + request_s
        if until - now_s > ahead_s_max + request_s / 2:
            rate_limited_total.labels(what).inc()
            raise Refused(Code.RATE_LIMITED, retry_after_s=math.ceil(until - now_s - ahead_s_max))
        if len(clients) >= _CLIENTS_MAX and client not in clients:
            self._forget_paid_off(clients, now_s)
        clients[client] = until

    @staticmethod
    def _forget_paid_off(clients: dict[str, float], now_s: float) -> None:
        for client in [client for client, until in clients.items() if until <= now_s]:
            del clients[client]
        if len(clients) >= _CLIENTS_MAX:
            clients.clear()
