"""Fine, interest and discounts in the forms of a boleto and of a schedule: read from the form, and filled in from a
charge."""

from collections.abc import Iterable, Iterator
from datetime import date
from typing import Final

from domain.boleto.terms import (
    COMPANY_LIMIT,
    DISCOUNTS_MAX,
    PAYABLE_DAYS_DEFAULT,
    PAYABLE_DAYS_MAX,
    PAYABLE_DAYS_MIN,
    PERCENT_BPS_MAX,
    PERSON_LIMIT,
    Discount,
    Fine,
    Interest,
    PaymentTerms,
    wrong_terms,
)
from domain.brazilian import amount, day
from domain.money import BOLETO_CENTS_MAX
from domain.schedules.recurrence import ISSUE_DAYS_BEFORE_MAX
from domain.schedules.terms import RelativeDiscount, ScheduleTerms, wrong_schedule_terms
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
SCHEDULE_FIELDS: Final = (
    "fine", "interest", "payable_days", *DISCOUNTS, *(f"{name}_days" for name in DISCOUNTS),
)  # fmt: skip


def read_terms(
    filled: Filled, *, amount_cents: int | None, due_on: date | None, today: date, company: bool
) -> PaymentTerms | None:
    """Returns the terms that the form has; None when their fields are empty. Faults are in `filled`."""
    if not any(filled.value(name) for name in FIELDS):
        return None
    fine, interest, payable_days = _late_payment_terms(filled)
    terms = PaymentTerms(fine=fine, interest=interest, discounts=_discounts(filled, today), payable_days=payable_days)
    if amount_cents is not None and due_on is not None and not filled.faults:
        for path in wrong_terms(terms, amount_cents=amount_cents, due=due_on, company=company):
            filled.wrong(*_terms_fault(path, due_on, company=company))
    return terms


def read_schedule_terms(
    filled: Filled, *, amount_cents: int | None, issue_days_before: int, company: bool
) -> ScheduleTerms | None:
    """Returns the terms for all charges of a schedule, with discounts in days before each due date."""
    if not any(filled.value(name) for name in SCHEDULE_FIELDS):
        return None
    fine, interest, payable_days = _late_payment_terms(filled)
    terms = ScheduleTerms(
        fine=fine, interest=interest, discounts=_relative_discounts(filled), payable_days=payable_days
    )
    if amount_cents is not None and not filled.faults:
        wrong = wrong_schedule_terms(
            terms, amount_cents=amount_cents, issue_days_before=issue_days_before, company=company
        )
        for path in wrong:
            filled.wrong(*_schedule_fault(path, issue_days_before, company=company))
    return terms


def form_values(filled: Filled, fields: Iterable[str]) -> dict[str, object]:
    """Returns the values for templates/painel/terms_fields.html, which is unfolded when one of its fields is filled."""
    return {
        "fine_kinds": FINE_KINDS,
        "interest_kinds": INTEREST_KINDS,
        "discount_kinds": DISCOUNT_KINDS,
        "discounts": DISCOUNTS,
        "with_terms": any(filled.value(name) for name in fields),
    }


def terms_fields(terms: PaymentTerms | None) -> dict[str, str]:
    """Returns the fields for a charge that is made again. Discounts are left out: their days were the old charge's."""
    fields = dict(DEFAULTS)
    if terms is None:
        return fields
    if (fine := terms.fine) is not None:
        fields |= {"fine": amount(fine.percent_bps or fine.amount_cents)}
        fields["fine_kind"] = PERCENT if fine.percent_bps else "amount"
    if (interest := terms.interest) is not None:
        fields |= {"interest": amount(interest.month_bps or interest.day_cents)}
        fields["interest_kind"] = PERCENT if interest.month_bps else "amount"
    if terms.payable_days:
        fields["payable_days"] = str(terms.payable_days)
    return fields


def _percent_or_cents(filled: Filled, name: str, kind: str, kinds: dict[str, str]) -> tuple[int, int]:
    """Returns basis points and cents, of which at least one is 0."""
    if not filled.value(name):
        return 0, 0
    if filled.choice(kind, kinds) == PERCENT:
        return filled.percent(name, PERCENT_BPS_MAX) or 0, 0
    return 0, filled.cents(name, BOLETO_CENTS_MAX) or 0


