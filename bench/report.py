"""What a scenario found: named numbers, each with what was aimed at where something was."""

import statistics
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class Shown(Protocol):
    """What a scenario answers a list of: structs, which are also the JSON."""

    def line(self) -> str: ...


class Finding(Struct, frozen=True, omit_defaults=True):
    """`value` in `unit` (ratio, per second, ms, each ...); `spread` is the least and the most of the rounds."""

    name: str
    value: float
    unit: str
    target: float | None = None
    """At least this."""
    spread: tuple[float, float] | None = None
    note: str = ""

    def line(self) -> str:
        shown = (
            f"{self.value:,.3f}"
            if self.value < 10
            else f"{self.value:,.1f}"
            if self.value < 100
            else f"{self.value:,.0f}"
        )
        line = f"  {self.name:<58}{shown:>10} {self.unit:<8}"
        if self.spread is not None:
            line += f"  rounds {self.spread[0]:.3g} to {self.spread[1]:.3g}"
        if self.target is not None:
            line += f"  aim >= {self.target:g}: {'ok' if self.value >= self.target else 'MISSED'}"
        return f"{line}  {self.note}".rstrip()


def ratio(name: str, pairs: Sequence[tuple[float, float]], *, target: float | None = None, note: str = "") -> Finding:
    """The median over the rounds of (ours / what it is measured against)."""
    ratios = sorted(ours / other for ours, other in pairs)
    return Finding(name, statistics.median(ratios), "x", target=target, spread=(ratios[0], ratios[-1]), note=note)


def rate(name: str, values: Sequence[float], *, target: float | None = None, note: str = "") -> Finding:
    """The median rate per second over the rounds."""
    return Finding(name, statistics.median(values), "/s", target=target, spread=(min(values), max(values)), note=note)


def cpu(name: str, used: Sequence[tuple[dict[str, float], dict[str, float]]], count: int) -> Finding:
    """Microseconds of CPU for each of `count`, of all groups of processes but the client; `used` holds what each group
    had used before a round and after it."""
    groups = list(used[0][0])
    each_us = {group: sum(after[group] - before[group] for before, after in used) / count * 1e6 for group in groups}
    note = ", ".join(f"{group} {us:.0f}" for group, us in each_us.items())
    return Finding(name, sum(us for group, us in each_us.items() if group != "client"), "us", note=note)
