"""The limits on payers' requests for a second copy (segunda via) of a boleto that can no longer be paid."""

from datetime import date
from typing import Final

TIMES_MAX: Final = 5
"""Requests for one charge: a merchant who did not answer on five days will not answer here."""


def may_be_asked(asked_on: date | None, times: int, *, today: date) -> bool:
    """Whether a payer may request a second copy today, which is once a day. `asked_on` is the day of the latest of
    `times` requests, None before the first; both days are São Paulo days."""
    return asked_on is None or (asked_on < today and times < TIMES_MAX)
