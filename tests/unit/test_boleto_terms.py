"""The amount due of a boleto on a given day: fine, interest and discount to the cent, from the effective due date."""

from datetime import date, timedelta

import pytest

from domain.boleto.terms import (
    AmountDue,
    Discount,
    Fine,
    Interest,
    PaymentTerms,
    amount_due,
    cuts_discount,
    days_accepted_late,
    fine_begins,
    last_day,
    wrong_terms,
)
from domain.schedules.terms import RelativeDiscount, ScheduleTerms, terms_of_charge

THURSDAY = date(2026, 12, 10)
SATURDAY = date(2026, 12, 19)
MONDAY = date(2026, 12, 21)


def due_on(terms: PaymentTerms, on: date, *, due: date = THURSDAY, amount_cents: int = 10_000) -> AmountDue:
    return amount_due(terms, amount_cents=amount_cents, due=due, on=on)


def test_fine_and_interest_equal_the_central_banks_example() -> None:
    """API Pix, cobv: R$ 100.00, two days late, with a fine of 3 % and interest of 1 % a day, is R$ 105.00."""
    terms = PaymentTerms(fine=Fine(percent_bps=300), interest=Interest(month_bps=3000), payable_days=30)
    due = due_on(terms, THURSDAY + timedelta(days=2))
    assert due == AmountDue(total_cents=10_500, fine_cents=300, interest_cents=200)
    in_reais = PaymentTerms(fine=Fine(amount_cents=300), interest=Interest(day_cents=100), payable_days=30)
    assert due_on(in_reais, THURSDAY + timedelta(days=2)) == due


def test_without_terms_the_amount_due_is_the_boletos_amount_on_every_day() -> None:
    for days in (-5, 0, 400):
        on = THURSDAY + timedelta(days=days)
        assert amount_due(None, amount_cents=999, due=THURSDAY, on=on) == AmountDue(total_cents=999)


def test_fine_and_interest_begin_after_the_first_business_day_on_or_after_the_due_date() -> None:
    terms = PaymentTerms(fine=Fine(percent_bps=200), interest=Interest(day_cents=10), payable_days=30)
    for on in (SATURDAY, SATURDAY + timedelta(days=1), MONDAY):
        assert due_on(terms, on, due=SATURDAY).total_cents == 10_000
    first = due_on(terms, MONDAY + timedelta(days=1), due=SATURDAY)
    assert (first.fine_cents, first.interest_cents, first.total_cents) == (200, 10, 10_210)
    assert fine_begins(SATURDAY) == MONDAY + timedelta(days=1)


def test_a_discount_ends_on_the_first_business_day_on_or_after_its_last_day() -> None:
    terms = PaymentTerms(
        discounts=(Discount(until=date(2026, 12, 1), percent_bps=1000), Discount(until=SATURDAY, percent_bps=500))
    )
    days = {date(2026, 11, 20): 1000, date(2026, 12, 1): 1000, date(2026, 12, 2): 500, MONDAY: 500}
    for on, discount_cents in days.items():
        assert due_on(terms, on, due=SATURDAY).discount_cents == discount_cents
    assert due_on(terms, MONDAY, due=SATURDAY).discount_until == SATURDAY, "the agreed day, as registered at the bank"
    assert due_on(terms, MONDAY + timedelta(days=1), due=SATURDAY) == AmountDue(total_cents=10_000)


@pytest.mark.parametrize(
    ("amount_cents", "bps", "fine_cents"), [(25, 200, 1), (24, 200, 0), (75, 200, 2), (14_990, 200, 300)]
)
def test_a_fine_of_half_a_cent_is_rounded_up(amount_cents: int, bps: int, fine_cents: int) -> None:
    terms = PaymentTerms(fine=Fine(percent_bps=bps), payable_days=30)
    assert due_on(terms, date(2026, 12, 11), amount_cents=amount_cents).fine_cents == fine_cents


def test_interest_is_rounded_over_all_its_days_and_not_day_by_day() -> None:
    terms = PaymentTerms(interest=Interest(month_bps=100), payable_days=60)
    assert due_on(terms, THURSDAY + timedelta(days=1)).interest_cents == 3  # 3.33
    assert due_on(terms, THURSDAY + timedelta(days=2)).interest_cents == 7  # 6.67
    assert due_on(terms, THURSDAY + timedelta(days=30)).interest_cents == 100


