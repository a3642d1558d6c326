"""A small plot of what came in each day, as numbers for an SVG: drawn here, because styles and scripts inline are
forbidden to every page."""

from collections.abc import Sequence

from msgspec import Struct

from domain.brazilian import brl, day
from readmodels.dashboard.overview import Day

_STEP = 20
_BAR = 14
_HEIGHT = 100
_LEAST = 2


class Bar(Struct, frozen=True):
    x: int
    y: int
    height: int
    width: int
    title: str
    today: bool


class Plot(Struct, frozen=True):
    """In the SVG's own units, `width` by `height`. `peak_cents` is the highest bar."""

    width: int
    height: int
    bars: list[Bar]
    peak_cents: int
    label: str


def plot(days: Sequence[Day]) -> Plot:
    peak_cents = max((each.received_cents for each in days), default=0)
    bars = []
    for number, each in enumerate(days):
        # A day with any payment differs visibly from a day without.
        height = max(round(each.received_cents * _HEIGHT / peak_cents), _LEAST) if each.received_cents > 0 else 0
        bars.append(
            Bar(
                x=number * _STEP + (_STEP - _BAR) // 2,
                y=_HEIGHT - height,
                height=height,
                width=_BAR,
                title=f"{day(each.on)}: {brl(each.received_cents)}",
                today=number == len(days) - 1,
            )
        )
    total = sum(each.received_cents for each in days)
    label = f"Recebido por dia nos últimos {len(days)} dias: {brl(total)} ao todo, {brl(peak_cents)} no melhor dia."
    return Plot(len(days) * _STEP, _HEIGHT, bars, peak_cents, label)
