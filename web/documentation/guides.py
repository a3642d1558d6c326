"""The guides for merchants, in each language. The pages show the texts of docs/ themselves, so that no second copy goes
stale. Texts for the service's operators (docs/operations, production, settings) are not among them."""

from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

Language = Literal["en", "pt"]
TEXTS: Final = Path(__file__).parents[2] / "docs"
ROOTS: Final[dict[Language, str]] = {"en": "/docs", "pt": "/docs/pt"}
START: Final = "quick-start"


class Guide(Struct, frozen=True):
    """A guide. `name` is the last part of its address; its file in docs/ (docs/pt for Portuguese) is named alike, with
    underscores for hyphens."""

    name: str
    title: str
    text: str


# fmt: off
_TITLES: Final[dict[str, tuple[str, str]]] = {
    START:            ("Quick start",      "Primeiros passos"),
    "boletos":        ("Boletos",          "Boletos"),
    "dual-charges":   ("Dual charges",     "Cobranças duplas"),
    "idempotency":    ("Idempotency",      "Idempotência"),
    "webhooks":       ("Webhooks",         "Webhooks"),
    "reconciliation": ("Reconciliation",   "Conciliação"),
    "fees":           ("Fees",             "Tarifas"),
    "refunds":        ("Refunds",          "Devoluções"),
    "payer-page":     ("Payer's page",     "Página do pagador"),
    "schedules":      ("Charge schedules", "Cobranças programadas"),
    "mail":           ("E-mail",           "E-mail"),
    "withdrawals":    ("Withdrawals",      "Saques"),
    "sandbox":        ("Sandbox",          "Ambiente de teste"),
    "testing":        ("Testing",          "Testar"),
    "command-line":   ("Command line",     "Linha de comando"),
}
# fmt: on


def _read_guides(language: Language) -> dict[str, Guide]:
    folder = TEXTS if language == "en" else TEXTS / "pt"
    return {
        name: Guide(
            name, titles[language == "pt"], (folder / f"{name.replace('-', '_')}.md").read_text(encoding="utf-8")
        )
        for name, titles in _TITLES.items()
    }


GUIDES: Final[dict[Language, dict[str, Guide]]] = {"en": _read_guides("en"), "pt": _read_guides("pt")}


def prefers_portuguese(accepted: str) -> bool:
    """Whether an Accept-Language header puts Portuguese before English (RFC 9110 section 12.5.4)."""
    weights: dict[str, float] = {}
    for each in accepted[:500].split(","):
        name, _, weight = each.strip().partition(";")
        try:
            value = float(weight.strip().removeprefix("q=")) if weight else 1.0
        except ValueError:
            continue
        language = name.strip().lower().partition("-")[0]
        weights[language] = max(weights.get(language, 0.0), value)
    return weights.get("pt", 0.0) > weights.get("en", 0.0)
