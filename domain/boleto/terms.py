"""The amount due of a boleto on a given day: fine and interest when it is overdue, a discount for paying early.

All terms are counted from the effective due date: a boleto that falls due on a weekend or a holiday is paid on the next
business day without charges (Lei 7.089/1983, and API Pix for cobv: "validade, juros, multa e desconto" follow the moved
date). The last day of a discount moves in the same way. Interest is simple, by calendar days, on the boleto's own
amount; a month has 30 days (Banco do Brasil, jurosMora tipo 2). Fine, interest and discount are each rounded once, half
a cent up.
"""

from datetime import date, datetime, timedelta
from typing import Final

from msgspec import Struct

from domain.boleto.business_days import effective_due_date
from domain.instants import day_ends
from domain.money import WHOLE_BPS, percent_of, reais, rounded

DISCOUNTS_MAX: Final = 3
PAYABLE_DAYS_DEFAULT: Final = 30
"""How long an overdue boleto with a fine or interest can be paid by default, as API Pix has it for a cobv."""
PAYABLE_DAYS_MIN: Final = 2
"""Banco do Brasil requires that a fine begins strictly before the last day on which the bank accepts the boleto."""
PAYABLE_DAYS_MAX: Final = 365
PERCENT_BPS_MAX: Final = 9_999
"""The most of a fine, of interest and of a discount: less than the whole amount."""
_MONTH_DAYS: Final = 30


