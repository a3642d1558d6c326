"""Fine, interest and discounts at the simulated bank: read from requests by the guide's rules, shown in the detail."""

import re
from datetime import date, timedelta
from typing import Any, Final

from msgspec import Raw, Struct

from banks.banco_do_brasil.terms import AMOUNT, DISCOUNTS, PERCENT
from domain.boleto.terms import AmountDue, Discount, Fine, Interest, PaymentTerms, discount_of
from domain.money import reais

_NUMBER = re.compile(r"([0-9]{1,8})(?:\.([0-9]{1,2}))?")
_DAY = re.compile(r"([0-9]{2})\.([0-9]{2})\.([0-9]{4})")
_WHOLE_BPS: Final = 10_000
_LATE_DAYS_MAX: Final = 999


class WrongTerms(ValueError):
    """A rule of the guide is broken; the text is the name of the field."""


class WireTerms(Struct, frozen=True):
    """The terms of a registration: `fine_from` is the first day of the fine, `late_days` counts from the due date."""

    terms: PaymentTerms | None
    fine_from: date | None
    late_days: int


def read_terms(body: dict[str, Any], *, amount_cents: int, due_on: date) -> WireTerms:
    """Read the terms of a registration. WrongTerms names the first field that breaks a rule of the guide."""
    late_days = body.get("numeroDiasLimiteRecebimento", 0) if body.get("indicadorAceiteTituloVencido") == "S" else 0
    if type(late_days) is not int or not 0 <= late_days <= _LATE_DAYS_MAX:
        raise WrongTerms("numeroDiasLimiteRecebimento")
    interest = _object(body, "jurosMora", (0, AMOUNT, PERCENT, 3))
    fine = _object(body, "multa", (0, AMOUNT, PERCENT))
    day_cents, month_bps = _value(interest, "jurosMora")
    fine_cents, fine_bps = _value(fine, "multa")
    fine_from = read_day(fine.get("data")) if fine_cents or fine_bps else None
    if fine_cents or fine_bps:
        _check_fine(fine_from, due_on, late_days)
    discounts = _discounts(body, amount_cents=amount_cents, due_on=due_on)
    terms = PaymentTerms(
        fine=Fine(amount_cents=fine_cents, percent_bps=fine_bps) if fine_from else None,
        interest=Interest(day_cents=day_cents, month_bps=month_bps) if day_cents or month_bps else None,
        discounts=discounts,
    )
    return WireTerms(None if terms == PaymentTerms() else terms, fine_from, late_days)


def shown_terms(terms: PaymentTerms | None, fine_from: date | None, late_days: int, due_on: date) -> dict[str, Any]:
    """Return the terms as fields of the detail."""
    shown: dict[str, Any] = {"quantidadeDiaPrazoLimiteRecebimento": late_days}
    if late_days:
        shown["dataLimiteRecebimentoTitulo"] = day_text(due_on + timedelta(days=late_days))
    if terms is None:
        return shown
    if (fine := terms.fine) is not None and fine_from is not None:
        shown |= {
            "codigoTipoMulta": AMOUNT if fine.amount_cents else PERCENT,
            "valorMultaTituloCobranca": json_number(fine.amount_cents),
            "percentualMultaTitulo": json_number(fine.percent_bps),
            "dataMultaTitulo": day_text(fine_from),
        }
    if (interest := terms.interest) is not None:
        shown |= {
            "codigoTipoJuroMora": AMOUNT if interest.day_cents else PERCENT,
            "valorJuroMoraTitulo": json_number(interest.day_cents),
            "percentualJuroMoraTitulo": json_number(interest.month_bps),
        }
    for which, discount in zip(("", "Segundo", "Terceiro"), terms.discounts, strict=False):
        shown |= {
            f"codigo{which}DescontoTitulo": AMOUNT if discount.amount_cents else PERCENT,
            f"valor{which}DescontoTitulo": json_number(discount.amount_cents),
            f"percentual{which}DescontoTitulo": json_number(discount.percent_bps),
            f"data{which}DescontoTitulo": day_text(discount.until),
        }
    return shown


