"""Withdrawals of the balance to the account's own PIX key (contract section 13). Production only."""

from functools import partial
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct

from api.answers import Answer, encode
from api.body.fields import Amount, BankDescription, Reference, pix_cents
from api.body.reading import convert_body
from api.context import ApiContext
from api.idempotency.replay import create_once, replay
from api.paging import PagedList, page_of
from api.route import Call, Route, routes_of
from commands.money.withdraw import NewWithdrawal, cancel_withdrawal
from domain.errors import Code, required
from domain.identifiers import parse_id
from domain.mode import Mode
from domain.money import reais
from domain.withdrawal import MINIMUM_CENTS
from readmodels.money.withdrawal import (
    WithdrawalDoc,
    WithdrawalFilters,
    WithdrawalProjection,
    project_withdrawal,
    withdrawal_doc,
    withdrawal_page,
)
from readmodels.page import TimePosition
from runtime.ids import new_id
from runtime.postgres import session, transaction


class CreateWithdrawal(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The withdrawal to make. The money goes to the PIX key registered for the account, and to no other."""

    amount: Annotated[
        Amount, Meta(description=f"Amount in reais; less than {reais(MINIMUM_CENTS)} is refused with 422.")
    ]
    description: BankDescription = None
    external_id: Annotated[
        Reference | None,
        Meta(description="Your own reference for the withdrawal; it need not be unique."),
    ] = None


WithdrawalPage = page_of(WithdrawalProjection, "WithdrawalPage")


async def create(context: ApiContext, call: Call) -> Answer:
    """Answers 201 with the pending withdrawal; 200 when the key made it before. A worker sends it to the bank
    afterwards."""
    body = convert_body(call.body, CreateWithdrawal)

    async def find(withdrawal_id: UUID) -> WithdrawalProjection:
        return project_withdrawal(await _find_withdrawal(context, call, withdrawal_id))

    if (used := await context.keys.find(call.key_name)) is not None:
        return await replay(context, call, used, find)
    new = NewWithdrawal(
        account_id=call.caller.account_id,
        key=call.key,
        fingerprint=call.fingerprint,
        withdrawal_id=new_id(),
        amount_cents=pix_cents(body.amount),
        description=body.description,
        external_id=body.external_id,
        actor=call.caller.client_id,
        request_id=call.request_id,
    )
    create = partial(context.withdrawals.create, new, scopes=call.caller.scopes)
    return await create_once(context, call, create, find, project_withdrawal, _location)


async def look_up(context: ApiContext, call: Call) -> Answer:
    return Answer(encode(project_withdrawal(await _find_withdrawal(context, call, _withdrawal_id(call)))))


async def list_withdrawals(context: ApiContext, call: Call) -> Answer:
    return await WITHDRAWALS.read(context, call).page(withdrawal_page, project_withdrawal)


async def cancel(context: ApiContext, call: Call) -> Answer:
    """Cancels a pending withdrawal. When this answers, the money is back in the wallet."""
    withdrawal_id = _withdrawal_id(call)
    async with transaction(context.pool) as conn:
        doc = await cancel_withdrawal(
            conn,
            withdrawal_id,
            call.caller.account_id,
            actor=call.caller.client_id,
            request_id=call.request_id,
            now=call.now,
        )
    return Answer(encode(project_withdrawal(doc)))


async def _find_withdrawal(context: ApiContext, call: Call, withdrawal_id: UUID) -> WithdrawalDoc:
    async with session(context.pool) as conn:
        return required(await withdrawal_doc(conn, withdrawal_id, call.caller.account_id), Code.WITHDRAWAL_NOT_FOUND)


def _location(doc: WithdrawalDoc) -> str:
    return f"{_PATH}/{doc.withdrawal_id}"


def _withdrawal_id(call: Call) -> UUID:
    return required(parse_id(call.path("withdrawal_id")), Code.WITHDRAWAL_NOT_FOUND)


WITHDRAWALS = PagedList(
    "withdrawals",
    TimePosition,
    WithdrawalFilters,
    {"external_id": "Only withdrawals with exactly this `external_id`.", "created": "Requested"},
)
_PATH: Final = "/v1/withdrawals"

ROUTES = routes_of(
    "Withdrawals",
    Route(
        method="POST",
        path=_PATH,
        name="createWithdrawal",
        summary="Withdraw money from the balance to the account's PIX key",
        handle=create,
        scopes=("withdrawals:create",),
        key=True,
        body=CreateWithdrawal,
        answers={201: WithdrawalProjection, 200: WithdrawalProjection},
        errors=(
            Code.AMOUNT_INVALID,
            Code.IDEMPOTENCY_KEY_REUSED,
            Code.IDEMPOTENCY_IN_PROGRESS,
            Code.KYC_REQUIRED,
            Code.WITHDRAWAL_BELOW_MINIMUM,
            Code.INSUFFICIENT_BALANCE,
        ),
    ),
    Route(
        method="GET",
        path=_PATH,
        name="listWithdrawals",
        summary="List withdrawals",
        handle=list_withdrawals,
        scopes=("payments:read",),
        query=WITHDRAWALS.parameters,
        answers={200: WithdrawalPage},
        errors=WITHDRAWALS.errors,
    ),
    Route(
        method="GET",
        path=_PATH + "/{withdrawal_id:str}",
        name="getWithdrawal",
        summary="Look up a withdrawal",
        handle=look_up,
        scopes=("payments:read",),
        answers={200: WithdrawalProjection},
        errors=(Code.WITHDRAWAL_NOT_FOUND,),
    ),
    Route(
        method="POST",
        path=_PATH + "/{withdrawal_id:str}/cancel",
        name="cancelWithdrawal",
        summary="Cancel a pending withdrawal",
        handle=cancel,
        scopes=("withdrawals:create",),
        answers={200: WithdrawalProjection},
        errors=(Code.WITHDRAWAL_NOT_FOUND, Code.WITHDRAWAL_NOT_CANCELLABLE),
    ),
    mode=Mode.PRODUCTION,
)
