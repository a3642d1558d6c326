"""A small plot of bars, as numbers for an SVG: drawn here, because styles and scripts inline are forbidden to every
page. The template's part is `plot` in web/templates/painel/parts.html."""

from collections.abc import Sequence

from msgspec import Struct

from domain.brazilian import brl, day
from readmodels.dashboard.overview import Day

_STEP = 20
_BAR = 14
_HEIGHT = 100
_LEAST = 2


class Drawn(Struct, frozen=True):
    """One bar: its value, and what is said of it. `strong`: it stands out among the others."""

    value: int
    title: str
    strong: bool = False


class Bar(Struct, frozen=True):
    x: int
    y: int
    height: int
    width: int
    title: str
    today: bool


class Plot(Struct, frozen=True):
    """In the SVG's own units, `width` by `height`; bars stand on `ground`, those of less than nothing hang from it.
    `peak` is the highest value."""

    width: int
    height: int
    ground: int
    bars: list[Bar]
    peak: int
    label: str


def bars(drawn: Sequence[Drawn], label: str, *, top: int = 0) -> Plot:
    """`top`: what the height stands for where the highest bar does not, as 100 % of a ratio."""
    peak = max((each.value for each in drawn), default=0)
    high, low = max(top, peak, 0), min((each.value for each in drawn), default=0)
    low = min(low, 0)
    ground = round(high * _HEIGHT / (high - low)) if high > low else _HEIGHT

    def bar(number: int, each: Drawn) -> Bar:
        # Anything at all differs visibly from nothing.
        height = max(round(abs(each.value) * _HEIGHT / (high - low)), _LEAST) if each.value else 0
        y = ground - height if each.value > 0 else ground
        return Bar(number * _STEP + (_STEP - _BAR) // 2, y, height, _BAR, each.title, each.strong)

    return Plot(
        len(drawn) * _STEP, _HEIGHT, ground, [bar(number, each) for number, each in enumerate(drawn)], peak, label
    )


def plot(days: Sequence[Day]) -> Plot:
    """Of what came in each day; a day that only gave back has no bar."""
    peak_cents = max((each.received_cents for each in days), default=0)
    total = sum(each.received_cents for each in days)
    label = f"Recebido por dia nos últimos {len(days)} dias: {brl(total)} ao todo, {brl(peak_cents)} no melhor dia."
    drawn = [
        Drawn(max(each.received_cents, 0), f"{day(each.on)}: {brl(each.received_cents)}", number == len(days) - 1)
        for number, each in enumerate(days)
    ]
    return bars(drawn, label)
