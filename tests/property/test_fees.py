"""The fee of a payment for any terms and amounts: equal to exact fractions, rounded to the cent, and never more than
the payment."""

from fractions import Fraction

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from domain.merchants.fees import (
    FEE_CENTS_MAX,
    NO_FEES,
    PIX_BPS_MAX,
    FeeTerms,
    agreed_for,
    fee_faults,
    payment_fee,
    read_fees,
    terms_in_force,
)
from domain.money import PIX_CENTS_MAX

CENTS = st.integers(0, FEE_CENTS_MAX)
AMOUNTS = st.integers(1, PIX_CENTS_MAX)


@st.composite
def agreed(draw: st.DrawFn) -> FeeTerms:
    cents_min = draw(CENTS)
    return FeeTerms(
        pix_bps=draw(st.integers(0, PIX_BPS_MAX)),
        pix_cents=draw(CENTS),
        pix_cents_min=cents_min,
        pix_cents_max=draw(st.none() | st.integers(max(cents_min, 1), FEE_CENTS_MAX)),
        boleto_cents=draw(CENTS),
        withdrawal_cents=draw(CENTS),
    )


@given(agreed(), AMOUNTS)
@example(FeeTerms(pix_bps=50), 100)  # half a cent is rounded up
@example(FeeTerms(pix_bps=49), 100)
@example(FeeTerms(pix_bps=2_000, pix_cents_max=500), 1_000_000)
@example(FeeTerms(pix_cents_min=300), 299)
def test_a_pix_fee_is_percentage_rounded_half_up_plus_fixed_amount_within_the_bounds(
    terms: FeeTerms, amount_cents: int
) -> None:
    percentage = Fraction(amount_cents * terms.pix_bps, 10_000) + Fraction(1, 2)
    wanted = percentage.numerator // percentage.denominator + terms.pix_cents
    if terms.pix_cents_max is not None and wanted > terms.pix_cents_max:
        wanted = terms.pix_cents_max
    if wanted < terms.pix_cents_min:
        wanted = terms.pix_cents_min
    assert payment_fee(terms, method="pix", amount_cents=amount_cents) == min(wanted, amount_cents)


@given(agreed(), AMOUNTS)
def test_a_boleto_fee_is_its_fixed_amount_and_no_fee_exceeds_its_payment(terms: FeeTerms, amount_cents: int) -> None:
    assert payment_fee(terms, method="boleto", amount_cents=amount_cents) == min(terms.boleto_cents, amount_cents)
    assert 0 <= payment_fee(terms, method="pix", amount_cents=amount_cents) <= amount_cents


@given(agreed(), AMOUNTS, AMOUNTS)
def test_the_fee_of_a_larger_payment_is_never_smaller(terms: FeeTerms, one: int, other: int) -> None:
    for method in ("pix", "boleto"):
        smaller, larger = (payment_fee(terms, method=method, amount_cents=cents) for cents in sorted((one, other)))
        assert smaller <= larger


@given(agreed(), agreed())
def test_an_accounts_own_fee_terms_replace_all_terms_of_the_platform(own: FeeTerms, default: FeeTerms) -> None:
    assert terms_in_force(msgspec.json.encode(own), default) == own
    assert terms_in_force(None, default) == default
    assert read_fees(msgspec.json.encode(own)) == own


@given(agreed(), AMOUNTS)
@example(FeeTerms(pix_bps=PIX_BPS_MAX, pix_cents_max=1), 1)
def test_valid_fee_terms_have_no_faults_and_without_terms_the_fee_is_zero(terms: FeeTerms, amount_cents: int) -> None:
    assert fee_faults(terms) == {}
    assert {payment_fee(NO_FEES, method=each, amount_cents=amount_cents) for each in ("pix", "boleto")} == {0}


def test_terms_out_of_bounds_are_refused_by_field() -> None:
    wrong = FeeTerms(
        pix_bps=PIX_BPS_MAX + 1, pix_cents=-1, pix_cents_min=FEE_CENTS_MAX + 1, boleto_cents=-1, withdrawal_cents=-1
    )
    assert set(fee_faults(wrong)) == {"pix_bps", "pix_cents", "pix_cents_min", "boleto_cents", "withdrawal_cents"}
    for cents_max in (0, FEE_CENTS_MAX + 1):
        assert set(fee_faults(FeeTerms(pix_cents_max=cents_max))) == {"pix_cents_max"}
    assert set(fee_faults(FeeTerms(pix_cents_min=2, pix_cents_max=1))) == {"pix_cents_max"}


def test_the_journal_gets_the_terms_of_the_payments_method_that_are_set() -> None:
    terms = FeeTerms(pix_bps=99, pix_cents_max=500, boleto_cents=250)
    assert agreed_for(terms, "pix") == {"method": "pix", "bps": 99, "cents_max": 500}
    assert agreed_for(terms, "boleto") == {"method": "boleto", "cents": 250}