@pytest.mark.parametrize(
    ("due", "days", "last"),
    [(date(2026, 10, 20), 4, date(2026, 10, 26)), (date(2026, 12, 25), 3, date(2026, 12, 31)),
     (date(2026, 12, 25), 4, date(2027, 1, 4)), (THURSDAY, 0, THURSDAY), (SATURDAY, 0, MONDAY)],
)  # fmt: skip
def test_the_last_day_to_pay_is_a_business_day(due: date, days: int, last: date) -> None:
    terms = PaymentTerms(payable_days=days)
    assert last_day(terms, due) == last
    assert days_accepted_late(terms, due) == ((last - due).days if days else 0)


def faulty_fields(terms: PaymentTerms, *, company: bool = False) -> set[str]:
    return set(wrong_terms(terms, amount_cents=10_000, due=THURSDAY, company=company))


def test_fines_and_interest_above_the_legal_limit_are_refused_and_companies_have_a_higher_limit() -> None:
    for fine, interest in ((Fine(percent_bps=200), Interest(month_bps=100)), (Fine(amount_cents=200),
                           Interest(day_cents=3))):  # fmt: skip
        assert faulty_fields(PaymentTerms(fine=fine, interest=interest)) == set()
    more = PaymentTerms(fine=Fine(percent_bps=201), interest=Interest(month_bps=101))
    assert faulty_fields(more) == {"fine.percent", "interest.percent_per_month"}
    assert faulty_fields(more, company=True) == set()
    in_reais = PaymentTerms(fine=Fine(amount_cents=201), interest=Interest(day_cents=4))
    assert faulty_fields(in_reais) == {"fine.amount", "interest.amount_per_day"}
    thirtieth = PaymentTerms(interest=Interest(day_cents=30))
    assert wrong_terms(thirtieth, amount_cents=90_000, due=THURSDAY, company=False) == {}
    most = PaymentTerms(fine=Fine(amount_cents=1001), interest=Interest(month_bps=201))
    assert faulty_fields(most, company=True) == {"fine.amount", "interest.percent_per_month"}


@pytest.mark.parametrize(("company", "said"), [(False, "2.00 when the payer is a person"),
                                               (True, "10.00 when the payer is a company")])  # fmt: skip
def test_the_message_of_a_limit_names_the_kind_of_payer_it_applies_to(company: bool, said: str) -> None:
    terms = PaymentTerms(fine=Fine(percent_bps=1001))
    faults = wrong_terms(terms, amount_cents=10_000, due=THURSDAY, company=company)
    assert faults == {"fine.percent": f"must be at most {said}"}


def test_discounts_are_in_order_of_one_kind_and_leave_something_to_pay() -> None:
    first = Discount(until=date(2026, 12, 1), amount_cents=500)
    assert faulty_fields(PaymentTerms(discounts=(first, Discount(until=THURSDAY, amount_cents=300)))) == set()
    late = Discount(until=date(2026, 12, 11), amount_cents=300)
    assert faulty_fields(PaymentTerms(discounts=(first, late))) == {"discounts.1.until"}
    assert faulty_fields(PaymentTerms(discounts=(first, first))) == {"discounts.1.until"}
    assert faulty_fields(PaymentTerms(discounts=(first, Discount(until=THURSDAY, percent_bps=1)))) == {"discounts.1"}
    whole = Discount(until=THURSDAY, amount_cents=10_000)
    assert faulty_fields(PaymentTerms(discounts=(whole,))) == {"discounts.0.amount"}
    nearly = Discount(until=THURSDAY, percent_bps=9999)  # of an amount of one cent, it rounds to the whole cent
    faults = wrong_terms(PaymentTerms(discounts=(nearly,)), amount_cents=1, due=THURSDAY, company=False)
    assert set(faults) == {"discounts.0.percent"}
    for due in (first.until, first.until - timedelta(days=1)):
        assert cuts_discount(PaymentTerms(discounts=(first,)), due) is (due < first.until)


def test_a_charge_issued_after_the_last_day_of_a_schedules_discount_gets_none() -> None:
    terms = ScheduleTerms(discounts=(RelativeDiscount(days_before=9, amount_cents=500),))
    ends = date(2026, 12, 1)
    agreed = PaymentTerms(discounts=(Discount(until=ends, amount_cents=500),))
    assert terms_of_charge(terms, THURSDAY, issued_on=ends) == agreed
    assert terms_of_charge(terms, THURSDAY, issued_on=ends + timedelta(days=1)) is None
