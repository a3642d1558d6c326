"""Fine, interest and discounts in the form of Cobrancas v2: multa, jurosMora, desconto and the further discounts."""

from datetime import date
from typing import Any, Final

from msgspec import Raw

from banks.banco_do_brasil.text import day_text
from domain.boleto.terms import PaymentTerms, days_accepted_late, fine_begins
from domain.money import reais

DISCOUNTS: Final = ("desconto", "segundoDesconto", "terceiroDesconto")
AMOUNT: Final = 1
PERCENT: Final = 2
"""Kinds (`tipo`) of fine, interest and discount; a percentage of interest is per month."""


def terms_body(terms: PaymentTerms | None, due: date) -> dict[str, Any]:
    """Return the part of a registration's body with the terms. Without days for late payment the boleto cannot be paid
    after its due date."""
    days = days_accepted_late(terms, due)
    body: dict[str, Any] = {"indicadorAceiteTituloVencido": "S" if days else "N"}
    if days:
        body["numeroDiasLimiteRecebimento"] = days
    if terms is None:
        return body
    if terms.interest is not None:
        body["jurosMora"] = _kind(terms.interest.day_cents, terms.interest.month_bps)
    if terms.fine is not None:
        body["multa"] = {"data": day_text(fine_begins(due))} | _kind(terms.fine.amount_cents, terms.fine.percent_bps)
    for name, discount in zip(DISCOUNTS, terms.discounts, strict=False):
        body[name] = {"dataExpiracao": day_text(discount.until)} | _kind(discount.amount_cents, discount.percent_bps)
        if name != DISCOUNTS[0]:
            del body[name]["tipo"]  # further discounts are of the first one's kind
    return body


def moved_terms(terms: PaymentTerms, due: date) -> list[tuple[str, dict[str, Any]]]:
    """Return the changes that make the registered terms follow a new due date, as indicator and object; each is a call
    of its own.

    The limit for late payment comes first: the bank accepts no fine that begins on the last payable day or later.
    """
    changes: list[tuple[str, dict[str, Any]]] = []
    if terms.payable_days:
        days = days_accepted_late(terms, due)
        changes.append(("indicadorAlterarPrazoBoletoVencido", {"alteracaoPrazo": {"quantidadeDiasAceite": days}}))
    if (fine := terms.fine) is not None:
        amount = {"valorMulta": _number(fine.amount_cents)} if fine.amount_cents else {}
        rate = {"taxaMulta": _number(fine.percent_bps)} if fine.percent_bps else {}
        kind = AMOUNT if fine.amount_cents else PERCENT
        moved = {"tipoMulta": kind, "dataInicioMulta": day_text(fine_begins(due)), **amount, **rate}
        changes.append(("indicadorCobrarMulta", {"multa": moved}))
    return changes


def _kind(cents: int, bps: int) -> dict[str, Any]:
    return {"tipo": AMOUNT, "valor": _number(cents)} if cents else {"tipo": PERCENT, "porcentagem": _number(bps)}


def _number(hundredths: int) -> Raw:
    """Return a JSON number with two decimals, of reais or of percent."""
    return Raw(reais(hundredths).encode())
