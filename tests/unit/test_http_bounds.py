"""The limits of HTTP connections are set by environment variables, within bounds; every setting is documented."""

import resource
from pathlib import Path

import pytest

from domain.client_address import client_group
from runtime.limits.http_bounds import HttpBounds, raise_open_files, read_http_bounds
from runtime.settings import read_settings

ROOT = Path(__file__).parents[2]


def test_a_limit_has_a_default_and_each_can_be_set() -> None:
    assert read_http_bounds({}) == read_http_bounds({"HTTP_BODY_S": ""}) == HttpBounds()
    set_to = {f"HTTP_{field.upper()}": "7" for field in HttpBounds.__struct_fields__}
    assert all(getattr(read_http_bounds(set_to), field) == 7 for field in HttpBounds.__struct_fields__)


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "a", "٣", "99999999", "1" * 400])
def test_a_limit_out_of_bounds_prevents_the_start_with_an_error_that_names_it(value: str) -> None:
    needed = {"DATABASE_URL": "postgresql://x", "REDIS_URL": "redis://x", "SECRET_KEY": "5e" * 32, "QUITA_ENV": "local"}
    with pytest.raises(ValueError, match="HTTP_BODY_S must be a whole number from 1 to 600"):
        read_settings({**needed, "HTTP_BODY_S": value})


@pytest.mark.parametrize("field", HttpBounds.__struct_fields__)
def test_every_setting_of_connections_is_documented(field: str) -> None:
    assert f"`HTTP_{field.upper()}`" in (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")


def test_the_number_of_connections_fits_the_limit_of_open_files() -> None:
    assert HttpBounds().fitting(1_024).connections_max == 1_024 - 256
    assert HttpBounds().fitting(1_048_576) == HttpBounds()
    assert HttpBounds().fitting(10).connections_max == 1


def test_the_limit_of_open_files_is_raised_to_the_hard_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, soft), hard))
        assert raise_open_files() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_a_limit_of_open_files_the_bounds_of_connections_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [(resource.RLIM_INFINITY, resource.RLIM_INFINITY)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, given: limits.append(given))
    assert HttpBounds().fitting(raise_open_files()) == HttpBounds()
    assert len(limits) == 1
    limits.append((1_024, resource.RLIM_INFINITY))
    assert raise_open_files() == limits[-1][0] > 1_024


def test_ipv6_clients_are_grouped_by_64_network_and_a_mapped_address_is_ipv4() -> None:
    assert client_group("2001:db8::1") == client_group("2001:db8::ffff:1%eth0") == "2001:db8::"
    assert client_group("2001:db8:0:1::1") != "2001:db8::"
    assert client_group("::ffff:10.0.0.1") == client_group("10.0.0.1") == "10.0.0.1"
