"""Fine, interest and discounts in request bodies: of boletos, of a dual charge's PIX leg, and of schedules."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated, Any, Final, Protocol

from msgspec import Meta, Struct

from api.body.fields import DAY, checked, matching
from domain.boleto.terms import (
    COMPANY_LIMIT,
    DISCOUNTS_MAX,
    PAYABLE_DAYS_DEFAULT,
    PAYABLE_DAYS_MAX,
    PAYABLE_DAYS_MIN,
    PERCENT_BPS_MAX,
    PERSON_LIMIT,
    Discount,
    Fine,
    Interest,
    PaymentTerms,
    wrong_terms,
)
from domain.errors import Code, Refused
from domain.instants import parse_day
from domain.money import BOLETO_CENTS_MAX, parse_amount, reais
from domain.schedules.recurrence import ISSUE_DAYS_BEFORE_MAX
from domain.schedules.terms import RelativeDiscount, ScheduleTerms, wrong_schedule_terms

NAMES: Final = ("fine", "interest", "discounts", "payable_days_after_due")
_POSITIVE: Final = r"(?!0+(\.0{1,2})?$)"
_ONE_OF_TWO: Final = "give exactly one of the two"

Percent = Annotated[
    str,
    matching(
        rf"{_POSITIVE}[0-9]{{1,2}}(\.[0-9]{{1,2}})?", 'must be a string such as "2.00", above 0, below 100',
        examples=["2.00"],
    ),
]  # fmt: skip
Part = Annotated[
    str,
    matching(
        rf"{_POSITIVE}0{{0,2}}[0-9]{{1,8}}(\.[0-9]{{1,2}})?", 'must be a string such as "3.00", greater than 0',
        examples=["3.00"],
    ),
]  # fmt: skip
Day = Annotated[str, checked(parse_day, "must be an existing day YYYY-MM-DD", **DAY)]


class FineTerms(Struct, frozen=True, omit_defaults=True):
    """Fine (multa), added once when the boleto is paid late. Give exactly one of percent and amount."""

    percent: Annotated[Percent | None, Meta(description="Percent of the charge's amount.")] = None
    amount: Annotated[Part | None, Meta(description="Amount in reais, as a decimal string such as 10.50.")] = None


class InterestTerms(Struct, frozen=True, omit_defaults=True):
    """Interest (juros de mora) for each day late. Give exactly one of `percent_per_month` and `amount_per_day`."""

    percent_per_month: Annotated[
        Percent | None, Meta(description="Percent of the charge's amount for each month of 30 days; simple interest.")
    ] = None
    amount_per_day: Annotated[Part | None, Meta(description="Amount in reais for each calendar day late.")] = None


class DiscountTerms(Struct, frozen=True, omit_defaults=True):
    """Discount for paying early. Give exactly one of percent and amount, the same one in all discounts."""

    until: Annotated[Day, Meta(description="Last day on which the discount applies; the due date at the latest.")]
    percent: Annotated[Percent | None, Meta(description="Percent of the charge's amount.")] = None
    amount: Annotated[Part | None, Meta(description="Amount in reais, as a decimal string such as 10.50.")] = None


class ScheduledDiscountTerms(Struct, frozen=True, omit_defaults=True):
    """Discount for paying early, on each charge. Give exactly one of percent and amount, the same one in all
    discounts."""

    days_before_due: Annotated[
        int,
        Meta(
            ge=0,
            le=ISSUE_DAYS_BEFORE_MAX,
            description="Days before the charge's due date on which the discount applies for the last time; at most "
            "`issue_days_before`.",
        ),
    ]
    percent: Annotated[Percent | None, Meta(description="Percent of the charge's amount.")] = None
    amount: Annotated[Part | None, Meta(description="Amount in reais, as a decimal string such as 10.50.")] = None


FineField = Annotated[
    FineTerms | None,
    Meta(
        description="Fine (multa), added once when the boleto is paid late: at most "
        f"{reais(PERSON_LIMIT.fine_bps)} % for a payer who is a person, "
        f"{reais(COMPANY_LIMIT.fine_bps)} % for a company."
    ),
]
InterestField = Annotated[
    InterestTerms | None,
    Meta(
        description="Interest (juros de mora), added for each day late: at most "
        f"{reais(PERSON_LIMIT.month_bps)} % a month for a payer who is a person, "
        f"{reais(COMPANY_LIMIT.month_bps)} % for a company."
    ),
]
DiscountsField = Annotated[
    Annotated[list[DiscountTerms], Meta(max_length=DISCOUNTS_MAX)] | None,
    Meta(
        description=f"Discounts for paying early, at most {DISCOUNTS_MAX}, in the order of their last days. The first "
        "whose last day has not passed applies.",
    ),
]
ScheduledDiscountsField = Annotated[
    Annotated[list[ScheduledDiscountTerms], Meta(max_length=DISCOUNTS_MAX)] | None,
    Meta(
        description=f"Discounts for paying early, at most {DISCOUNTS_MAX}, the one with the most days first. A "
        "discount that has already ended when a charge is issued late is left out of that charge.",
    ),
]
PayableDays = Annotated[
    Annotated[int, Meta(ge=PAYABLE_DAYS_MIN, le=PAYABLE_DAYS_MAX)] | None,
    Meta(
        description="Number of calendar days after its effective due date on which the boleto can still be paid; "
        f"by default {PAYABLE_DAYS_DEFAULT} with a fine or interest, and none without."
    ),
]


def refuse_terms(body: Mapping[str, Any]) -> None:
    """Refused(VALIDATION_ERROR) when the body of a PIX schedule names a fine, interest or discounts, which PIX charges
    of a schedule do not have."""
    named = [name for name in NAMES if body.get(name) is not None]
    if named:
        raise Refused(
            Code.VALIDATION_ERROR,
            message="Fine, interest and discounts are of boletos: PIX charges of a schedule have one amount.",
            fields=dict.fromkeys(named, "is of payment_method boleto and boleto_hibrido"),
        )


class WithTerms(Protocol):
    """A validated body with the fields that all payment terms share."""

    @property
    def fine(self) -> FineTerms | None: ...
    @property
    def interest(self) -> InterestTerms | None: ...
    @property
    def payable_days_after_due(self) -> int | None: ...


class OneWithTerms(WithTerms, Protocol):
    @property
    def discounts(self) -> list[DiscountTerms] | None: ...


class ScheduleWithTerms(WithTerms, Protocol):
    @property
    def discounts(self) -> list[ScheduledDiscountTerms] | None: ...


def payment_terms(body: OneWithTerms, *, amount_cents: int, due: date, company: bool) -> PaymentTerms | None:
    """The payment terms of a validated body; None when it names none. Refused(VALIDATION_ERROR) names the terms that a
    bank would not register or the law does not allow."""
    discounts = body.discounts or []
    if not discounts and (body.fine, body.interest, body.payable_days_after_due) == (None, None, None):
        return None
    _check_one_of_two(body, discounts)
    terms = PaymentTerms(
        fine=_fine(body.fine),
        interest=_interest(body.interest),
        discounts=tuple(
            Discount(until=parse_day(each.until), percent_bps=_bps(each.percent), amount_cents=_cents(each.amount))
            for each in discounts
        ),
        payable_days=_payable_days(body),
    )
    if faults := wrong_terms(terms, amount_cents=amount_cents, due=due, company=company):
        raise Refused(Code.VALIDATION_ERROR, fields=faults)
    return terms


def schedule_terms(
    body: ScheduleWithTerms, *, amount_cents: int, issue_days_before: int, company: bool
) -> ScheduleTerms | None:
    """As payment_terms, for every charge of a schedule: terms that pass here cannot make a later charge refused."""
    discounts = body.discounts or []
    if not discounts and (body.fine, body.interest, body.payable_days_after_due) == (None, None, None):
        return None
    _check_one_of_two(body, discounts)
    terms = ScheduleTerms(
        fine=_fine(body.fine),
        interest=_interest(body.interest),
        discounts=tuple(
            RelativeDiscount(
                days_before=each.days_before_due, percent_bps=_bps(each.percent), amount_cents=_cents(each.amount)
            )
            for each in discounts
        ),
        payable_days=_payable_days(body),
    )
    faults = wrong_schedule_terms(
        terms, amount_cents=amount_cents, issue_days_before=issue_days_before, company=company
    )
    if faults:
        raise Refused(Code.VALIDATION_ERROR, fields=faults)
    return terms


def _fine(fine: FineTerms | None) -> Fine | None:
    return None if fine is None else Fine(percent_bps=_bps(fine.percent), amount_cents=_cents(fine.amount))


def _interest(interest: InterestTerms | None) -> Interest | None:
    if interest is None:
        return None
    return Interest(month_bps=_bps(interest.percent_per_month), day_cents=_cents(interest.amount_per_day))


def _payable_days(body: WithTerms) -> int:
    default = 0 if body.fine is None and body.interest is None else PAYABLE_DAYS_DEFAULT
    return body.payable_days_after_due or default


def _check_one_of_two(body: WithTerms, discounts: Sequence[DiscountTerms | ScheduledDiscountTerms]) -> None:
    """Refused(VALIDATION_ERROR) when a fine, interest or discount is given both in percent and in reais, or in
    neither."""
    pairs: list[tuple[str, str | None, str | None]] = []
    if (fine := body.fine) is not None:
        pairs.append(("fine", fine.percent, fine.amount))
    if (interest := body.interest) is not None:
        pairs.append(("interest", interest.percent_per_month, interest.amount_per_day))
    pairs += [(f"discounts.{at}", each.percent, each.amount) for at, each in enumerate(discounts)]
    if wrong := {name: _ONE_OF_TWO for name, one, other in pairs if (one is None) == (other is None)}:
        raise Refused(Code.VALIDATION_ERROR, fields=wrong)


def _bps(percent: str | None) -> int:
    return 0 if percent is None else parse_amount(percent, cents_max=PERCENT_BPS_MAX)


def _cents(amount: str | None) -> int:
    return 0 if amount is None else parse_amount(amount, cents_max=BOLETO_CENTS_MAX)
