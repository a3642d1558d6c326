"""Fine, interest and discounts of a schedule's boletos, agreed once for all its charges.

A discount's last day is given as a number of days before each charge's due date; the other terms count from the due
date anyway.
"""

from datetime import date, timedelta
from typing import Final

from msgspec import Struct

from domain.boleto.terms import Discount, Fine, Interest, PaymentTerms, wrong_terms

_ANY_DUE_DATE: Final = date(2027, 12, 31)
"""Any due date will do to check the terms, because the discounts are counted from it."""


class RelativeDiscount(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Desconto for paying `days_before` days before the due date or earlier. One of the two other fields is above 0."""

    days_before: int
    percent_bps: int = 0
    amount_cents: int = 0


class ScheduleTerms(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Like PaymentTerms. Discounts are in the order of their last days: the one with the most days before is first."""

    fine: Fine | None = None
    interest: Interest | None = None
    discounts: tuple[RelativeDiscount, ...] = ()
    payable_days: int = 0


def terms_of_charge(terms: ScheduleTerms | None, due: date, *, issued_on: date) -> PaymentTerms | None:
    """Returns the terms of the charge with this due date. A discount whose last day has passed when the charge is
    issued is left out."""
    if terms is None:
        return None
    agreed = _terms_for_due_date(terms, due)
    discounts = tuple(each for each in agreed.discounts if each.until >= issued_on)
    remaining = PaymentTerms(
        fine=agreed.fine, interest=agreed.interest, discounts=discounts, payable_days=agreed.payable_days
    )
    return None if remaining == PaymentTerms() else remaining


def wrong_schedule_terms(
    terms: ScheduleTerms, *, amount_cents: int, issue_days_before: int, company: bool
) -> dict[str, str]:
    """Returns the faults of the terms for any charge of the schedule, by the field's path in a body."""
    wrong = {}
    for path, fault in wrong_terms(
        _terms_for_due_date(terms, _ANY_DUE_DATE), amount_cents=amount_cents, due=_ANY_DUE_DATE, company=company
    ).items():
        if path.endswith(".until"):
            wrong[path.removesuffix("until") + "days_before_due"] = "must be fewer than of the discount before it"
        else:
            wrong[path] = fault
    for index, each in enumerate(terms.discounts):
        if each.days_before > issue_days_before:
            wrong[f"discounts.{index}.days_before_due"] = (
                f"must be at most {issue_days_before}, issue_days_before: else it has ended when a charge is issued"
            )
    return wrong


def _terms_for_due_date(terms: ScheduleTerms, due: date) -> PaymentTerms:
    return PaymentTerms(
        fine=terms.fine,
        interest=terms.interest,
        discounts=tuple(
            Discount(
                until=due - timedelta(days=each.days_before),
                percent_bps=each.percent_bps,
                amount_cents=each.amount_cents,
            )
            for each in terms.discounts
        ),
        payable_days=terms.payable_days,
    )
