"""Measures the duration and the outcome of each call to a bank."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from msgspec import Struct
from prometheus_client import Histogram

from banks.boletos import NotYet
from banks.lists import TooWide
from banks.protocol import Bank, BoletoBank, CobvBank, NotFound, PixBank, Rejected, TransferBank, Unknown
from runtime.tracing.traces import Traces

bank_call_seconds = Histogram(
    "quita_bank_call_duration_seconds",
    "What banks took, by operation of the port (banks/protocol.py) and outcome.",
    ["bank", "operation", "outcome"],
    buckets=(0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30),
)
# Any other answer counts as "done": the bank's yes, or the requested data.
_OUTCOMES: Final[dict[type, str]] = {
    Rejected: "rejected",
    NotFound: "not_found",
    NotYet: "not_yet",
    TooWide: "too_wide",
    Unknown: "unknown",
}


class Tallied(Struct):
    """Counts of one operation of a bank. Calls that are neither rejected nor unknown count in `calls` only."""

    calls: int = 0
    rejected: int = 0
    unknown: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0

    def add(self, other: "Tallied") -> None:
        self.calls += other.calls
        self.rejected += other.rejected
        self.unknown += other.unknown
        self.seconds += other.seconds
        self.slowest_s = max(self.slowest_s, other.slowest_s)


class CallTally:
    """The calls that this process counted since the last `take`, by bank and operation. Metrics end with the process;
    these counts are stored in the database (workers/housekeeping/bank_calls.py). At most one entry for each operation
    of each bank."""

    def __init__(self) -> None:
        self._counted: dict[tuple[str, str], Tallied] = {}

    def count(self, bank: str, operation: str, outcome: str, seconds: float) -> None:
        one = Tallied(1, int(outcome == "rejected"), int(outcome == "unknown"), seconds, seconds)
        self._counted.setdefault((bank, operation), Tallied()).add(one)

    def take(self) -> dict[tuple[str, str], Tallied]:
        taken, self._counted = self._counted, {}
        return taken

    def give_back(self, taken: dict[tuple[str, str], Tallied]) -> None:
        """Add counts back that could not be stored."""
        for key, each in taken.items():
            self._counted.setdefault(key, Tallied()).add(each)


TALLY: Final = CallTally()
"""One for each process, like its metrics."""


class MeasuredBank:
    """The bank, with each of its operations measured, and traced where `traces` are kept."""

    def __init__(self, code: str, bank: Bank, traces: Traces | None = None) -> None:
        self.pix: PixBank = cast("PixBank", _MeasuredApi(code, bank.pix, traces))
        self.cobvs: CobvBank = cast("CobvBank", _MeasuredApi(code, bank.cobvs, traces))
        self.boletos: BoletoBank = cast("BoletoBank", _MeasuredApi(code, bank.boletos, traces))
        self.transfers: TransferBank = cast("TransferBank", _MeasuredApi(code, bank.transfers, traces))


class _MeasuredApi:
    def __init__(self, bank: str, api: object, traces: Traces | None) -> None:
        self._bank = bank
        self._traces = traces
        self._api = api
        self._operations: dict[str, Callable[..., Awaitable[Any]]] = {}

    def __getattr__(self, name: str) -> Any:
        if name not in self._operations:
            asked = getattr(self._api, name)
            if name.startswith("_") or not asyncio.iscoroutinefunction(asked):
                return asked
            measured = _measured(self._bank, name, asked)
            traces = self._traces
            self._operations[name] = measured if traces is None else _traced(self._bank, name, measured, traces)
        return self._operations[name]


def _measured(bank: str, operation: str, ask: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def asked(*given: Any, **named: Any) -> Any:
        began, outcome = time.perf_counter(), "unknown"  # also if the caller cancels the call
        try:
            answer = await ask(*given, **named)
            outcome = _OUTCOMES.get(type(answer), "done")
            return answer
        finally:
            took_s = time.perf_counter() - began
            bank_call_seconds.labels(bank, operation, outcome).observe(took_s)
            TALLY.count(bank, operation, outcome, took_s)

    return asked


def _traced(
    bank: str, operation: str, ask: Callable[..., Awaitable[Any]], traces: Traces
) -> Callable[..., Awaitable[Any]]:
    """Trace each call as part of the order or hint that causes it. The bank gets no trace context
    (docs/decisions/0046)."""

    async def asked(*given: Any, **named: Any) -> Any:
        with traces.call(f"bank {operation}", {"quita.bank": bank, "quita.operation": operation}) as span:
            answer = await ask(*given, **named)
            if span is not None:
                span.set_attribute("quita.outcome", _OUTCOMES.get(type(answer), "done"))
            return answer

    return asked
