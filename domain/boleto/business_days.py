"""Bank business days, and the last day to pay a boleto whose due date is not one of them.

Lei 7.089/1983: a debt that falls due on a Saturday, Sunday or holiday is paid on the next business day without charges.
The calendar used is the financial one (BVMF), which is ANBIMA's for 2020 to 2078; the civil one lacks Carnival and
Corpus Christi. Holidays of states and cities are not in it.

31 December is a business day: banks do not open to the public, but the calendar counts it, and so does the Banco
Central (API Pix 2.9.0: due 2020-12-25, three days of grace, last accepted on Thursday 2020-12-31). A bank that accepts
such a boleto on the first day of January reports the payment after our expiry, and the charge still becomes paid.
"""

from datetime import date, timedelta
from functools import lru_cache
from typing import Final

_SATURDAY: Final = 5  # of date.weekday()
# In fact at most four (Carnival, and Good Friday next to 21 April); the rest leaves room for new holidays.
_DAYS_CLOSED_IN_A_ROW_MAX: Final = 9


def is_business_day(day: date) -> bool:
    return day.weekday() < _SATURDAY and day not in _bank_holidays(day.year)


def effective_due_date(due: date) -> date:
    """Returns the last day to pay: the due date itself if it is a business day, else the next business day."""
    for days in range(_DAYS_CLOSED_IN_A_ROW_MAX + 1):
        day = due + timedelta(days=days)
        if is_business_day(day):
            return day
    raise AssertionError(f"banks are closed for more than {_DAYS_CLOSED_IN_A_ROW_MAX} days after {due}")


@lru_cache(maxsize=64)  # more than the years a barcode can carry
def _bank_holidays(year: int) -> frozenset[date]:
    # Imported here because the package loads every country, which takes half a second and 44 MB that a program without
    # boletos need not spend. A program that issues boletos looks up any day at start, so that no request waits.
    import holidays

    return frozenset(holidays.financial_holidays("BVMF", years=year, expand=False))