class Fine(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Multa, added once. One of the two fields is above 0; percents are in hundredths of a percent."""

    percent_bps: int = 0
    amount_cents: int = 0


class Interest(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Juros de mora for each day late. One of the two fields is above 0."""

    month_bps: int = 0
    day_cents: int = 0


class Discount(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Desconto for paying on `until` or before. One of the two other fields is above 0."""

    until: date
    percent_bps: int = 0
    amount_cents: int = 0


class PaymentTerms(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """The terms agreed beside amount and due date. Discounts are in the order of their last days, and all percents or
    all amounts: Banco do Brasil applies the kind of the first discount to all of them."""

    fine: Fine | None = None
    interest: Interest | None = None
    discounts: tuple[Discount, ...] = ()
    payable_days: int = 0
    """Calendar days after the effective due date in which the boleto can still be paid."""


class AmountDue(Struct, frozen=True, gc=False, kw_only=True):
    """The amount due on a day, in cents: total = amount + fine + interest - discount."""

    total_cents: int
    fine_cents: int = 0
    interest_cents: int = 0
    discount_cents: int = 0
    discount_until: date | None = None
    """The last day of the discount that applies."""


class TermsLimit(Struct, frozen=True):
    """The highest fine and monthly interest that may be agreed, in hundredths of a percent."""

    fine_bps: int
    month_bps: int


PERSON_LIMIT: Final = TermsLimit(fine_bps=200, month_bps=100)
"""For a consumer: 2 % (Codigo de Defesa do Consumidor, art. 52 par. 1), and 1 % a month."""
COMPANY_LIMIT: Final = TermsLimit(fine_bps=1000, month_bps=200)
"""Between companies: 10 % and twice the legal 1 % a month (Decreto 22.626/1933, arts. 9 and 1)."""


def last_day(terms: PaymentTerms | None, due: date) -> date:
    """Returns the last day to pay: a business day, as in the Banco Central's examples for cobv."""
    ends = effective_due_date(due)
    return ends if terms is None else effective_due_date(ends + timedelta(days=terms.payable_days))


def expires_at(terms: PaymentTerms | None, due: date) -> datetime:
    """Returns the instant (UTC) at which an unpaid boleto expires: 00:00 in São Paulo on the day after the last day to
    pay."""
    return day_ends(last_day(terms, due))


def days_accepted_late(terms: PaymentTerms | None, due: date) -> int:
    """Returns how long banks accept the boleto late, in days counted from the due date itself; 0 when they do not."""
    return 0 if terms is None or not terms.payable_days else (last_day(terms, due) - due).days


def cuts_discount(terms: PaymentTerms | None, due: date) -> bool:
    """Whether a new due date would fall before the last day of a discount, because discounts keep their days."""
    return terms is not None and any(due < each.until for each in terms.discounts)


def fine_begins(due: date) -> date:
    """Returns the first day on which the boleto is late."""
    return effective_due_date(due) + timedelta(days=1)


def amount_due(terms: PaymentTerms | None, *, amount_cents: int, due: date, on: date) -> AmountDue:
    """Returns the amount due of a boleto of `amount_cents` on the São Paulo day `on`."""
    if terms is None:
        return AmountDue(total_cents=amount_cents)
    days_late = (on - effective_due_date(due)).days
    if days_late <= 0:
        discount = next((each for each in terms.discounts if on <= effective_due_date(each.until)), None)
        if discount is None:
            return AmountDue(total_cents=amount_cents)
        discount_cents = discount_of(discount, amount_cents)
        return AmountDue(
            total_cents=amount_cents - discount_cents, discount_cents=discount_cents, discount_until=discount.until
        )
    fine_cents = fine_of(terms.fine, amount_cents)
    interest_cents = interest_of(terms.interest, amount_cents, days_late)
    return AmountDue(
        total_cents=amount_cents + fine_cents + interest_cents, fine_cents=fine_cents, interest_cents=interest_cents
    )


def fine_of(fine: Fine | None, amount_cents: int) -> int:
    return 0 if fine is None else fine.amount_cents or percent_of(amount_cents, fine.percent_bps)


def interest_of(interest: Interest | None, amount_cents: int, days: int) -> int:
    if interest is None:
        return 0
    return interest.day_cents * days or rounded(amount_cents * interest.month_bps * days, WHOLE_BPS * _MONTH_DAYS)


def discount_of(discount: Discount, amount_cents: int) -> int:
    return discount.amount_cents or percent_of(amount_cents, discount.percent_bps)


def wrong_terms(terms: PaymentTerms, *, amount_cents: int, due: date, company: bool) -> dict[str, str]:
    """Returns the faults of the terms by the field's path in a body; empty when they may be registered."""
    limit = COMPANY_LIMIT if company else PERSON_LIMIT
    payer = "a company" if company else "a person"
    wrong = {}
    fine, interest = terms.fine, terms.interest
    if fine is not None and fine.percent_bps > limit.fine_bps:
        wrong["fine.percent"] = f"must be at most {reais(limit.fine_bps)} when the payer is {payer}"
    if fine is not None and fine.amount_cents > (most := percent_of(amount_cents, limit.fine_bps)):
        wrong["fine.amount"] = f"must be at most {reais(most)}, {reais(limit.fine_bps)} % of the amount"
    if interest is not None and interest.month_bps > limit.month_bps:
        wrong["interest.percent_per_month"] = f"must be at most {reais(limit.month_bps)} when the payer is {payer}"
    if interest is not None and interest.day_cents > (
        most := amount_cents * limit.month_bps // (WHOLE_BPS * _MONTH_DAYS)
    ):
        wrong["interest.amount_per_day"] = (
            f"must be at most {reais(most)}, a thirtieth of {reais(limit.month_bps)} % of the amount"
        )
    return wrong | _discount_faults(terms.discounts, amount_cents=amount_cents, due=due)


def _discount_faults(discounts: tuple[Discount, ...], *, amount_cents: int, due: date) -> dict[str, str]:
    wrong = {}
    for index, each in enumerate(discounts):
        name = f"discounts.{index}"
        if each.until > due:
            wrong[f"{name}.until"] = "must not be after the due date"
        elif index and each.until <= discounts[index - 1].until:
            wrong[f"{name}.until"] = "must be after that of the discount before it"
        if bool(each.percent_bps) != bool(discounts[0].percent_bps):
            wrong[name] = "must be of one kind with the first: all percent or all amount"
        elif discount_of(each, amount_cents) >= amount_cents:
            wrong[f"{name}.{'percent' if each.percent_bps else 'amount'}"] = "must leave something to pay"
    return wrong
