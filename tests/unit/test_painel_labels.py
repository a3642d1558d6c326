"""The Portuguese labels of the dashboard."""

import re
from pathlib import Path
from typing import Final

import pytest

from web.painel.labels import TERMS, fact_value

WEB: Final = Path(__file__).parents[2] / "web"
TEMPLATES: Final = sorted(
    path for each in ("painel", "plataforma") for path in (WEB / "templates" / each).rglob("*.html")
)
# Templates for programmers, who type the names as they are in the API.
FOR_PROGRAMS: Final = {"secret.html"}
REPLACED: Final = (
    "Pode ser paga por", "Dias antes do vencimento em que sai", "Com e sem", "Começo do caminho", "Para olhar",
    "a dizer ao banco", "Avisos do banco, a conferir", "Localizações prontas", "Parada por falha nossa",
    "guardamos só uma impressão", "Cobranças programadas.", "ou o formulário é de outra sessão",
)  # fmt: skip


@pytest.mark.parametrize(
    ("value", "shown"),
    [("10.00", "10,00"), ("1234567.89", "1.234.567,89"), ("33.33", "33,33"), ("2026-12-10", "2026-12-10"),
     ("True", "teste"), ("pedido 10.00", "pedido 10.00")],
)  # fmt: skip
def test_an_amount_in_the_audit_log_is_shown_with_a_comma_and_other_values_unchanged(value: str, shown: str) -> None:
    assert fact_value(value) == shown


@pytest.mark.parametrize("name", sorted(TERMS))
def test_a_technical_name_is_shown_only_beside_its_portuguese_term(name: str) -> None:
    """Only the macros `term` and `term_text` write it as the label of a value or of a filter."""
    said = re.escape(name)
    bare = re.compile(rf'<dt>{said}</dt>|<label[^>]*>{said}</label>|input\(asked, "[a-z_]+", "{said}"')
    found = [each.name for each in TEMPLATES if each.name not in FOR_PROGRAMS and bare.search(each.read_text("utf-8"))]
    assert found == []
    called, good_for = TERMS[name]
    assert not re.search(r"[a-z]_[a-z]|[a-z][A-Z]", called)
    assert good_for.endswith(".")


@pytest.mark.parametrize("phrase", REPLACED)
def test_a_phrase_that_was_replaced_as_unclear_is_not_used_again(phrase: str) -> None:
    places = [*TEMPLATES, *sorted(WEB.rglob("*.py"))]
    assert [each.name for each in places if phrase in each.read_text("utf-8")] == []
