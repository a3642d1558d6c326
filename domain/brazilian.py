"""Amounts, instants and documents as people in Brazil write them, for pages, mails and paper."""

import re
from datetime import date, datetime, timedelta

from domain.instants import SAO_PAULO, day_of

_NO_BREAK = "\u00a0"
_DAY = re.compile(r"([0-9]{1,2})/([0-9]{1,2})/([0-9]{4}|[0-9]{2})")
_AMOUNT = re.compile(r"([0-9]{1,10}|[0-9]{1,3}(?:\.[0-9]{3}){1,3})(?:,([0-9]{1,2}))?")


def thousands(number: int) -> str:
    """12345 -> "12.345"."""
    return f"{number:,}".replace(",", ".")


def amount(cents: int) -> str:
    """123456 -> "1.234,56"."""
    return f"{thousands(cents // 100)},{cents % 100:02}"


def brl(cents: int) -> str:
    """123456 -> "R$ 1.234,56", with a no-break space."""
    return f"R${_NO_BREAK}{amount(cents)}"


def signed_brl(cents: int) -> str:
    """Like `brl`, with a minus sign in front below zero: -500 -> "−R$ 5,00"."""
    return f"−{brl(-cents)}" if cents < 0 else brl(cents)


def parse_brl(text: str, *, cents_max: int) -> int:
    """Returns the cents of an amount as people in Brazil type it: "10", "10,5", "1.234,56", with or without R$.

    ValueError for anything else, and for amounts outside 0,01 to `cents_max`. "10.50" is refused, because the point
    could mark thousands or decimals.
    """
    match = _AMOUNT.fullmatch(text.replace(_NO_BREAK, " ").removeprefix("R$").strip())
    if match is None:
        raise ValueError("not an amount")
    whole, decimals = match.groups(default="")
    cents = int(whole.replace(".", "")) * 100 + int(decimals.ljust(2, "0"))
    if not 0 < cents <= cents_max:
        raise ValueError("amount out of bounds")
    return cents


def iso_day(text: str) -> str:
    """ "31/12/2026", and "31/12/26" as LibreOffice writes it -> "2026-12-31"; any other text as it is."""
    if (typed := _DAY.fullmatch(text)) is None:
        return text
    year = typed[3] if len(typed[3]) == len("2026") else f"20{typed[3]}"
    return f"{year}-{typed[2]:0>2}-{typed[1]:0>2}"


def day(at: date) -> str:
    return f"{at.day:02}/{at.month:02}/{at.year:04}"


def moment(at: datetime) -> str:
    """ "21/11/2026 às 18:42", in Brasília time whatever the zone of `at`."""
    local = at.astimezone(SAO_PAULO)
    return f"{day(local)} às {local.hour:02}:{local.minute:02}"


def moment_exact(at: datetime) -> str:
    """Like `moment`, to the second: "21/11/2026 às 18:42:05", for comparison with another system's log."""
    return f"{moment(at)}:{at.second:02}"


def span(length: timedelta) -> str:
    """Returns a duration in its most suitable unit: "45 s", "39 min", "5 h", "3 dias"."""
    seconds = int(length.total_seconds())
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 7_200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h" if seconds < 172_800 else f"{seconds // 86_400} dias"


def moment_near(at: datetime, *, now: datetime) -> str:
    """Like `moment`, but "hoje às 18:42" on the same day in Brasília."""
    local = at.astimezone(SAO_PAULO)
    if local.date() == day_of(now):
        return f"hoje às {local.hour:02}:{local.minute:02}"
    return moment(at)


def short_id(text: str) -> str:
    """Returns the end of an identifier: "…9b1c0303". The beginning is its creation time, the same for all identifiers
    of one hour."""
    return f"…{text[-8:]}"


def document(digits: str) -> str:
    """Returns a CPF or CNPJ with its name, in full; any other text as it is."""
    if len(digits) == 14:
        return f"CNPJ {digits[:2]}.{digits[2:5]}.{digits[5:8]}/{digits[8:12]}-{digits[12:]}"
    if len(digits) == 11:
        return f"CPF {digits[:3]}.{digits[3:6]}.{digits[6:9]}-{digits[9:]}"
    return digits


def merchant_document(digits: str) -> str:
    """Returns a company's CNPJ in full, since it is public; a person's CPF masked as on the government's own pages."""
    if len(digits) == 11:
        return f"CPF ***.{digits[3:6]}.{digits[6:9]}-**"
    return document(digits) if len(digits) == 14 else ""


def phone(e164: str) -> str:
    """ "+5511987654321" -> "(11) 98765-4321"; a number of another country as it is."""
    match = re.fullmatch(r"\+55([1-9][0-9])([0-9]{4,5})([0-9]{4})", e164)
    return f"({match[1]}) {match[2]}-{match[3]}" if match else e164


def boleto_line(digits: str) -> str:
    """Returns the 47 digits of a linha digitavel in the groups that are printed; any other text as it is."""
    if len(digits) != 47 or not digits.isascii() or not digits.isdigit():
        return digits
    return (
        f"{digits[:5]}.{digits[5:10]} {digits[10:15]}.{digits[15:21]} {digits[21:26]}.{digits[26:32]} "
        f"{digits[32]} {digits[33:]}"
    )
