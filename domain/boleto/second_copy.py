"""When a payer may ask for a second copy (segunda via) of a boleto that can no longer be paid."""

from datetime import date
from typing import Final

TIMES_MAX: Final = 5
"""Of one charge: who did not answer on five days will not answer here."""


def may_be_asked(asked_on: date | None, times: int, *, today: date) -> bool:
    """Once a day. `asked_on` is the day of the latest of `times`, None before the first; both are São Paulo days."""
    return asked_on is None or (asked_on < today and times < TIMES_MAX)
