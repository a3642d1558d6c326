"""An invalid setting is refused by name when the service starts; every setting is documented."""

import re
from pathlib import Path

import pytest

from domain.merchants.fees import NO_FEES, FeeTerms
from domain.pix.br_code import LOCATION_CHARACTERS_MAX
from runtime.backups.settings import read_backups
from runtime.settings import BASE_URL_HOST_MAX, read_settings

ROOT = Path(__file__).resolve().parents[2]

GOOD = {
    "DATABASE_URL": "postgresql://127.0.0.1/quita",
    "REDIS_URL": "redis://127.0.0.1/0",
    "SECRET_KEY": "ab" * 32,
}


@pytest.mark.parametrize("name", ["API_PROCESSES", "RATE_PER_S", "RATE_BURST"])
@pytest.mark.parametrize("given", ["0", "-1", "1.5", "many"])
def test_a_count_or_rate_that_is_not_a_positive_integer_is_refused(name: str, given: str) -> None:
    with pytest.raises(ValueError, match=name):
        read_settings(GOOD | {name: given})


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("PORT", "70000"), ("RATE_PER_S", "9" * 5_000), ("REFUND_TRANSFERS_CENTS_MAX", "9" * 20),
        ("PARTNER_SHARE_HELD_DAYS", "999999999"), ("WITHDRAWAL_GRACE_S", "1e300"), ("WEBHOOK_HELD_S", "1e12"),
        ("WEBHOOK_DELAYS_S", "5,1e12"), ("WEBHOOK_JITTER", "2"),
    ],
)  # fmt: skip
def test_a_number_too_large_for_an_instant_or_an_amount_is_refused(name: str, given: str) -> None:
    """Otherwise the first refund, share or webhook would fail: such instants and amounts cannot be represented."""
    with pytest.raises(ValueError, match=f"{name} must"):
        read_settings(GOOD | {name: given})


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("PORT", "0"), ("WEBHOOK_LEASE_S", "0"), ("WEBHOOK_PAUSED_PROBE_S", "0"), ("WEBHOOK_LEASE_S", "30,60"),
        ("WITHDRAWAL_GRACE_S", "5,10"), ("API_PROCESSES", "99999999999"),
    ],
)  # fmt: skip
def test_a_number_with_which_the_service_cannot_work_is_refused(name: str, given: str) -> None:
    """With port 0 each process would listen on another port; without a lease, workers would send the same delivery."""
    with pytest.raises(ValueError, match=f"{name} must"):
        read_settings(GOOD | {name: given})


@pytest.mark.parametrize(
    "name",
    ["WEBHOOK_ALLOW_PRIVATE", "MAIL_CATCHER", "CNPJ_WITH_LETTERS", "STAFF_TOTP_REQUIRED", "MONEY_TOTP_REQUIRED"],
)
@pytest.mark.parametrize("given", ["true", "yes", "off", "2"])
def test_a_switch_is_0_or_1(name: str, given: str) -> None:
    """Otherwise the switch could silently have the opposite value."""
    with pytest.raises(ValueError, match=f"{name} must be 0 or 1"):
        read_settings(GOOD | {name: given})


