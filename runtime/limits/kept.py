"""How long payers' data is kept; each period is a variable of the environment."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from runtime.limits.variables import whole_numbers

_DAYS_MAX: Final = 20_000
"""Charges are found by the instant in their ids, and no id is from before 1970."""


class Kept(Struct, frozen=True, kw_only=True):
    """Counted from when a charge could be paid for the last time; 0 is for ever. Field `x_y` is the variable X_Y."""

    payers_kept_months: int = 0
    """For production. For ever unless set: merchants decide how long they must be able to show whom they charged."""
    sandbox_kept_days: int = 90
    """For test charges."""


def read_kept(env: Mapping[str, str]) -> Kept:
    """ValueError names the variable that is no number from 0 to its bound."""

    def bounds(field: str) -> tuple[int, int]:
        return 0, _DAYS_MAX if field.endswith("_days") else _DAYS_MAX // 31

    return Kept(**whole_numbers(env, Kept.__struct_fields__, bounds))
