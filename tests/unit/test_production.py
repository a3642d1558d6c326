"""In production the service refuses to start with a setting of local work, and names each such setting."""

import secrets
from pathlib import Path

import pytest
import yaml

from runtime.log import _reason
from runtime.production import production_faults
from runtime.settings import read_settings

GOOD = {
    "QUITA_ENV": "production",
    "DATABASE_URL": "postgresql://127.0.0.1/quita",
    "REDIS_URL": "redis://127.0.0.1/0",
    "SECRET_KEY": secrets.token_hex(32),
    "BASE_URL": "https://api.example.com",
    "BANK_URL": "https://bank.example.com",
    "BANK_CLIENT_ID": "id",
    "BANK_APP_KEY": "key",
    "BANK_CLIENT_SECRET": secrets.token_urlsafe(24),
    "BANK_CALLBACK_TOKEN": secrets.token_urlsafe(24),
    "SMTP_URL": "smtps://user:word@mail.example.com",
    "MAIL_FROM": "cobrancas@example.com",
}


def test_the_service_starts_with_valid_production_settings() -> None:
    assert production_faults(GOOD) == []
    assert read_settings(GOOD).environment == "production"


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("SECRET_KEY", "ab" * 32),
        ("SECRET_KEY", ""),
        ("BASE_URL", "http://api.example.com"),
        ("BASE_URL", ""),
        ("APP_URL", "http://pagar.example.com"),
        ("BANK_URL", "http://bank.example.com"),
        ("BANK_URL", "https://127.0.0.1:8009"),
        ("BANK_URL", "https://[::1]"),
        ("BANK_URL", "https://localhost"),
        ("BANK_URL", ""),
        ("BANK_TRANSFERS_URL", "http://transfers.example.com"),
        ("BANK_CLIENT_ID", ""),
        ("BANK_APP_KEY", ""),
        ("BANK_CLIENT_SECRET", "quita-local-secret"),
        ("BANK_CLIENT_SECRET", "short"),
        ("BANK_CLIENT_SECRET", ""),
        ("BANK_BOLETO_CLIENT_SECRET", "quita-local-secret"),
        ("BANK_CONVENIO", "1234567"),
        ("BANK_CONTA", "99999"),
        ("BANK_CALLBACK_TOKEN", "local"),
        ("BANK_CALLBACK_TOKEN", "a" * 23),
        ("BANK_CALLBACK_TOKEN", ""),
        ("WEBHOOK_ALLOW_PRIVATE", "1"),
        ("MAIL_CATCHER", "1"),
        ("SMTP_URL", ""),
        ("STAFF_TOTP_REQUIRED", "0"),
        ("DATABASE_OWNER_URL", "postgresql://owner:password@127.0.0.1/quita"),
    ],
)
def test_a_setting_of_local_work_is_refused_by_name_without_quoting_its_value(name: str, given: str) -> None:
    env = GOOD | {name: given}
    faults = production_faults(env)
    assert faults
    assert all(name in fault or (name == "BASE_URL" and "APP_URL" in fault) for fault in faults)
    with pytest.raises(ValueError, match=f"QUITA_ENV=production .*{name}") as refused:
        read_settings(env)
    for secret in ("SECRET_KEY", "BANK_CLIENT_SECRET", "BANK_CALLBACK_TOKEN"):
        assert not env[secret] or f" {env[secret]}" not in str(refused.value)


def test_all_faults_of_the_settings_are_reported_at_once() -> None:
    faults = production_faults({})
    for name in (
        "SECRET_KEY",
        "BANK_CALLBACK_TOKEN",
        "BANK_CLIENT_SECRET",
        "BASE_URL",
        "APP_URL",
        "BANK_URL",
        "SMTP_URL",
    ):
        assert any(fault.startswith(name) for fault in faults), name
    worst = {"QUITA_ENV": "production", "WEBHOOK_ALLOW_PRIVATE": "1", "MAIL_CATCHER": "1", "STAFF_TOTP_REQUIRED": "0"}
    with pytest.raises(ValueError, match="STAFF_TOTP_REQUIRED") as refused:
        read_settings(worst)
    assert _reason(refused.value) == str(refused.value), "a worker's log must not cut it"


def test_an_unknown_name_of_the_environment_is_refused() -> None:
    with pytest.raises(ValueError, match="QUITA_ENV must be local or production"):
        read_settings(GOOD | {"QUITA_ENV": "prod"})


def test_no_container_of_compose_has_both_the_owners_password_and_the_secret_key() -> None:
    services = yaml.safe_load((Path(__file__).parents[2] / "compose.yaml").read_text(encoding="utf-8"))["services"]
    assert "env_file" not in services["migrate"], "the migration must not get the settings in .env"
    assert "SECRET_KEY" not in services["migrate"]["environment"]
    for name in ("api", "worker", "bank"):
        given = services[name]["environment"]
        assert given["SECRET_KEY"]
        # Empty on purpose: a value here overrides that of .env.
        assert (given["DATABASE_OWNER_URL"], given["POSTGRES_PASSWORD"]) == ("", "")
        assert "${POSTGRES_PASSWORD" not in "".join(given.values())
        assert given["DATABASE_URL"].startswith("postgresql://quita_app:")
        assert given["REDIS_URL"].startswith("redis://:${REDIS_PASSWORD")
