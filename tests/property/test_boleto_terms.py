"""What a boleto costs, for any terms and days: to the cent what exact fractions say, and never odd along the days."""

from datetime import date, timedelta
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from domain.boleto.business_days import effective_due_date
from domain.boleto.terms import Discount, Fine, Interest, PaymentTerms, amount_due, last_day

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


def near(cents: int, exact: Fraction) -> bool:
    """Half a cent at most from what it is exactly, and up when it is half."""
    return -Fraction(1, 2) < cents - exact <= Fraction(1, 2)


@given(agreed(), st.integers(-90, 400))
def test_each_part_is_rounded_once_and_the_total_is_their_sum(case: tuple[PaymentTerms, int, date], after: int) -> None:
    terms, amount_cents, due = case
    on = due + timedelta(days=after)
    asked = amount_due(terms, amount_cents=amount_cents, due=due, on=on)
    assert asked.total_cents == amount_cents + asked.fine_cents + asked.interest_cents - asked.discount_cents
    assert 0 <= asked.discount_cents <= amount_cents
    late = (on - effective_due_date(due)).days
    if late <= 0:
        assert asked.fine_cents == asked.interest_cents == 0
        return
    assert asked.discount_cents == 0
    if terms.fine is not None and terms.fine.percent_bps:
        assert near(asked.fine_cents, Fraction(amount_cents * terms.fine.percent_bps, 10_000))
    if terms.interest is not None:
        month = Fraction(amount_cents * terms.interest.month_bps, 10_000)
        exact = Fraction(terms.interest.day_cents * late) or month * late / 30
        assert near(asked.interest_cents, exact)


@given(agreed())
def test_it_never_costs_less_on_a_later_day_once_it_is_late(case: tuple[PaymentTerms, int, date]) -> None:
    terms, amount_cents, due = case
    effective = effective_due_date(due)
    late = [
        amount_due(terms, amount_cents=amount_cents, due=due, on=effective + timedelta(days=days)).total_cents
        for days in range(1, 40)
    ]
    assert late == sorted(late)
    assert late[0] >= amount_cents
    assert last_day(terms, due) >= effective
