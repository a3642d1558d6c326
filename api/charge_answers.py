"""Code that the charge routes share: answering with a charge, replaying a creation, finding a charge by reference."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from api.answers import Answer, encode
from api.body.reading import misspelt_fields
from api.context import ApiContext
from api.gate import approved, check_terms
from api.idempotency.guard import WAIT_S
from api.idempotency.replay import create_once, replay
from api.route import Call
from commands.charges.cancel import charge_of_reference
from commands.charges.create_boleto import BoletoRequest
from domain.boleto.codes import LAST_DUE
from domain.charge import DUAL
from domain.errors import Code, Refused
from domain.identifiers import parse_id
from domain.instants import day_of
from readmodels.charges.charge import ChargeDoc, ChargeProjection, present
from readmodels.charges.charge_list import METHODS
from runtime.metrics import BufferedCounter, charges_created_total
from runtime.postgres import session

_LOOKUPS_MAX: Final = 3
# Values that clients send in place of a charge_id (a UUID), each with the hint that its refusal carries.
_MISTAKEN_IDS: Final = (
    (re.compile(r"[{<:].*"), "put the charge_id that its creation answered in place of the name in the path."),
    (re.compile(r"[0-9]{20}"), "this looks like a nosso_numero. GET /v1/charges?nosso_numero= finds a boleto by it."),
    (re.compile(r"[0-9A-Za-z]{26,35}"), "this looks like a txid. GET /v1/charges?txid= finds a charge by it."),
    (
        re.compile(r"[0-9A-Za-z_-]{22}"),
        "this looks like a public_id, which opens the payer's page; a charge_id is a UUID.",
    ),
)
_created_counters = {
    (method, test): BufferedCounter(charges_created_total.labels(method, "test" if test else "production"))
    for method in METHODS
    for test in (True, False)
}


def charge_id_of(call: Call) -> UUID:
    """The charge_id in the path. Text that is no UUID is refused like the id of a charge that does not exist."""
    return parse_charge_id(call.path("charge_id"))


def parse_charge_id(text: str) -> UUID:
    """Parses a charge_id; Refused(CHARGE_NOT_FOUND) for any other text, with a hint of what the text looks like. The
    hint depends on the text alone, so it discloses nothing about what exists."""
    charge_id = parse_id(text)
    if charge_id is None:
        hint = next((hint for pattern, hint in _MISTAKEN_IDS if pattern.fullmatch(text)), None)
        raise Refused(Code.CHARGE_NOT_FOUND, message=hint and f"No such charge: {hint}")
    return charge_id


async def charge_answer(context: ApiContext, call: Call, charge_id: UUID) -> Answer:
    return Answer(encode(await _find_charge(context, call, charge_id)))


def create_charge(
    context: ApiContext,
    call: Call,
    operation: Callable[[], Awaitable[ChargeDoc | None]],
    warnings: tuple[str, ...] = (),
) -> Coroutine[Any, Any, Answer]:
    """Runs the creation once per key and answers with the charge. `warnings` are about the body, so a replay of the
    same body carries them too."""

    def count_and_present(doc: ChargeDoc) -> ChargeProjection:
        _created_counters[doc.payment_method, doc.test].inc()
        return _with_warnings(charge_projection(context, call, doc), warnings)

    find_replayed = partial(_replayed_charge, context, call, warnings)
    return create_once(context, call, operation, find_replayed, count_and_present, _location)


def _location(doc: ChargeDoc) -> str:
    return f"/v1/charges/{doc.charge_id}"


def body_warnings(call: Call, into: type[Struct]) -> tuple[str, ...]:
    """In the sandbox, a warning for each unknown field that looks like a misspelt field of `into`. In production
    unknown fields are ignored without a warning, like fields that a later version may add."""
    return misspelt_fields(call.body, into) if call.caller.test else ()


async def _replayed_charge(
    context: ApiContext, call: Call, warnings: tuple[str, ...], charge_id: UUID
) -> ChargeProjection:
    return _with_warnings(await _find_charge(context, call, charge_id), warnings)


def _with_warnings(charge: ChargeProjection, warnings: tuple[str, ...]) -> ChargeProjection:
    return replace(charge, warnings=warnings) if warnings else charge


async def issue_boleto(
    context: ApiContext,
    call: Call,
    request: BoletoRequest,
    account_id: UUID | None,
    *,
    due_field: str,
    warnings: tuple[str, ...] = (),
) -> Answer:
    """Answers 201 with the charge once the bank has registered its boleto; 200 when the key was already used for it.

    `account_id` is the body's, `due_field` the name that the body gives the due date.
    """
    if (used := await context.keys.find(call.key_name)) is not None:
        return await replay(context, call, used, partial(_replayed_charge, context, call, warnings))
    if not await approved(context, call):
        raise Refused(Code.KYC_REQUIRED)
    if request.kind == DUAL and not call.caller.test and await context.pix_suspended():
        raise Refused(Code.PIX_AVULSO_SUSPENDED)
    if account_id is not None and account_id != call.caller.account_id:
        raise Refused(Code.ACCOUNT_MISMATCH, fields={"account_id": "is not this token's account"})
    today = day_of(call.now)
    if request.due_on <= today:
        raise Refused(
            Code.INVALID_DUE_DATE,
            message="The due date of a new boleto must be after today in São Paulo.",
            fields={due_field: f"must be after today, at most {LAST_DUE}"},
        )
    discounts = () if request.terms is None else request.terms.discounts
    if past := {f"discounts.{at}.until": "has passed" for at, each in enumerate(discounts) if each.until < today}:
        raise Refused(Code.VALIDATION_ERROR, fields=past)
    await check_terms(context, call, request.integrador_code)
    # The deadline starts before the guard: waiting for an equal request and for the bank share one WAIT_S.
    deadline = asyncio.get_running_loop().time() + WAIT_S
    return await create_charge(context, call, partial(context.boletos.create, request, deadline), warnings)


async def with_reference(
    context: ApiContext,
    call: Call,
    external_id: str,
    act: Callable[[UUID], Awaitable[Answer]],
    *,
    boletos_only: bool = False,
) -> Answer:
    """Act on the pending charge with this external_id. If that charge is paid, cancelled or expired between lookup and
    act, another pending charge may have the same external_id: the lookup is repeated, up to _LOOKUPS_MAX times."""
    await context.charges.expire_overdue(call.caller.owner)
    lookups = 1
    while True:
        async with session(context.pool) as conn:
            charge_id = await charge_of_reference(
                conn, call.caller.owner, external_id, now=call.now, boletos_only=boletos_only
            )
        try:
            return await act(charge_id)
        except Refused as refused:
            if refused.code is not Code.CHARGE_NOT_PENDING or lookups == _LOOKUPS_MAX:
                raise
        lookups += 1


def check_one_reference(charge_id: object, external_id: object) -> None:
    if (charge_id is None) == (external_id is None):
        raise Refused(Code.CANCEL_REFERENCE_REQUIRED)


async def _find_charge(context: ApiContext, call: Call, charge_id: UUID) -> ChargeProjection:
    return charge_projection(context, call, await context.charges.find(charge_id, call.caller.owner))


def charge_projection(context: ApiContext, call: Call, doc: ChargeDoc) -> ChargeProjection:
    return present(doc, context.seal, app_url=context.settings.app_url, now=call.now)
