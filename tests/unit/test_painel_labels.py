"""What the dashboard calls things."""

import pytest

from web.painel.labels import fact_value


@pytest.mark.parametrize(
    ("value", "shown"),
    [("10.00", "10,00"), ("1234567.89", "1.234.567,89"), ("33.33", "33,33"), ("2026-12-10", "2026-12-10"),
     ("True", "teste"), ("pedido 10.00", "pedido 10.00")],
)  # fmt: skip
def test_an_amount_of_the_audit_log_has_a_comma_and_nothing_else_changes(value: str, shown: str) -> None:
    assert fact_value(value) == shown
