"""Fine, interest and discounts in the form of a new boleto: read, and filled in again from a charge."""

from datetime import date
from typing import Final

from domain.boleto.terms import (
    COMPANY_LIMIT,
    DISCOUNTS_MAX,
    PAYABLE_DAYS_DEFAULT,
    PAYABLE_DAYS_MAX,
    PAYABLE_DAYS_MIN,
    PERSON_LIMIT,
    Discount,
    Fine,
    Interest,
    PaymentTerms,
    wrong_terms,
)
from domain.brazilian import amount, day
from domain.money import BOLETO_CENTS_MAX
from web.painel.fields import Filled

PERCENT: Final = "percent"
FINE_KINDS: Final = {PERCENT: "% do valor", "amount": "R$"}
INTEREST_KINDS: Final = {PERCENT: "% ao mês", "amount": "R$ por dia"}
DISCOUNT_KINDS: Final = {PERCENT: "% do valor", "amount": "R$"}
DISCOUNTS: Final = {"discount_first": "Primeiro", "discount_second": "Segundo", "discount_third": "Terceiro"}
assert len(DISCOUNTS) == DISCOUNTS_MAX
DEFAULTS: Final = {"fine_kind": PERCENT, "interest_kind": PERCENT, "discount_kind": "amount"}
FIELDS: Final = (
    "fine", "interest", "payable_days", *DISCOUNTS, *(f"{name}_until" for name in DISCOUNTS),
)  # fmt: skip
_PERCENT_BPS_MAX: Final = 9_999


def read_terms(
    filled: Filled, *, amount_cents: int | None, due_on: date | None, today: date, company: bool
) -> PaymentTerms | None:
    """What the form says; None when it says nothing. Faults are in `filled`."""
    if not any(filled.value(name) for name in FIELDS):
        return None
    fine_bps, fine_cents = _either(filled, "fine", "fine_kind", FINE_KINDS)
    month_bps, day_cents = _either(filled, "interest", "interest_kind", INTEREST_KINDS)
    discounts = _discounts(filled, today)
    days = filled.whole("payable_days", PAYABLE_DAYS_MIN, PAYABLE_DAYS_MAX)
    late = fine_bps or fine_cents or month_bps or day_cents
    terms = PaymentTerms(
        fine=Fine(percent_bps=fine_bps, amount_cents=fine_cents) if fine_bps or fine_cents else None,
        interest=Interest(month_bps=month_bps, day_cents=day_cents) if month_bps or day_cents else None,
        discounts=discounts,
        payable_days=days or (PAYABLE_DAYS_DEFAULT if late else 0),
    )
    if amount_cents is not None and due_on is not None and not filled.faults:
        for path in wrong_terms(terms, amount_cents=amount_cents, due=due_on, company=company):
            filled.wrong(*_fault(path, due_on, company=company))
    return terms


def terms_fields(terms: PaymentTerms | None) -> dict[str, str]:
    """Of a charge that is made again: its discounts had days of their own, and are not filled in."""
    shown = dict(DEFAULTS)
    if terms is None:
        return shown
    if (fine := terms.fine) is not None:
        shown |= {"fine": amount(fine.percent_bps or fine.amount_cents)}
        shown["fine_kind"] = PERCENT if fine.percent_bps else "amount"
    if (interest := terms.interest) is not None:
        shown |= {"interest": amount(interest.month_bps or interest.day_cents)}
        shown["interest_kind"] = PERCENT if interest.month_bps else "amount"
    if terms.payable_days:
        shown["payable_days"] = str(terms.payable_days)
    return shown


def _either(filled: Filled, name: str, kind: str, kinds: dict[str, str]) -> tuple[int, int]:
    """Hundredths of a percent, and cents: one of the two, or neither."""
    if not filled.value(name):
        return 0, 0
    if filled.choice(kind, kinds) == PERCENT:
        return filled.percent(name, _PERCENT_BPS_MAX) or 0, 0
    return 0, filled.cents(name, BOLETO_CENTS_MAX) or 0


def _discounts(filled: Filled, today: date) -> tuple[Discount, ...]:
    """Those with a value or a day, in the order of the form."""
    found: list[Discount] = []
    empty = False
    for name in DISCOUNTS:
        if not filled.value(name) and not filled.value(f"{name}_until"):
            empty = True
            continue
        if empty:
            filled.wrong(name, "Preencha os descontos na ordem, sem pular nenhum.")
        bps, cents = _either(filled, name, "discount_kind", DISCOUNT_KINDS)
        last = filled.day(f"{name}_until", first=today)
        if not filled.value(name):
            filled.wrong(name, "Informe o desconto.")
        if last is not None and (bps or cents):
            found.append(Discount(until=last, percent_bps=bps, amount_cents=cents))
    return tuple(found)


def _fault(path: str, due_on: date, *, company: bool) -> tuple[str, str]:
    """The form's field for a path of the API, and its sentence."""
    limit = COMPANY_LIMIT if company else PERSON_LIMIT
    of = "uma empresa" if company else "uma pessoa"
    first, *rest = path.split(".")
    if first == "fine":
        return "fine", f"A multa de {of} é de no máximo {amount(limit.fine_bps)}% do valor."
    if first == "interest":
        return "interest", f"Os juros de {of} são de no máximo {amount(limit.month_bps)}% ao mês."
    name = list(DISCOUNTS)[int(rest[0])]
    if rest[-1] == "until":
        return f"{name}_until", f"Os dias vão em ordem, o último até o vencimento ({day(due_on)})."
    return name, "O desconto precisa deixar algo a pagar."
