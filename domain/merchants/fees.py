"""The fees that the platform charges a merchant for payments and withdrawals.

The fee of a payment depends on its method. A PIX costs a percentage, a fixed amount, or both, between a minimum and a
maximum; a payment by a boleto's line costs a fixed amount. The percentage is rounded once, half a cent up. A fee never
exceeds its payment. A withdrawal costs a fixed amount beside the amount that is sent.
"""

from typing import Any, Final

import msgspec
from msgspec import Struct

from domain.money import percent_of, reais

PIX_BPS_MAX: Final = 2_000
"""20 %: a higher value is taken for a typing error."""
FEE_CENTS_MAX: Final = 100_000


class FeeTerms(Struct, frozen=True, gc=False, kw_only=True):
    """Fee terms, in cents and in hundredths of a percent (119 is 1.19 %)."""

    pix_bps: int = 0
    pix_cents: int = 0
    pix_cents_min: int = 0
    pix_cents_max: int | None = None
    """The maximum; None: only the payment's amount bounds the fee."""
    boleto_cents: int = 0
    withdrawal_cents: int = 0


NO_FEES: Final = FeeTerms()
read_fees = msgspec.json.Decoder(FeeTerms).decode
"""Reads terms in the form that an account stores."""


def terms_in_force(own: bytes | None, default: FeeTerms) -> FeeTerms:
    """Returns the account's `own` terms if it has any, which replace all of the platform's `default` terms."""
    return default if own is None else read_fees(own)


def payment_fee(terms: FeeTerms, *, method: str, amount_cents: int) -> int:
    """Returns the fee of a payment in cents, 0 to `amount_cents`; `method` is pix or boleto."""
    assert amount_cents > 0
    if method == "boleto":
        return min(terms.boleto_cents, amount_cents)
    assert method == "pix", method
    cents = percent_of(amount_cents, terms.pix_bps) + terms.pix_cents
    if terms.pix_cents_max is not None:
        cents = min(cents, terms.pix_cents_max)
    return min(max(cents, terms.pix_cents_min), amount_cents)


def agreed_for(terms: FeeTerms, method: str) -> dict[str, Any]:
    """Returns the terms that a fee was computed from, to be journaled with it: those of the method, without values of
    0 or None."""
    if method == "boleto":
        return {"method": method, "cents": terms.boleto_cents}
    parts = {
        "bps": terms.pix_bps,
        "cents": terms.pix_cents,
        "cents_min": terms.pix_cents_min,
        "cents_max": terms.pix_cents_max,
    }
    return {"method": method, **{name: value for name, value in parts.items() if value}}


def fee_faults(terms: FeeTerms) -> dict[str, str]:
    """Returns the faults of the terms, by field."""
    wrong = {}
    if not 0 <= terms.pix_bps <= PIX_BPS_MAX:
        wrong["pix_bps"] = f"must be 0 to {reais(PIX_BPS_MAX)} percent"
    for name in ("pix_cents", "pix_cents_min", "boleto_cents", "withdrawal_cents"):
        if not 0 <= getattr(terms, name) <= FEE_CENTS_MAX:
            wrong[name] = f"must be 0.00 to {reais(FEE_CENTS_MAX)}"
    if terms.pix_cents_max is not None and not max(terms.pix_cents_min, 1) <= terms.pix_cents_max <= FEE_CENTS_MAX:
        wrong["pix_cents_max"] = f"must be at least the minimum, and 0.01 to {reais(FEE_CENTS_MAX)}"
    return wrong
