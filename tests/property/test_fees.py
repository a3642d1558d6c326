"""What a payment costs, for any terms and amounts: to the cent what exact fractions say, and never more than it is."""

from fractions import Fraction

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from domain.merchants.fees import (
    FEE_CENTS_MAX,
    NO_FEES,
    PIX_BPS_MAX,
    FeeTerms,
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
    least = draw(CENTS)
    return FeeTerms(
        pix_bps=draw(st.integers(0, PIX_BPS_MAX)),
        pix_cents=draw(CENTS),
        pix_cents_min=least,
        pix_cents_max=draw(st.none() | st.integers(max(least, 1), FEE_CENTS_MAX)),
        boleto_cents=draw(CENTS),
        withdrawal_cents=draw(CENTS),
    )


@given(agreed(), AMOUNTS)
@example(FeeTerms(pix_bps=50), 100)  # half a cent: up
@example(FeeTerms(pix_bps=49), 100)
@example(FeeTerms(pix_bps=2_000, pix_cents_max=500), 1_000_000)
@example(FeeTerms(pix_cents_min=300), 299)
def test_a_pix_costs_its_percentage_rounded_half_up_and_its_amount_within_their_bounds(
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
def test_a_boleto_costs_its_amount_and_no_fee_is_more_than_its_payment(terms: FeeTerms, amount_cents: int) -> None:
    assert payment_fee(terms, method="boleto", amount_cents=amount_cents) == min(terms.boleto_cents, amount_cents)
    assert 0 <= payment_fee(terms, method="pix", amount_cents=amount_cents) <= amount_cents


@given(agreed(), AMOUNTS, AMOUNTS)
def test_a_larger_payment_never_costs_less(terms: FeeTerms, one: int, other: int) -> None:
    for method in ("pix", "boleto"):
        smaller, larger = (payment_fee(terms, method=method, amount_cents=cents) for cents in sorted((one, other)))
        assert smaller <= larger


@given(agreed(), agreed())
def test_terms_of_an_account_stand_in_the_place_of_all_of_the_platforms(own: FeeTerms, default: FeeTerms) -> None:
    assert terms_in_force(msgspec.json.encode(own), default) == own
    assert terms_in_force(None, default) == default
    assert read_fees(msgspec.json.encode(own)) == own


@given(agreed(), AMOUNTS)
@example(FeeTerms(pix_bps=PIX_BPS_MAX, pix_cents_max=1), 1)
def test_what_can_be_agreed_is_taken_and_nothing_costs_nothing(terms: FeeTerms, amount_cents: int) -> None:
    assert fee_faults(terms) == {}
    assert {payment_fee(NO_FEES, method=each, amount_cents=amount_cents) for each in ("pix", "boleto")} == {0}
