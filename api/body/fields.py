"""Field types that several bodies share. Each type states its bound once: api/body/reading.py enforces it, and the
OpenAPI document is made from it."""

from collections.abc import Callable, Collection
from datetime import date
from typing import Annotated, Any, Final
from uuid import UUID

from msgspec import Meta

from api.body.reading import TEXT_PATTERN
from banks.protocol import DESCRIPTION_CHARACTERS_MAX
from domain.boleto.codes import LAST_DUE
from domain.charge import DESCRIPTION_MAX, EXTERNAL_ID_MAX, LIFETIME_MIN
from domain.errors import Code, Refused
from domain.identifiers import UUID_REGEX
from domain.instants import parse_day
from domain.money import BOLETO_CENTS_MAX, PIX_CENTS_MAX, parse_amount
from domain.payer import EMAIL_MAX, PAYER_ADDRESS

METADATA_KEYS_MAX: Final = 20
METADATA_KEY_MAX: Final = 40
METADATA_VALUE_MAX: Final = 500
LIFETIME_DEFAULT_S: Final = 86_400
LIFETIME_MIN_S: Final = int(LIFETIME_MIN.total_seconds())
LIFETIME_MAX_S: Final = 2_592_000
_NOT_BLANK: Final = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"


def matching(regex: str, fault: str, *, code: Code = Code.VALIDATION_ERROR, **schema: Any) -> Meta:
    r"""The whole text must match. The pattern ends in `\Z` because Python's `$` also matches before a final line feed;
    the OpenAPI document writes `$`."""
    return Meta(pattern=rf"^{regex}\Z", extra_json_schema=schema, extra={"fault": fault, "code": code})


def checked(check: Callable[[str], object], fault: str, *, code: Code = Code.VALIDATION_ERROR, **schema: Any) -> Meta:
    """A rule that no pattern can express: `check` raises ValueError for a wrong value. `schema` documents the rule."""
    return Meta(extra_json_schema=schema, extra={"fault": fault, "code": code, "check": check})


def choice(allowed: Collection[str], fault: str = "") -> Meta:
    def check(value: str) -> None:
        if value not in allowed:
            raise ValueError

    return checked(check, fault or f"must be one of {', '.join(allowed)}", enum=list(allowed))


def text(x_max: int) -> Meta:
    """Free text without control characters."""
    return Meta(max_length=x_max, pattern=TEXT_PATTERN, extra={"fault": "must not contain control characters"})


def not_blank(x_max: int) -> Meta:
    fault = "must not be empty or contain control characters"
    return Meta(min_length=1, max_length=x_max, pattern=_NOT_BLANK, extra={"fault": fault})


def due_day(text: str) -> date:
    """Parses a due date; ValueError for text that is no day, or a day later than a boleto's barcode can carry. Past
    days are let through: the callers check them."""
    day = parse_day(text)
    if day > LAST_DUE:
        raise ValueError(f"after {LAST_DUE}")
    return day


def own_account(account_id: str | None) -> UUID | None:
    return None if account_id is None else UUID(account_id)


def boleto_cents(amount: str) -> int:
    """The cents of a text that has passed as `Amount`; Refused(AMOUNT_INVALID) for more than a boleto can carry."""
    try:
        return parse_amount(amount, cents_max=BOLETO_CENTS_MAX)
    except ValueError:
        raise Refused(Code.AMOUNT_INVALID, fields={"amount": _BOLETO_AMOUNT_FAULT}) from None


def pix_cents(amount: str) -> int:
    return parse_amount(amount, cents_max=PIX_CENTS_MAX)


_AMOUNT_FAULT: Final = 'must be a string such as "10.50", greater than 0'
_BOLETO_AMOUNT_FAULT: Final = f'{_AMOUNT_FAULT}, at most "99999999.99"'
_AMOUNT: Final = r"(?!0+(\.0{1,2})?$)[0-9]{1,10}(\.[0-9]{1,2})?"
DAY: Final = {"type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}
INSTANT: Final = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$",
    "examples": ["2026-11-21T09:54:00.123Z"],
}
INSTANT_GIVEN: Final = INSTANT | {"pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$"}
"""An instant in a request body, in any precision. INSTANT is the form in our answers."""
_lifetime: Final = Meta(ge=LIFETIME_MIN_S, le=LIFETIME_MAX_S, extra={"code": Code.EXPIRES_IN_INVALID})

# A UUID in a body may have upper-case digits (RFC 4122, section 3); an id in a path has one spelling.
Id = Annotated[str, matching(UUID_REGEX.replace("a-f", "a-fA-F"), "must be a UUID", format="uuid")]
OwnAccount = Annotated[Id | None, Meta(description="Id of the account; it must be the token's own.")]
Amount = Annotated[str, matching(_AMOUNT, _AMOUNT_FAULT, code=Code.AMOUNT_INVALID, examples=["10.50"])]
BoletoAmount = Annotated[
    str,
    matching(
        r"(?!0+(\.0{1,2})?$)0{0,2}[0-9]{1,8}(\.[0-9]{1,2})?",
        _BOLETO_AMOUNT_FAULT,
        code=Code.AMOUNT_INVALID,
        examples=["150.00"],
    ),
]
DueDay = Annotated[
    str, checked(due_day, f"must be an existing day YYYY-MM-DD, at most {LAST_DUE}", code=Code.INVALID_DUE_DATE, **DAY)
]
Lifetime = Annotated[int, _lifetime]
Email = Annotated[str, Meta(max_length=EMAIL_MAX), matching(PAYER_ADDRESS, "must be an e-mail address")]
Reference = Annotated[str, text(EXTERNAL_ID_MAX)]
ExternalId = Annotated[Reference | None, Meta(description="Your own reference for the charge; it need not be unique.")]
Description = Annotated[str, text(DESCRIPTION_MAX)]
BankDescription = Annotated[
    Description | None,
    Meta(
        description="Your own description; the bank gets it in plain letters, cut at "
        f"{DESCRIPTION_CHARACTERS_MAX} characters."
    ),
]
Metadata = Annotated[
    dict[Annotated[str, not_blank(METADATA_KEY_MAX)], Annotated[str, text(METADATA_VALUE_MAX)]],
    Meta(
        max_length=METADATA_KEYS_MAX,
        description=(
            f"Your own keys and values, returned as you gave them: at most {METADATA_KEYS_MAX} keys of 1 to "
            f"{METADATA_KEY_MAX} characters, with text values of at most {METADATA_VALUE_MAX} characters. Put no data "
            "of payers here: it stays when a payer's data is erased."
        ),
        examples=[{"order_id": "1001", "store": "recife-2"}],
    ),
]
IntegradorCode = Annotated[
    Annotated[str, matching("INTG-[A-Z0-9]{6}", "must be INTG- and 6 of A-Z 0-9", code=Code.INTEGRADOR_CODE_INVALID)]
    | None,
    Meta(description="Code of the partner who brought the charge; it never changes."),
]
