"""One-time codes: the examples of RFC 6238 appendix B and RFC 4226 appendix D, clock drift, and single use."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from domain.totp import STEP_S, code_at, in_text, otpauth, step_at, step_of

SECRETS = {
    "sha1": b"12345678901234567890",
    "sha256": b"12345678901234567890123456789012",
    "sha512": b"1234567890123456789012345678901234567890123456789012345678901234",
}
# RFC 6238, appendix B: seconds since 1970, and the codes for each hash.
RFC_6238 = [
    (59, "94287082", "46119246", "90693936"),
    (1111111109, "07081804", "68084774", "25091201"),
    (1111111111, "14050471", "67062674", "99943326"),
    (1234567890, "89005924", "91819424", "93441116"),
    (2000000000, "69279037", "90698825", "38618901"),
    (20000000000, "65353130", "77737706", "47863826"),
]
# RFC 4226, appendix D: counters 0 to 9.
RFC_4226 = ["755224", "287082", "359152", "969429", "338314", "254676", "287922", "162583", "399871", "520489"]
NOW = datetime(2026, 11, 21, 12, 0, 7, tzinfo=UTC)
SECRET = SECRETS["sha1"]


@pytest.mark.parametrize(("seconds", "sha1", "sha256", "sha512"), RFC_6238)
def test_codes_equal_the_examples_of_rfc_6238(seconds: int, sha1: str, sha256: str, sha512: str) -> None:
    step = step_at(datetime.fromtimestamp(seconds, UTC))
    for digest, wanted in (("sha1", sha1), ("sha256", sha256), ("sha512", sha512)):
        assert code_at(SECRETS[digest], step, digits=8, digest=digest) == wanted


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
