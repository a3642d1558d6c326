"""Withdrawals to the account's own PIX key: the balance that can be withdrawn, the form that asks for a withdrawal, the
list with the outcome of each, and the owner's switch for the daily withdrawal.

Production only. The forms run the same commands as the API; the form's id is the Idempotency-Key.
"""

from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from litestar.response import Response

from banks.protocol import DESCRIPTION_CHARACTERS_MAX
from commands.money.fees import own_terms
from commands.money.withdraw import NewWithdrawal, cancel_withdrawal, create_withdrawal, end_daily, set_daily
from commands.people.audit import AlreadySent
from commands.people.tell import mail_owners
from domain.brazilian import brl
from domain.errors import Code, Refused
from domain.mode import Mode
from domain.money import PIX_CENTS_MAX, reais
from domain.withdrawal import MINIMUM_CENTS
from readmodels.money.ledger import find_balance
from readmodels.money.withdrawal import (
    WithdrawalDoc,
    WithdrawalFilters,
    find_daily_withdrawal_floor,
    withdrawal_page,
)
from readmodels.page import TimePosition
from readmodels.reports.csv_lines import Cents
from runtime.coordination.lanes import WITHDRAWAL_ORDERS
from runtime.ids import new_id
from runtime.postgres import session
from sql import Connection
from web.painel.auth.step_up import require_step_up
from web.painel.csv_export import Columns
from web.painel.fields import Filled
from web.painel.labels import REFUND_FAILURES, REFUSED, WITHDRAWAL_STATES
from web.painel.list_page import ListPage
from web.painel.lists import ListQuery
from web.painel.money.payout_key import ShownPayout, ask_for_payout_key, shown_payout
from web.painel.page_request import PageRequest
from web.painel.rows import instant

_PATH: Final = "/saques"
_COLUMNS: Columns[WithdrawalDoc] = {
    "withdrawal_id": lambda doc: doc.withdrawal_id,
    "referencia": lambda doc: doc.external_id,
    "situacao": lambda doc: WITHDRAWAL_STATES[doc.status],
    "valor": lambda doc: Cents(doc.amount_cents),
    "tarifa": lambda doc: Cents(doc.fee_cents),
    "chave_pix": lambda doc: doc.pix_key,
    "automatico": lambda doc: "sim" if doc.automatic else "não",
    "descricao": lambda doc: doc.description,
    "pedido_em": lambda doc: instant(doc.created_at),
    "concluido_em": lambda doc: None if doc.completed_at is None else instant(doc.completed_at),
    "falha": lambda doc: REFUND_FAILURES.get(doc.failure_code or "", doc.failure_code),
    "end_to_end_id": lambda doc: doc.end_to_end_id,
}
# The field of the form beside which each refusal is shown.
_FAULTS: Final = {
    Code.WITHDRAWAL_BELOW_MINIMUM: "amount",
    Code.INSUFFICIENT_BALANCE: "amount",
}


async def show(request: PageRequest) -> Response[Any]:
    return await _page(request, LIST.query(request))


async def ask(request: PageRequest) -> Response[Any]:
    """Asks for a withdrawal. The wallet is debited now; a worker orders the withdrawal from the bank after a grace
    period, in which it can be cancelled."""
    filled = Filled(request)
    amount_cents = await _amount_cents(request, filled)
    description = filled.text("description", DESCRIPTION_CHARACTERS_MAX)
    if not filled.has("sure"):
        filled.wrong("sure", "Confirme que quer sacar.")
    if filled.faults or amount_cents is None:
        return await _page(request, ListQuery(request.http, ()), filled=filled)
    async with session(request.pool) as conn:
        payout = await shown_payout(conn, request.session.account_id, now=request.now)
        fee_cents = await _fee_cents(conn, request)
    whole_note = " (tudo o que há agora no saldo)" if filled.has("all") else ""
    facts = {
        "Valor": brl(amount_cents) + whole_note,
        "Tarifa": brl(fee_cents) if fee_cents else "",
        **_destination_facts(payout),
    }
    require_step_up(request, "Pedir um saque", facts)
    withdrawal_id = new_id()
    try:
        async with request.change(
            "withdrawal.asked",
            subject=str(withdrawal_id),
            wakes=[WITHDRAWAL_ORDERS[Mode.PRODUCTION]],
            amount=reais(amount_cents),
            pix_key=payout.pix_key,
        ) as conn:
            withdrawal = await create_withdrawal(
                conn,
                NewWithdrawal(
                    account_id=request.session.account_id,
                    key=request.key,
                    fingerprint=sha256(request.key.encode()).digest(),
                    withdrawal_id=withdrawal_id,
                    amount_cents=amount_cents,
                    description=description,
                    external_id=None,
                    actor=request.actor,
                    request_id=request.request_id,
                ),
                now=request.now,
                bank=request.settings.bank,
                grace_s=request.settings.withdrawal_grace_s,
                fees=request.settings.fees,
            )
            if withdrawal is None:
                raise AlreadySent
            facts = {"amount": brl(amount_cents), "destination": withdrawal.pix_key, **request.doer}
            await mail_owners(
                conn, request.session.account_id, "withdrawal.asked", facts, now=request.now, seal=request.seal
            )
    except Refused as refused:
        if refused.code not in _FAULTS:
            raise
        filled.wrong(_FAULTS[refused.code], REFUSED[refused.code][1])
        return await _page(request, ListQuery(request.http, ()), filled=filled, status=refused.code.status)
    return request.go(request.here(_PATH), done="saque")


