"""Fine, interest and discounts of a schedule's boletos, said once for charges whose due dates come one after another.

A discount's last day is so many days before each charge's due date; the rest counts from it anyway.
"""

from datetime import date, timedelta
from typing import Final

from msgspec import Struct

from domain.boleto.terms import Discount, Fine, Interest, PaymentTerms, wrong_terms

_ANY_DUE: Final = date(2027, 12, 31)
"""What is wrong with terms does not depend on the due date, once discounts are counted from it."""


class RelativeDiscount(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Desconto for paying `days_before` the due date or earlier. One of the two others is above 0."""

    days_before: int
    percent_bps: int = 0
    amount_cents: int = 0


class ScheduleTerms(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """As PaymentTerms, whose discounts are in the order of their days: the one with the most days before goes first."""

    fine: Fine | None = None
    interest: Interest | None = None
    discounts: tuple[RelativeDiscount, ...] = ()
    payable_days: int = 0


def terms_of_charge(terms: ScheduleTerms | None, due: date, *, issued_on: date) -> PaymentTerms | None:
    """Of the charge that is due then. A discount whose last day has passed when the charge is issued is nobody's any
    more, and left out."""
    if terms is None:
        return None
    agreed = _on(terms, due)
    given = tuple(each for each in agreed.discounts if each.until >= issued_on)
    left = PaymentTerms(fine=agreed.fine, interest=agreed.interest, discounts=given, payable_days=agreed.payable_days)
    return None if left == PaymentTerms() else left


def wrong_schedule_terms(
    terms: ScheduleTerms, *, amount_cents: int, issue_days_before: int, company: bool
) -> dict[str, str]:
    """What is wrong with them for any charge of the schedule, by the field's path in a body."""
    wrong = {}
    for path, fault in wrong_terms(
        _on(terms, _ANY_DUE), amount_cents=amount_cents, due=_ANY_DUE, company=company
    ).items():
        if path.endswith(".until"):
            wrong[path.removesuffix("until") + "days_before_due"] = "must be fewer than of the discount before it"
        else:
            wrong[path] = fault
    for at, each in enumerate(terms.discounts):
        if each.days_before > issue_days_before:
            wrong[f"discounts.{at}.days_before_due"] = (
                f"must be at most {issue_days_before}, issue_days_before: else it has ended when a charge is issued"
            )
    return wrong


def _on(terms: ScheduleTerms, due: date) -> PaymentTerms:
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
