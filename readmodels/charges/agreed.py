"""Fine, interest and discounts as the API returns them: of a charge, with the amount due today, and of a schedule."""

from datetime import datetime
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from domain.boleto.terms import Fine, Interest, PaymentTerms, amount_due, last_day
from domain.charge import Status
from domain.instants import day_of, parse_day
from domain.money import reais
from domain.schedules.terms import ScheduleTerms


class FineAgreed(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The fine (multa), as you gave it: in percent of the amount, or in decimal reais."""

    percent: str | UnsetType = UNSET
    amount: str | UnsetType = UNSET


class InterestAgreed(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The interest (juros de mora), as you gave it: in percent per month, or in decimal reais per day."""

    percent_per_month: str | UnsetType = UNSET
    amount_per_day: str | UnsetType = UNSET


class DiscountAgreed(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A discount, as you gave it; it applies to payments on `until` or before."""

    until: str
    percent: str | UnsetType = UNSET
    amount: str | UnsetType = UNSET


class ScheduledDiscountAgreed(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A discount, as you gave it; it applies until `days_before_due` days before each charge's due date."""

    days_before_due: int
    percent: str | UnsetType = UNSET
    amount: str | UnsetType = UNSET


class AmountDueToday(Struct, frozen=True, gc=False, kw_only=True):
    """What the boleto costs if it is paid on `date`: its amount, with fine and interest, less the discount."""

    date: str
    amount: str
    fine: str
    interest: str
    discount: str


def charge_terms_fields(
    terms: PaymentTerms | None, *, amount_cents: int, due_date: str | None, status: str, now: datetime
) -> dict[str, Any]:
    """The fields of a charge's answer that describe its terms; empty when the charge has no terms."""
    if terms is None or due_date is None:
        return {}
    due, today = parse_day(due_date), day_of(now)
    fields: dict[str, Any] = {
        "payable_until": last_day(terms, due).isoformat(),
        **_fine_and_interest(terms.fine, terms.interest),
    }
    if terms.discounts:
        fields["discounts"] = [
            DiscountAgreed(
                until=each.until.isoformat(),
                percent=_decimal_or_unset(each.percent_bps),
                amount=_decimal_or_unset(each.amount_cents),
            )
            for each in terms.discounts
        ]
    if status == Status.PENDING:
        owed = amount_due(terms, amount_cents=amount_cents, due=due, on=today)
        fields["amount_due"] = AmountDueToday(
            date=today.isoformat(),
            amount=reais(owed.total_cents),
            fine=reais(owed.fine_cents),
            interest=reais(owed.interest_cents),
            discount=reais(owed.discount_cents),
        )
    return fields


def schedule_terms_fields(terms: ScheduleTerms | None) -> dict[str, Any]:
    """The fields of a schedule's answer that describe the terms its charges are issued with; empty without terms."""
    if terms is None:
        return {}
    fields = _fine_and_interest(terms.fine, terms.interest)
    if terms.discounts:
        fields["discounts"] = [
            ScheduledDiscountAgreed(
                days_before_due=each.days_before,
                percent=_decimal_or_unset(each.percent_bps),
                amount=_decimal_or_unset(each.amount_cents),
            )
            for each in terms.discounts
        ]
    return fields | {"payable_days_after_due": terms.payable_days}


def _fine_and_interest(fine: Fine | None, interest: Interest | None) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if fine is not None:
        fields["fine"] = FineAgreed(
            percent=_decimal_or_unset(fine.percent_bps), amount=_decimal_or_unset(fine.amount_cents)
        )
    if interest is not None:
        fields["interest"] = InterestAgreed(
            percent_per_month=_decimal_or_unset(interest.month_bps),
            amount_per_day=_decimal_or_unset(interest.day_cents),
        )
    return fields


def _decimal_or_unset(hundredths: int) -> str | UnsetType:
    """Cents as reais, or basis points as percent, with two decimals; UNSET for 0."""
    return reais(hundredths) if hundredths else UNSET
