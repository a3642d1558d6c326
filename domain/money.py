"""Money: whole cents inside, decimal text in reais at the edge. Never a float, never a Decimal."""

import re

# Ten digits of reais: the widest amount of API Pix (valor.original) and of the contract, section 2.
PIX_CENTS_MAX = 999_999_999_999
# The value field of the boleto's barcode has ten digits, cents included.
BOLETO_CENTS_MAX = 9_999_999_999
WHOLE_BPS = 10_000
"""Basis points (hundredths of a percent) in the whole."""

# [0-9] and not \d, which would accept the digits of other scripts.
_AMOUNT = re.compile(r"([0-9]{1,10})(?:\.([0-9]{1,2}))?")


def parse_amount(text: object, *, cents_max: int) -> int:
    """Returns the cents of an amount in reais as a merchant writes it: "12", "12.3" or "12.34" (contract, section 2).

    ValueError for any other value (JSON numbers included), for zero, and above `cents_max`.
    """
    match = _AMOUNT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError("not an amount: one to ten digits, then at most two decimals")
    whole, decimals = match.groups(default="")
    cents = int(whole) * 100 + int(decimals.ljust(2, "0"))
    if not 0 < cents <= cents_max:
        raise ValueError(f"amount outside 0.01 to {reais(cents_max)}")
    return cents


def percent_of(cents: int, bps: int) -> int:
    """Returns `bps` hundredths of a percent of `cents`; half a cent is rounded up."""
    return rounded(cents * bps, WHOLE_BPS)


def rounded(numerator: int, denominator: int) -> int:
    """Returns the quotient of two non-negative numbers, rounded half up."""
    return (2 * numerator + denominator) // (2 * denominator)


def reais(cents: int) -> str:
    """Returns reais with exactly two decimals and no thousands mark: 123456 -> "1234.56", -5 -> "-0.05"."""
    if cents < 0:
        return "-" + reais(-cents)  # divmod rounds down, which would print -5 as -1.95
    return "%d.%02d" % divmod(cents, 100)  # noqa: UP031 - a quarter faster than an f-string, on the hot path
