"""One-time codes: the examples of RFC 6238 appendix B and RFC 4226 appendix D, clock drift, and single use."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from domain.totp import STEP_S, code_at, in_text, otpauth, step_at, step_of

SECRET = b"12345678901234567890"
# RFC 6238, appendix B: seconds since 1970, and the last six digits of the codes for SHA-1.
RFC_6238 = [
    (59, "287082"),
    (1111111109, "081804"),
    (1111111111, "050471"),
    (1234567890, "005924"),
    (2000000000, "279037"),
    (20000000000, "353130"),
]
# RFC 4226, appendix D: counters 0 to 9.
RFC_4226 = ["755224", "287082", "359152", "969429", "338314", "254676", "287922", "162583", "399871", "520489"]
NOW = datetime(2026, 11, 21, 12, 0, 7, tzinfo=UTC)


@pytest.mark.parametrize(("seconds", "code"), RFC_6238)
def test_codes_equal_the_examples_of_rfc_6238(seconds: int, code: str) -> None:
    assert code_at(SECRET, step_at(datetime.fromtimestamp(seconds, UTC))) == code


def test_codes_equal_the_examples_of_rfc_4226() -> None:
    assert [code_at(SECRET, counter) for counter in range(10)] == RFC_4226


def test_a_code_is_accepted_when_the_clock_is_at_most_one_step_off() -> None:
    here = step_at(NOW)
    for off, wanted in ((-2, None), (-1, here - 1), (0, here), (1, here + 1), (2, None)):
        assert step_of(SECRET, code_at(SECRET, here + off), now=NOW, after=0) == wanted


def test_a_used_code_and_all_earlier_ones_are_refused() -> None:
    here = step_at(NOW)
    for off in (-1, 0):
        assert step_of(SECRET, code_at(SECRET, here + off), now=NOW, after=here) is None
    later = NOW + timedelta(seconds=STEP_S)
    assert step_of(SECRET, code_at(SECRET, here + 1), now=later, after=here) == here + 1


@pytest.mark.parametrize("code", ["", "12345", "1234567", "abcdef", "١٢٣٤٥٦", "é", " " * 6])
def test_a_malformed_code_is_refused(code: str) -> None:
    assert step_of(SECRET, code, now=NOW, after=0) is None


def test_the_qr_codes_address_and_the_shown_text_have_the_same_secret() -> None:
    address = otpauth(SECRET, issuer="Quita", account="ana+loja@example.com")
    parts = urlsplit(address)
    assert (parts.scheme, parts.netloc, parts.path) == ("otpauth", "totp", "/Quita:ana%2Bloja%40example.com")
    assert parse_qs(parts.query) == {"secret": [in_text(SECRET).replace(" ", "")], "issuer": ["Quita"]}
