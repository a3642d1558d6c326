"""The client's address behind trusted proxies: a forwarded header that the client itself sends changes nothing."""

from ipaddress import ip_network

import pytest

from domain.client_address import HOPS_MAX, client_address

TRUSTED = [ip_network("10.0.0.0/8"), ip_network("2001:db8:ff::/48")]
PROXY = "10.0.0.1"


def _client_of(peer: str, *values: str, header: str = "x-forwarded-for") -> str:
    return client_address(peer, values, header=header, trusted=TRUSTED)


def test_without_a_trusted_proxy_the_header_is_ignored() -> None:
    assert client_address("192.0.2.1", ["203.0.113.9"], header="x-forwarded-for", trusted=[]) == "192.0.2.1"
    assert _client_of("192.0.2.1", "203.0.113.9") == "192.0.2.1"
    assert _client_of("", "203.0.113.9") == ""


def test_the_client_is_the_last_hop_that_is_not_a_trusted_proxy() -> None:
    assert _client_of(PROXY, "203.0.113.9") == "203.0.113.9"
    assert _client_of(PROXY, "198.51.100.1, 203.0.113.9") == "203.0.113.9"
    assert _client_of(PROXY, "10.9.9.9, 203.0.113.9") == "203.0.113.9"  # the client claims to be behind an inner proxy
    assert _client_of(PROXY, "198.51.100.1", "203.0.113.9, 10.0.0.2") == "203.0.113.9"  # two proxies, two header lines
    assert _client_of("::ffff:10.0.0.1", "203.0.113.9") == "203.0.113.9"
    assert _client_of("2001:db8:ff::1", "2001:db8:1::5") == "2001:db8:1::5"


def test_an_invalid_hop_yields_the_trusted_proxy_that_passed_it_on() -> None:
    for junk in ("unknown", "", ",,", "203.0.113.9x", "<script>", "1.2.3.4.5", "fe80::1%eth0", "2" * 9000):
        assert _client_of(PROXY, junk) == PROXY, junk
        assert _client_of(PROXY, f"203.0.113.9, {junk}, 10.0.0.2") == "10.0.0.2", junk


def test_when_every_hop_is_a_trusted_proxy_the_client_is_the_farthest_of_them() -> None:
    assert _client_of(PROXY) == PROXY
    assert _client_of(PROXY, "10.1.1.1, 10.2.2.2") == "10.1.1.1"
    many = ", ".join(f"10.3.0.{n % 250}" for n in range(5000))
    assert _client_of(PROXY, "203.0.113.9, " + many) == f"10.3.0.{(5000 - HOPS_MAX) % 250}"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("203.0.113.9:4711", "203.0.113.9"),
        ("[2001:db8:1::5]:4711", "2001:db8:1::5"),
        ("[2001:db8:1::5]", "2001:db8:1::5"),
        ("203.0.113.9:", PROXY),
    ],
)
def test_the_port_of_a_hop_is_removed(text: str, wanted: str) -> None:
    assert _client_of(PROXY, text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("for=203.0.113.9", "203.0.113.9"),
        ('For="[2001:db8:1::5]:4711";proto=https', "2001:db8:1::5"),
        ("proto=https; for=203.0.113.9;by=10.0.0.1", "203.0.113.9"),
        ("for=198.51.100.1, for=203.0.113.9", "203.0.113.9"),
        ("for=198.51.100.1, for=unknown", PROXY),
        ("for=_hidden", PROXY),
        ("by=203.0.113.9", PROXY),
        ("203.0.113.9", PROXY),
    ],
)
def test_the_forwarded_header_is_parsed_as_rfc_7239_defines_it(text: str, wanted: str) -> None:
    assert _client_of(PROXY, text, header="forwarded") == wanted
