"""The results of a scenario: named numbers, with their aims."""

import statistics
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class Shown(Protocol):
    """A result that can be printed. Scenarios return lists of structs of this kind, which are also the JSON output."""

    def line(self) -> str: ...


class Finding(Struct, frozen=True, omit_defaults=True):
    """A number: `value` in `unit` (ratio, per second, ms, each ...); `spread` is the minimum and maximum of the
    rounds."""

    name: str
    value: float
    unit: str
    target: float | None = None
    """The value to reach, at least."""
    spread: tuple[float, float] | None = None
    note: str = ""

    def line(self) -> str:
        value_text = (
            f"{self.value:,.3f}"
            if self.value < 10
            else f"{self.value:,.1f}"
            if self.value < 100
            else f"{self.value:,.0f}"
        )
        line = f"  {self.name:<58}{value_text:>10} {self.unit:<8}"
        if self.spread is not None:
            line += f"  rounds {self.spread[0]:.3g} to {self.spread[1]:.3g}"
        if self.target is not None:
            line += f"  aim >= {self.target:g}: {'ok' if self.value >= self.target else 'MISSED'}"
        return f"{line}  {self.note}".rstrip()


def within(value: float, maximum: float) -> str:
    """A note: whether a value is at most what is aimed at."""
    return f"aim <= {maximum:g}: {'ok' if value <= maximum else 'MISSED'}"


def ratio(name: str, pairs: Sequence[tuple[float, float]], *, target: float | None = None, note: str = "") -> Finding:
    """The median over the rounds of (ours / other)."""
    ratios = sorted(ours / other for ours, other in pairs)
    return Finding(name, statistics.median(ratios), "x", target=target, spread=(ratios[0], ratios[-1]), note=note)


def rate(name: str, values: Sequence[float], *, target: float | None = None, note: str = "") -> Finding:
    """The median rate per second over the rounds."""
    return Finding(name, statistics.median(values), "/s", target=target, spread=(min(values), max(values)), note=note)


def cpu(name: str, used: Sequence[tuple[dict[str, float], dict[str, float]]], count: int) -> Finding:
    """Microseconds of CPU per item of `count`, summed over all groups of processes but the client. `used` holds the CPU
    seconds of each group before and after each round."""
    groups = list(used[0][0])
    each_us = {group: sum(after[group] - before[group] for before, after in used) / count * 1e6 for group in groups}
    note = ", ".join(f"{group} {us:.0f}" for group, us in each_us.items())
    return Finding(name, sum(us for group, us in each_us.items() if group != "client"), "us", note=note)
