"""A small bar plot, as numbers for an SVG. The numbers are computed here because the Content-Security-Policy forbids
inline styles and scripts on every page. The template's part is `plot` in web/templates/painel/parts.html."""

from collections.abc import Sequence

from msgspec import Struct

from domain.brazilian import brl, day
from readmodels.dashboard.overview import Day

_STEP = 20
_BAR_WIDTH = 14
_HEIGHT = 100
_BAR_HEIGHT_MIN = 2


class BarValue(Struct, frozen=True):
    """A bar to draw: its value, and the title shown when the pointer is on it. `strong`: the bar is highlighted."""

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
    """A plot of `width` by `height`, in the SVG's own units. Bars stand on the line `ground`; bars of negative values
    hang from it. `peak` is the highest value."""

    width: int
    height: int
    ground: int
    bars: list[Bar]
    peak: int
    label: str


def bars(values: Sequence[BarValue], label: str, *, top: int = 0) -> Plot:
    """Returns the plot of `values`. `top`: the least value that the full height stands for, as 100 % for a ratio."""
    peak = max((each.value for each in values), default=0)
    high, low = max(top, peak, 0), min([0, *(each.value for each in values)])
    ground = round(high * _HEIGHT / (high - low)) if high > low else _HEIGHT

    def bar(number: int, each: BarValue) -> Bar:
        # Every value other than zero has a visible bar, however small the value is.
        height = max(round(abs(each.value) * _HEIGHT / (high - low)), _BAR_HEIGHT_MIN) if each.value else 0
        y = ground - height if each.value > 0 else ground
        return Bar(number * _STEP + (_STEP - _BAR_WIDTH) // 2, y, height, _BAR_WIDTH, each.title, each.strong)

    return Plot(
        len(values) * _STEP, _HEIGHT, ground, [bar(number, each) for number, each in enumerate(values)], peak, label
    )


def plot(days: Sequence[Day]) -> Plot:
    """Returns the plot of the money received on each day; a day with a negative total has no bar."""
    peak_cents = max((each.received_cents for each in days), default=0)
    total_cents = sum(each.received_cents for each in days)
    label = (
        f"Recebido por dia nos últimos {len(days)} dias: {brl(total_cents)} ao todo, {brl(peak_cents)} no melhor dia."
    )
    values = [
        BarValue(max(each.received_cents, 0), f"{day(each.on)}: {brl(each.received_cents)}", number == len(days) - 1)
        for number, each in enumerate(days)
    ]
    return bars(values, label)