async def change_key(request: PageRequest) -> Response[Any]:
    """Asks for another payout key; withdrawals go to the present key until the new one is in force."""
    filled = Filled(request)
    if not await ask_for_payout_key(request, filled):
        return await _page(request, ListQuery(request.http, ()), key=filled)
    return request.go(request.here(_PATH), done="chave-pedida")


async def cancel(request: PageRequest) -> Response[Any]:
    withdrawal_id = request.id("withdrawal_id")
    async with request.change("withdrawal.cancelled", subject=str(withdrawal_id)) as conn:
        await cancel_withdrawal(
            conn,
            withdrawal_id,
            request.session.account_id,
            actor=request.actor,
            request_id=request.request_id,
            now=request.now,
        )
    return request.go(request.here(_PATH), done="saque-cancelado")


async def turn_on_daily(request: PageRequest) -> Response[Any]:
    """Turns the daily withdrawal on, or changes the amount that stays in the balance. A change does not make the daily
    run look at the account a second time on the same day."""
    filled = Filled(request)
    keep_cents = filled.cents("keep", PIX_CENTS_MAX, zero=True)
    if keep_cents is None:
        return await _page(request, ListQuery(request.http, ()), daily=filled)
    async with session(request.pool) as conn:
        destination = _destination_facts(await shown_payout(conn, request.session.account_id, now=request.now))
    require_step_up(request, "Ligar ou alterar o saque automático", {"Fica no saldo": brl(keep_cents), **destination})
    async with request.change("withdrawal.daily_set", keep=reais(keep_cents)) as conn:
        account_id = request.session.account_id
        await set_daily(conn, account_id, keep_cents=keep_cents)
        payout = await shown_payout(conn, account_id, now=request.now)
        facts = {"kept": brl(keep_cents), "destination": payout.pix_key, **request.doer}
        await mail_owners(conn, account_id, "withdrawal.daily_set", facts, now=request.now, seal=request.seal)
    return request.go(request.here(_PATH), done="saque-diario")


async def turn_off_daily(request: PageRequest) -> Response[Any]:
    async with request.change("withdrawal.daily_ended") as conn:
        await end_daily(conn, request.session.account_id)
    return request.go(request.here(_PATH), done="saque-diario-desligado")


def _destination_facts(payout: ShownPayout) -> dict[str, str]:
    """Returns the destination in the words of the page with the form."""
    return {
        "Para a chave Pix": payout.pix_key,
        "Dono da chave": " ".join(filter(None, (payout.owner, payout.document))),
    }


async def _amount_cents(request: PageRequest, filled: Filled) -> int | None:
    """Returns the amount to withdraw: the whole present balance less the fee, or the amount typed into the form."""
    if not filled.has("all"):
        return filled.cents("amount", PIX_CENTS_MAX)
    if filled.value("amount"):
        # One of the two was not meant. Withdrawing everything by mistake cannot be undone; after withdrawing too little
        # the rest can still be asked for.
        filled.wrong("amount", "Deixe em branco para sacar tudo, ou desmarque a caixa abaixo.")
        return None
    async with session(request.pool) as conn:
        balance_cents = await find_balance(conn, account_id=request.session.account_id, test=False)
        fee_cents = await _fee_cents(conn, request)
    return min(max(balance_cents - fee_cents, 0), PIX_CENTS_MAX)


async def _fee_cents(conn: Connection, request: PageRequest) -> int:
    own_fees = await own_terms(conn, request.session.account_id)
    return (request.settings.fees if own_fees is None else own_fees).withdrawal_cents


async def _page(
    request: PageRequest,
    query: ListQuery,
    *,
    filled: Filled | None = None,
    daily: Filled | None = None,
    key: Filled | None = None,
    status: int = 400,
) -> Response[Any]:
    """Answers the page with the forms as they were sent: `filled` asks for a withdrawal, `daily` is the daily
    withdrawal's, `key` the payout key's. `status` is the response's when one of the forms has a fault."""
    assert not request.test, "the table has this page in production only"
    account_id = request.session.account_id
    async with session(request.pool) as conn:
        balance_cents = await find_balance(conn, account_id=account_id, test=False)
        payout = await shown_payout(conn, account_id, now=request.now)
        daily_cents = await find_daily_withdrawal_floor(conn, account_id=account_id)
        fee_cents = await _fee_cents(conn, request)
    filled, key = filled or Filled(), key or Filled()
    daily = daily or Filled(shown={"keep": "" if daily_cents is None else brl(daily_cents)})
    values: dict[str, object] = {
        "filled": filled,
        "balance_cents": balance_cents,
        "payout": payout,
        "key": key,
        "enough": balance_cents >= MINIMUM_CENTS + fee_cents,
        "fee_cents": fee_cents,
        "minimum_cents": MINIMUM_CENTS,
        "daily": daily,
        "daily_cents": daily_cents,
        "daily_hour": request.settings.daily_withdrawal_hour,
        "description_max": DESCRIPTION_CHARACTERS_MAX,
    }
    return await LIST.page(
        request, query, values, status=status if filled.faults or daily.faults or key.faults else 200
    )


LIST = ListPage(
    name="withdrawals",
    path=_PATH,
    filters=WithdrawalFilters,
    fetch=lambda request: withdrawal_page,
    position=TimePosition,
    at=lambda doc: TimePosition(instant(doc.created_at), UUID(doc.withdrawal_id)),
    columns=_COLUMNS,
)
