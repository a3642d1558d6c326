"""What the platform charges a merchant for payments and withdrawals.

A payment costs by how it was paid: by PIX a percentage, an amount, or both, within a least and a most; by a boleto's
line an amount. The percentage is rounded once, half a cent up. A fee never takes more than the payment it is for. A
withdrawal costs an amount beside what is sent.
"""

from typing import Any, Final

import msgspec
from msgspec import Struct

from domain.money import percent_of, reais

PIX_BPS_MAX: Final = 2_000
"""20 %: more is a slip of the keyboard."""
FEE_CENTS_MAX: Final = 100_000


class FeeTerms(Struct, frozen=True, gc=False, kw_only=True):
    """Cents, and hundredths of a percent (119 is 1.19 %)."""

    pix_bps: int = 0
    pix_cents: int = 0
    pix_cents_min: int = 0
    pix_cents_max: int | None = None
    """None: no more than the payment."""
    boleto_cents: int = 0
    withdrawal_cents: int = 0


NO_FEES: Final = FeeTerms()
read_fees = msgspec.json.Decoder(FeeTerms).decode
"""As an account keeps them."""


def terms_in_force(own: bytes | None, default: FeeTerms) -> FeeTerms:
    """`own` are an account's, which stand in the place of all of the platform's."""
    return default if own is None else read_fees(own)


def payment_fee(terms: FeeTerms, *, method: str, amount_cents: int) -> int:
    """Cents, 0 to `amount_cents`; `method` is how it was paid, pix or boleto."""
    assert amount_cents > 0
    if method == "boleto":
        return min(terms.boleto_cents, amount_cents)
    assert method == "pix", method
    cents = percent_of(amount_cents, terms.pix_bps) + terms.pix_cents
    if terms.pix_cents_max is not None:
        cents = min(cents, terms.pix_cents_max)
    return min(max(cents, terms.pix_cents_min), amount_cents)


def agreed_for(terms: FeeTerms, method: str) -> dict[str, Any]:
    """What a fee was made of, as it is journaled with it: of these terms those of the method that are no default."""
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
    """What cannot be, by field."""
    wrong = {}
    if not 0 <= terms.pix_bps <= PIX_BPS_MAX:
        wrong["pix_bps"] = f"must be 0 to {reais(PIX_BPS_MAX)} percent"
    for name in ("pix_cents", "pix_cents_min", "boleto_cents", "withdrawal_cents"):
        if not 0 <= getattr(terms, name) <= FEE_CENTS_MAX:
            wrong[name] = f"must be 0.00 to {reais(FEE_CENTS_MAX)}"
    if terms.pix_cents_max is not None and not max(terms.pix_cents_min, 1) <= terms.pix_cents_max <= FEE_CENTS_MAX:
        wrong["pix_cents_max"] = f"must be at least the minimum, and 0.01 to {reais(FEE_CENTS_MAX)}"
    return wrong
