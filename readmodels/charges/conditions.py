"""A boleto's terms as sentences for the payer: in print, and on the payer's page in the payer's language."""

from collections.abc import Iterator
from datetime import date
from typing import Final

from msgspec import Struct

from domain import brazilian
from domain.boleto.business_days import effective_due_date
from domain.boleto.terms import PaymentTerms, discount_of, fine_of, last_day

_DISCOUNT_PERCENT: Final = "Até {day}: desconto de {percent}% ({amount})."
_DISCOUNT_AMOUNT: Final = "Até {day}: desconto de {amount}."
_FINE_PERCENT: Final = "Após {day}: multa de {percent}% ({amount})."
_FINE_AMOUNT: Final = "Após {day}: multa de {amount}."
_INTEREST_PERCENT: Final = "Após {day}: juros de {percent}% ao mês."
_INTEREST_AMOUNT: Final = "Após {day}: juros de {amount} por dia de atraso."
_LIMIT: Final = "Não pode ser pago após {day}."
_LIMIT_IN_PRINT: Final = "Não receber após {day}."
"""The customary wording on boletos, addressed to the cashier."""
CONDITIONS: Final = (
    _DISCOUNT_PERCENT, _DISCOUNT_AMOUNT, _FINE_PERCENT, _FINE_AMOUNT, _INTEREST_PERCENT, _INTEREST_AMOUNT, _LIMIT,
)  # fmt: skip


class Condition(Struct, frozen=True):
    """One of CONDITIONS, and the values it is filled with; percents in basis points."""

    text: str
    day: date
    percent_bps: int = 0
    amount_cents: int = 0

    def said(self, text: str, *, day: str, percent: str) -> str:
        """The sentence in full. `text` is the condition's own or its translation; `day` and `percent` are written as in
        that language."""
        return text.format(day=day, percent=percent, amount=brazilian.brl(self.amount_cents))


def conditions(
    terms: PaymentTerms | None, *, amount_cents: int, due: date, on: date | None = None
) -> Iterator[Condition]:
    """Discounts, then fine and interest, as registered at the bank; last the final day to pay, which every boleto has.
    Discounts that have ended before the day `on` are left out."""
    if terms is not None:
        for each in terms.discounts:
            if on is not None and effective_due_date(each.until) < on:
                continue
            text = _DISCOUNT_PERCENT if each.percent_bps else _DISCOUNT_AMOUNT
            yield Condition(text, each.until, each.percent_bps, discount_of(each, amount_cents))
        late = effective_due_date(due)
        if (fine := terms.fine) is not None:
            text = _FINE_PERCENT if fine.percent_bps else _FINE_AMOUNT
            yield Condition(text, late, fine.percent_bps, fine_of(fine, amount_cents))
        if (interest := terms.interest) is not None:
            text = _INTEREST_PERCENT if interest.month_bps else _INTEREST_AMOUNT
            yield Condition(text, late, interest.month_bps, interest.day_cents)
    yield Condition(_LIMIT, last_day(terms, due))


def portuguese_conditions(terms: PaymentTerms | None, *, amount_cents: int, due: date) -> tuple[str, ...]:
    """The conditions in Portuguese, for payers and merchants."""
    return tuple(
        _portuguese_sentence(each, each.text) for each in conditions(terms, amount_cents=amount_cents, due=due)
    )


def printed_conditions(terms: PaymentTerms | None, *, amount_cents: int, due: date) -> tuple[str, ...]:
    """The conditions in Portuguese, as printed on the boleto."""
    return tuple(
        _portuguese_sentence(each, _LIMIT_IN_PRINT if each.text == _LIMIT else each.text)
        for each in conditions(terms, amount_cents=amount_cents, due=due)
    )


def _portuguese_sentence(condition: Condition, text: str) -> str:
    return condition.said(text, day=brazilian.day(condition.day), percent=brazilian.amount(condition.percent_bps))
