"""Concurrency and stock are set by environment variables, within bounds; every setting is documented."""

from pathlib import Path

import pytest

from runtime.pace import Pace, read_pace

ROOT = Path(__file__).parents[2]


def test_a_setting_that_is_absent_or_empty_has_its_default() -> None:
    assert read_pace({}) == read_pace({"BANK_PIX_CALLS": ""}) == Pace()


def test_each_setting_of_pace_can_be_set() -> None:
    set_to = {field.upper(): "7" for field in Pace.__struct_fields__}
    assert all(getattr(read_pace(set_to), field) == 7 for field in Pace.__struct_fields__)


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "a", "٣", "99999999", "1" * 400])
def test_the_error_for_a_value_out_of_bounds_names_the_setting(value: str) -> None:
    with pytest.raises(ValueError, match="BANK_PIX_CALLS must be a whole number from 1 to 10000"):
        read_pace({"BANK_PIX_CALLS": value})
    with pytest.raises(ValueError, match="PIX_LOCATIONS_MAX must not be below"):
        read_pace({"PIX_LOCATIONS_MAX": "10"})


@pytest.mark.parametrize("field", Pace.__struct_fields__)
def test_every_setting_of_pace_is_documented(field: str) -> None:
    assert f"`{field.upper()}`" in (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")


def test_the_containers_of_compose_get_every_setting_of_dotenv() -> None:
    services = (ROOT / "compose.yaml").read_text(encoding="utf-8").partition("\nservices:\n")
    assert "  env_file: [{ path: .env, required: false }]\n" in services[0]
    for service in ("api", "worker", "bank"):  # `migrate` gets only the addresses of the databases
        assert f"\n  {service}:\n    <<: *quita\n" in services[2]