@pytest.mark.parametrize("name", ["BASE_URL", "APP_URL", "DOCS_URL", "BANK_URL", "BANK_TRANSFERS_URL"])
@pytest.mark.parametrize(
    "given",
    ["api.example.com", "https://", "ftp://api.example.com", "https://api.example.com ", "https://a:99999", "1"],
)
def test_an_invalid_web_address_is_refused(name: str, given: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be such as https://"):
        read_settings(GOOD | {name: given})


def test_a_web_address_may_end_with_a_slash_and_links_get_one_slash() -> None:
    assert read_settings(GOOD | {"BASE_URL": "https://api.example.com/"}).base_url == "https://api.example.com"


@pytest.mark.parametrize(
    "name", ["HOST", "BASE_URL", "APP_URL", "DOCS_URL", "BANK_URL", "BANK_CALLBACK_TOKEN", "MAIL_CATCHER"]
)
def test_an_empty_variable_is_treated_as_absent(name: str) -> None:
    """An .env file may name variables without a value: with an empty host, the links for payers would not work."""
    given, without = read_settings(GOOD | {name: ""}), read_settings(GOOD)
    assert [getattr(given, each) for each in given.__struct_fields__] == [
        getattr(without, each) for each in without.__struct_fields__
    ]


@pytest.mark.parametrize(
    "given",
    ["resolver.example.com", "abc", "10.0.0.2:", "10.0.0.2:0", "10.0.0.2/x", "10.0.0.2:53/x", "10.0.0.2;10.0.0.3"],
)
def test_an_invalid_nameserver_is_refused(given: str) -> None:
    """Otherwise workers would fail at their start without naming it, and registering a webhook would answer 500."""
    with pytest.raises(ValueError, match="WEBHOOK_NAMESERVERS must be such as"):
        read_settings(GOOD | {"WEBHOOK_NAMESERVERS": given})


def test_nameservers_are_addresses_with_or_without_a_port() -> None:
    given = "10.0.0.2, 10.0.0.3:5353,::1,[::1]:5353"
    found = read_settings(GOOD | {"WEBHOOK_NAMESERVERS": given}).webhook_nameservers
    assert found == ("10.0.0.2", "10.0.0.3:5353", "::1", "[::1]:5353")


def test_the_port_of_metrics_must_not_be_that_of_the_api() -> None:
    assert read_settings(GOOD | {"METRICS_PORT": "8001"}).watching.metrics_port == 8001
    with pytest.raises(ValueError, match="METRICS_PORT must not be PORT"):
        read_settings(GOOD | {"METRICS_PORT": "8000"})


def test_a_base_url_too_long_for_a_pix_location_is_refused() -> None:
    longest = "https://" + "a" * BASE_URL_HOST_MAX
    assert read_settings(GOOD | {"BASE_URL": longest}).base_url == longest
    with pytest.raises(ValueError, match=r"BASE_URL .* 42 characters"):
        read_settings(GOOD | {"BASE_URL": longest + "a"})
    assert len(f"{'a' * BASE_URL_HOST_MAX}/pix/v2/cobv/{'t' * 22}") == LOCATION_CHARACTERS_MAX


def test_fees_are_zero_unless_set() -> None:
    assert read_settings(GOOD).fees == NO_FEES
    given = {"PIX_FEE_BPS": "99", "PIX_FEE_CENTS": "10", "PIX_FEE_CENTS_MIN": "25", "PIX_FEE_CENTS_MAX": "500"}
    more = {"BOLETO_FEE_CENTS": "199", "WITHDRAWAL_FEE_CENTS": "350"}
    assert read_settings(GOOD | given | more).fees == FeeTerms(
        pix_bps=99, pix_cents=10, pix_cents_min=25, pix_cents_max=500, boleto_cents=199, withdrawal_cents=350
    )


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("PIX_FEE_BPS", "2001"),
        ("PIX_FEE_BPS", "0.99"),
        ("PIX_FEE_CENTS", "-1"),
        ("PIX_FEE_CENTS_MAX", "24"),
        ("PIX_FEE_CENTS_MAX", "0"),
        ("BOLETO_FEE_CENTS", "100001"),
        ("WITHDRAWAL_FEE_CENTS", "x"),
    ],
)
def test_an_invalid_fee_is_refused_by_name(name: str, given: str) -> None:
    with pytest.raises(ValueError, match=name):
        read_settings(GOOD | {"PIX_FEE_CENTS_MIN": "25"} | {name: given})


class RecordingEnvironment(dict[str, str]):
    """An environment that records the names that are read from it."""

    def __init__(self, given: dict[str, str]) -> None:
        super().__init__(given)
        self.names: set[str] = set()

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.names.add(name)
        return super().get(name, default)


def test_every_setting_is_documented() -> None:
    env = RecordingEnvironment(
        GOOD | {"BACKUP_DIR": "/backups", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
    )
    read_settings(env)
    read_backups(env)
    assert len(env.names) > 100
    by_name = re.compile(r'env(?:iron)?(?:\.get\(|\[)"([A-Z][A-Z0-9_]+)"')
    for folder in ("banks", "cli", "runtime", "workers"):
        for file in (ROOT / folder).rglob("*.py"):
            env.names.update(by_name.findall(file.read_text(encoding="utf-8")))
    given_to_programs = {"PGCONNECT_TIMEOUT", "PGPASSWORD", "PROMETHEUS_MULTIPROC_DIR"}
    of_the_system = {"PATH", "PYTHONPATH", "PYTHONUNBUFFERED"} | given_to_programs
    text = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("settings.md", "production.md"))
    assert env.names - of_the_system - set(re.findall(r"[A-Z][A-Z0-9_]+", text)) == set()