def due_value(amount_cents: int, asked: AmountDue) -> dict[str, str]:
    """Return `valor` in the payload of a charge with a due date: the amount that the payer's bank collects that day,
    with its non-zero parts."""
    parts = {"multa": asked.fine_cents, "juros": asked.interest_cents, "desconto": asked.discount_cents}
    return {
        "original": reais(amount_cents),
        **{name: reais(cents) for name, cents in parts.items() if cents},
        "final": reais(asked.total_cents),
    }


def read_fine_from(change: object, *, due_on: date, late_days: int) -> date:
    """Read the first day of the fine from a PATCH."""
    given = change if isinstance(change, dict) else {}
    begins = read_day(given.get("dataInicioMulta"))
    _check_fine(begins, due_on, late_days)
    assert begins is not None
    return begins


def read_late_days(change: object) -> int:
    days = change.get("quantidadeDiasAceite") if isinstance(change, dict) else None
    if type(days) is not int or not 0 < days <= _LATE_DAYS_MAX:
        raise WrongTerms("alteracaoPrazo")
    return days


def read_day(given: object) -> date | None:
    match = _DAY.fullmatch(given) if isinstance(given, str) else None
    try:
        return date(int(match[3]), int(match[2]), int(match[1])) if match is not None else None
    except ValueError:
        return None


def _check_fine(begins: date | None, due_on: date, late_days: int) -> None:
    """Check that the fine begins strictly after the due date and before the last day on which the boleto is
    accepted."""
    if begins is None or not due_on < begins < due_on + timedelta(days=late_days):
        raise WrongTerms("multa.data")


def _discounts(body: dict[str, Any], *, amount_cents: int, due_on: date) -> tuple[Discount, ...]:
    found: list[Discount] = []
    first = _object(body, DISCOUNTS[0], (0, AMOUNT, PERCENT))
    named = [name for name in DISCOUNTS if body.get(name) is not None]
    if named != list(DISCOUNTS[: len(named)]) or (len(named) > 1 and not first.get("tipo")):
        raise WrongTerms(named[-1])  # each discount needs the previous one
    for name in named if first.get("tipo") else ():
        given = body[name]
        if not isinstance(given, dict):
            raise WrongTerms(name)
        cents, bps = _value({**given, "tipo": first["tipo"]}, name)
        until = read_day(given.get("dataExpiracao"))
        if until is None or until > due_on or (found and until <= found[-1].until):
            raise WrongTerms(f"{name}.dataExpiracao")
        discount = Discount(until=until, amount_cents=cents, percent_bps=bps)
        if bps >= _WHOLE_BPS or discount_of(discount, amount_cents) >= amount_cents:
            raise WrongTerms(name)
        found.append(discount)
    return tuple(found)


def _object(body: dict[str, Any], name: str, kinds: tuple[int, ...]) -> dict[str, Any]:
    given = body.get(name)
    if given is None:
        return {}
    if not isinstance(given, dict) or type(given.get("tipo")) is not int or given["tipo"] not in kinds:
        raise WrongTerms(f"{name}.tipo")
    return given


def _value(given: dict[str, Any], name: str) -> tuple[int, int]:
    """Return cents and hundredths of a percent; by the kind, one of the two is 0."""
    if given.get("tipo") not in (AMOUNT, PERCENT):
        return 0, 0
    key = "valor" if given["tipo"] == AMOUNT else "porcentagem"
    said = given.get(key)
    match = _NUMBER.fullmatch(f"{said:.2f}" if isinstance(said, int | float) and not isinstance(said, bool) else "")
    hundredths = 0 if match is None else int(match[1]) * 100 + int(match[2] or 0)
    if not hundredths:
        raise WrongTerms(f"{name}.{key}")
    return (hundredths, 0) if given["tipo"] == AMOUNT else (0, hundredths)


def json_number(hundredths: int) -> Raw:
    """Return a JSON number with two decimals, of reais or of percent."""
    return Raw(reais(hundredths).encode())


def day_text(day: date) -> str:
    return day.strftime("%d.%m.%Y")
