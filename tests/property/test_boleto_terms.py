"""The amount due of a boleto for any terms and days: equal to exact fractions, rounded to the cent, and never smaller
on a later day once the boleto is late."""

from datetime import date, timedelta
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from domain.boleto.business_days import effective_due_date
from domain.boleto.terms import Discount, Fine, Interest, PaymentTerms, amount_due, last_day, wrong_terms
from domain.schedules.terms import RelativeDiscount, ScheduleTerms, terms_of_charge, wrong_schedule_terms

AMOUNTS = st.integers(1, 9_999_999_999)
BPS = st.integers(1, 9_999)
DAYS = st.dates(date(2026, 1, 1), date(2040, 12, 31))


@st.composite
def agreed(draw: st.DrawFn) -> tuple[PaymentTerms, int, date]:
    due, amount_cents = draw(DAYS), draw(AMOUNTS)
    fine = draw(st.none() | st.builds(Fine, percent_bps=BPS) | st.builds(Fine, amount_cents=AMOUNTS))
    interest = draw(st.none() | st.builds(Interest, month_bps=BPS) | st.builds(Interest, day_cents=AMOUNTS))
    before = sorted(draw(st.lists(st.integers(0, 60), max_size=3, unique=True)), reverse=True)
    discounts = tuple(Discount(until=due - timedelta(days=days), percent_bps=draw(BPS)) for days in before)
    terms = PaymentTerms(fine=fine, interest=interest, discounts=discounts, payable_days=draw(st.integers(0, 365)))
    return terms, amount_cents, due


def is_rounded(cents: int, exact: Fraction) -> bool:
    """At most half a cent from the exact value; half a cent is rounded up."""
    return -Fraction(1, 2) < cents - exact <= Fraction(1, 2)


@given(agreed(), st.integers(-90, 400))
def test_each_part_is_rounded_once_and_the_total_is_their_sum(case: tuple[PaymentTerms, int, date], after: int) -> None:
    terms, amount_cents, due = case
    on = due + timedelta(days=after)
    amount = amount_due(terms, amount_cents=amount_cents, due=due, on=on)
    assert amount.total_cents == amount_cents + amount.fine_cents + amount.interest_cents - amount.discount_cents
    assert 0 <= amount.discount_cents <= amount_cents
    late = (on - effective_due_date(due)).days
    if late <= 0:
        assert amount.fine_cents == amount.interest_cents == 0
        return
    assert amount.discount_cents == 0
    if terms.fine is not None and terms.fine.percent_bps:
        assert is_rounded(amount.fine_cents, Fraction(amount_cents * terms.fine.percent_bps, 10_000))
    if terms.interest is not None:
        month = Fraction(amount_cents * terms.interest.month_bps, 10_000)
        exact = Fraction(terms.interest.day_cents * late) or month * late / 30
        assert is_rounded(amount.interest_cents, exact)


@given(agreed())
def test_the_amount_due_of_a_late_boleto_never_falls_from_day_to_day(case: tuple[PaymentTerms, int, date]) -> None:
    terms, amount_cents, due = case
    effective = effective_due_date(due)
    late = [
        amount_due(terms, amount_cents=amount_cents, due=due, on=effective + timedelta(days=days)).total_cents
        for days in range(1, 40)
    ]
    assert late == sorted(late)
    assert late[0] >= amount_cents
    assert last_day(terms, due) >= effective


@st.composite
def scheduled(draw: st.DrawFn) -> ScheduleTerms:
    # Mostly valid terms, because the test promises nothing about the charges of invalid ones.
    before = sorted(draw(st.lists(st.integers(0, 31), max_size=3, unique=True)), reverse=True)
    in_percent = draw(st.booleans())
    value = {"percent_bps": draw(BPS)} if in_percent else {"amount_cents": draw(st.integers(1, 9_999))}
    return ScheduleTerms(
        fine=draw(st.none() | st.builds(Fine, percent_bps=st.integers(1, 250))),
        interest=draw(st.none() | st.builds(Interest, month_bps=st.integers(1, 120))),
        discounts=tuple(RelativeDiscount(days_before=days, **value) for days in before),
        payable_days=draw(st.integers(0, 365)),
    )


@given(scheduled(), AMOUNTS, st.integers(15, 30), st.booleans(), DAYS, st.integers(0, 30))
def test_valid_terms_of_a_schedule_are_valid_for_each_of_its_charges(
    terms: ScheduleTerms, amount_cents: int, issue_days_before: int, company: bool, due: date, issued_before: int
) -> None:
    wrong = wrong_schedule_terms(terms, amount_cents=amount_cents, issue_days_before=issue_days_before, company=company)
    agreed = terms_of_charge(terms, due, issued_on=due - timedelta(days=issued_before))
    if not wrong:
        if agreed is not None:
            assert wrong_terms(agreed, amount_cents=amount_cents, due=due, company=company) == {}
            assert all(each.until >= due - timedelta(days=issued_before) for each in agreed.discounts)
        if issued_before >= issue_days_before:
            assert len(terms.discounts) == (0 if agreed is None else len(agreed.discounts))