def _late_payment_terms(filled: Filled) -> tuple[Fine | None, Interest | None, int]:
    """Returns the fine, the interest, and the days after the due date on which the boleto can still be paid."""
    fine_bps, fine_cents = _percent_or_cents(filled, "fine", "fine_kind", FINE_KINDS)
    month_bps, day_cents = _percent_or_cents(filled, "interest", "interest_kind", INTEREST_KINDS)
    days = filled.whole("payable_days", PAYABLE_DAYS_MIN, PAYABLE_DAYS_MAX)
    fine = Fine(percent_bps=fine_bps, amount_cents=fine_cents) if fine_bps or fine_cents else None
    interest = Interest(month_bps=month_bps, day_cents=day_cents) if month_bps or day_cents else None
    return fine, interest, days or (PAYABLE_DAYS_DEFAULT if fine or interest else 0)


def _discounts(filled: Filled, today: date) -> tuple[Discount, ...]:
    """Returns the discounts that have both a value and a day, in the order of the form."""
    discounts: list[Discount] = []
    for name in _filled_discounts(filled, "until"):
        bps, cents = _percent_or_cents(filled, name, "discount_kind", DISCOUNT_KINDS)
        last = filled.day(f"{name}_until", first=today)
        if last is not None and (bps or cents):
            discounts.append(Discount(until=last, percent_bps=bps, amount_cents=cents))
    return tuple(discounts)


def _relative_discounts(filled: Filled) -> tuple[RelativeDiscount, ...]:
    """Returns the discounts of a schedule, whose days are counted back from each due date."""
    discounts: list[RelativeDiscount] = []
    for name in _filled_discounts(filled, "days"):
        bps, cents = _percent_or_cents(filled, name, "discount_kind", DISCOUNT_KINDS)
        days = filled.whole(f"{name}_days", 0, ISSUE_DAYS_BEFORE_MAX)
        if not filled.value(f"{name}_days"):
            filled.wrong(f"{name}_days", "Preencha este campo.")
        if days is not None and (bps or cents):
            discounts.append(RelativeDiscount(days_before=days, percent_bps=bps, amount_cents=cents))
    return tuple(discounts)


def _filled_discounts(filled: Filled, suffix: str) -> Iterator[str]:
    """Yields the names of the discounts with a value or a day. A missing value or a skipped discount is a fault."""
    empty = False
    for name in DISCOUNTS:
        if not filled.value(name) and not filled.value(f"{name}_{suffix}"):
            empty = True
            continue
        if empty:
            filled.wrong(name, "Preencha os descontos na ordem, sem pular nenhum.")
        if not filled.value(name):
            filled.wrong(name, "Informe o desconto.")
        yield name


def _terms_fault(path: str, due_on: date | None, *, company: bool) -> tuple[str, str]:
    """Returns the form's field for a path of the API, and the sentence to show beside it."""
    limit = COMPANY_LIMIT if company else PERSON_LIMIT
    party = "uma empresa" if company else "uma pessoa"
    first, *rest = path.split(".")
    if first == "fine":
        return "fine", f"A multa de {party} é de no máximo {amount(limit.fine_bps)}% do valor."
    if first == "interest":
        return "interest", f"Os juros de {party} são de no máximo {amount(limit.month_bps)}% ao mês."
    name = list(DISCOUNTS)[int(rest[0])]
    if rest[-1] == "until" and due_on is not None:
        return f"{name}_until", f"Os dias vão em ordem, o último até o vencimento ({day(due_on)})."
    return name, "O desconto precisa deixar algo a pagar."


def _schedule_fault(path: str, issue_days_before: int, *, company: bool) -> tuple[str, str]:
    first, *rest = path.split(".")
    if first == "discounts" and rest[-1] == "days_before_due":
        fault = f"Os dias vão do maior para o menor, e o maior é a antecedência da emissão ({issue_days_before})."
        return f"{list(DISCOUNTS)[int(rest[0])]}_days", fault
    return _terms_fault(path, None, company=company)
