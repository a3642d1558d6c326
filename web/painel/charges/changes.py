"""What people do to a charge: cancel it, pay it in test mode, change its due date, have it mailed, refund it.

The forms run the same commands as the API; the form's id is the Idempotency-Key of what the form creates.
"""

from datetime import date
from hashlib import sha256
from secrets import token_bytes
from typing import Any, Final
from uuid import UUID

from litestar.response import Response

from commands.bank_orders.kinds import Pay, Redate
from commands.charges.pay import simulated_payment
from commands.mail import MAILED, ask_for_mail
from commands.money.refund import NewRefund, TransferDestination, begin_refunds
from commands.people.audit import AlreadySent
from commands.people.tell import mail_owners
from domain.boleto.terms import cuts_discount
from domain.brazilian import brl
from domain.charge import Status
from domain.documents import masked
from domain.errors import Code, Refused
from domain.instants import day_of
from domain.money import PIX_CENTS_MAX, parse_amount, reais
from domain.payer import holds_link
from domain.pix.end_to_end import TAIL_BYTES, sandbox_end_to_end_id
from domain.refund import DESTINATION_DOCUMENT, REASON_MAX, is_pix_key
from domain.withdrawal import logged_key, masked_key
from readmodels.charges.charge import ChargeDoc, open_payer
from readmodels.dashboard.charge import payments_of
from readmodels.dashboard.known_payer import payer_of_charge
from readmodels.money.refund import RefundProjection
from runtime.coordination.lanes import REFUND_ORDERS, WEBHOOKS
from runtime.ids import new_id
from runtime.postgres import session
from sql import Connection
from web.head import parameter_in
from web.painel.auth.step_up import require_step_up
from web.painel.charges.boleto_change import cancel_charge, change_boleto, change_charge, chosen_reason
from web.painel.charges.charge_page import charge_of, show_charge
from web.painel.fields import Filled, typed_pix_key
from web.painel.labels import REFUSED
from web.painel.page_request import PageRequest
from web.painel.rows import payer_in_view, returned_totals

MESSAGE_MAX: Final = 1_000
_MAIL_FAULTS: Final = {
    Code.PAYER_EMAIL_REQUIRED: "A cobrança não tem o e-mail do pagador. Informe um endereço.",
    Code.VALIDATION_ERROR: "Enquanto o cadastro não está aprovado, só ao e-mail do próprio pagador.",
}


async def cancel(request: PageRequest) -> Response[Any]:
    charge_id = request.id("charge_id")
    doc = await charge_of(request, charge_id)
    if request.field("sure") != "yes":
        return await show_charge(request, cancel_fault="Confirme que quer cancelar.")
    await cancel_charge(request, doc, chosen_reason(request))
    return request.go(request.here(f"/cobrancas/{charge_id}"), done="cancelada")


async def pay_in_test(request: PageRequest) -> Response[Any]:
    """Pays a test charge as its payer would, like the API's simulate-payment."""
    assert request.test, "the table has this page in the test section only"
    charge_id = request.id("charge_id")
    doc = await charge_of(request, charge_id)
    if doc.boleto is None:
        command = simulated_payment(
            charge_id,
            request.owner,
            end_to_end_id=sandbox_end_to_end_id(request.now, token_bytes(TAIL_BYTES)),
            seal=request.seal,
            fees=request.settings.fees,
            actor=request.actor,
            request_id=request.request_id,
        )
        await change_charge(request, "charge.paid_in_test", command)
    else:
        bank_order = Pay(actor=request.actor, request_id=request.request_id)
        await change_boleto(request, "boleto.test_payment_ordered", charge_id, bank_order)
    return request.go(request.here(f"/cobrancas/{charge_id}"), done="simulado")


async def redate(request: PageRequest) -> Response[Any]:
    """Changes the due date once the bank has confirmed the new one, which may be today."""
    charge_id = request.id("charge_id")
    doc = await charge_of(request, charge_id)
    if doc.boleto is None:
        raise Refused(Code.CHARGE_NOT_FOUND)
    filled = Filled(request)
    due_on = filled.day("due_date", first=day_of(request.account_now))
    if due_on is not None and due_on.isoformat() == doc.due_date and doc.status == Status.PENDING:
        filled.wrong("due_date", "O vencimento já é este.")
    if due_on is not None and cuts_discount(doc.terms, due_on):
        filled.wrong("due_date", "O vencimento não pode ser antes do último dia de um desconto.")
    if filled.faults or due_on is None:
        return await show_charge(request, redate=filled)
    await _order_redate(request, charge_id, due_on)
    return request.go(request.here(f"/cobrancas/{charge_id}"), done="vencimento")


async def send_mail(request: PageRequest) -> Response[Any]:
    """Queues a mail with the charge, like the API's send-email: to the payer or another address. A worker sends it."""
    assert not request.test, "the table has this page in production only"
    charge_id = request.id("charge_id")
    doc = await charge_of(request, charge_id)
    filled = Filled(request)
    to = filled.email("to")
    message = filled.text("message", MESSAGE_MAX)
    if message is not None and holds_link(message):
        filled.wrong("message", "Escreva sem links nem endereços da web, e com um espaço depois de cada ponto.")
    if filled.faults:
        return await show_charge(request, mail=filled)
    if doc.status not in MAILED:
        raise Refused(Code.CHARGE_NOT_PENDING, status=doc.status)
    try:
        async with request.change("mail.asked", subject=str(charge_id)) as conn:
            _, status = await ask_for_mail(
                conn,
                mail_id=new_id(),
                charge_id=charge_id,
                account_id=request.session.account_id,
                to=to,
                note=message,
                attach_pdf=filled.has("attach_pdf"),
                now=request.now,
                seal=request.seal,
            )
    except Refused as refused:
        fault = _MAIL_FAULTS.get(refused.code)
        if fault is None:
            raise
        filled.wrong("to", fault)
        return await show_charge(request, mail=filled)
    return request.go(request.here(f"/cobrancas/{charge_id}"), done="email" if status == "queued" else "email-parado")


async def show_refund(request: PageRequest) -> Response[Any]:
    """Answers the refund's form; `payment_id` in the address chooses the payment."""
    doc = await charge_of(request, request.id("charge_id"))
    chosen = parameter_in(request.http.scope, "payment_id") or ""
    return await _refund_form(request, doc, Filled(shown={"payment_id": chosen}))


async def refund(request: PageRequest) -> Response[Any]:
    """Begins a refund: the wallet is debited now, and a worker orders the refund from the bank."""
    charge_id = request.id("charge_id")
    doc = await charge_of(request, charge_id)
    filled = Filled(request)
    payment_id = filled.choice("payment_id", await _payment_ids(request, doc))
    amount_cents = filled.cents("amount", PIX_CENTS_MAX, required=False)
    reason = filled.text("reason", REASON_MAX)
    destination = await _read_destination(filled, request, charge_id)
    if not filled.has("sure"):
        filled.wrong("sure", "Confirme que quer devolver.")
    if filled.faults:
        return await _refund_form(request, doc, filled)
    if destination is not None and not request.test:
        shown = await _step_up_facts(request, charge_id, filled, amount_cents, destination)
        require_step_up(request, "Devolver um pagamento", shown)
    refund_id = new_id()
    new_refund = NewRefund(
        owner=request.owner,
        key=request.key,
        fingerprint=sha256(request.key.encode()).digest(),
        refund_id=refund_id,
        charge_id=charge_id,
        amount_cents=amount_cents,
        payment_id=UUID(payment_id),
        reason=reason,
        description=None,
        external_id=None,
        destination=None if destination is None else destination.kept(refund_id, request.seal),
        scenario=None,
        actor=request.actor,
        request_id=request.request_id,
    )
    facts = {"amount": reais(amount_cents)} if amount_cents is not None else {}
    if destination is not None:
        facts["pix_key"] = logged_key(masked_key(destination.pix_key))
    try:
        await _begin_refund(request, new_refund, destination, facts)
    except Refused as refused:
        if DESTINATION_DOCUMENT in (refused.fields or {}):
            filled.wrong("document", _NOT_THE_PAYER)
        elif refused.code in _REFUND_FAULTS:
            filled.wrong(_REFUND_FAULTS[refused.code], REFUSED[refused.code][1])
        else:
            raise
        return await _refund_form(request, doc, filled, status=refused.code.status)
    return request.go(request.here(f"/cobrancas/{charge_id}"), done="devolucao")


async def _step_up_facts(
    request: PageRequest, charge_id: UUID, filled: Filled, amount_cents: int | None, destination: TransferDestination
) -> dict[str, str]:
    """Returns amount and destination, to be confirmed. The payer's own document is masked, as the form showed it; a
    typed document is shown as it was typed."""
    async with session(request.pool) as conn:
        payments = await payments_of(conn, charge_id, request.owner)
    remaining_cents = next(
        (each.remaining_cents for each in payments if each.payment_id == filled.value("payment_id")), 0
    )
    typed_document = filled.value("document")
    return {
        "Valor": brl(remaining_cents) + " (tudo o que resta do pagamento)"
        if amount_cents is None
        else brl(amount_cents),
        "Para a chave Pix": destination.pix_key,
        "CPF ou CNPJ do dono": typed_document or masked(destination.document),
    }


async def _begin_refund(
    request: PageRequest, new_refund: NewRefund, destination: TransferDestination | None, facts: dict[str, str]
) -> None:
    wakes = [REFUND_ORDERS[request.mode], WEBHOOKS]
    async with request.change("refund.asked", subject=str(new_refund.charge_id), wakes=wakes, **facts) as conn:
        (outcome,) = await begin_refunds(
            conn,
            [new_refund],
            now=request.now,
            transfers_cents_max=request.settings.refund_transfers_cents_max,
        )
        if outcome is None:
            raise AlreadySent
        if isinstance(outcome, Refused):
            raise outcome
        goes_to_key = outcome.end_to_end_id is None  # a devolucao has the EndToEndId of its payment
        if destination is not None and goes_to_key and not request.test:
            await _mail_refund_to_owners(conn, request, outcome, destination)


async def _mail_refund_to_owners(
    conn: Connection, request: PageRequest, begun: RefundProjection, destination: TransferDestination
) -> None:
    """Mails the refund to all owners, as every action that asks for a step-up."""
    facts = {
        "amount": brl(parse_amount(begun.amount, cents_max=PIX_CENTS_MAX)),
        "destination": masked_key(destination.pix_key),
    }
    await mail_owners(
        conn,
        request.session.account_id,
        "refund.asked",
        facts | request.doer,
        now=request.now,
        seal=request.seal,
    )


_NOT_THE_PAYER: Final = (
    "A devolução vai para quem devia pagar a cobrança: o dono da chave precisa ter o documento do pagador. "
    "Se for preciso devolver a outra pessoa, fale com o suporte."
)
# The field of the form beside which each refusal is shown.
_REFUND_FAULTS: Final = {
    Code.REFUND_EXCEEDS: "amount",
    Code.INSUFFICIENT_BALANCE: "form",
    Code.CHARGE_NOT_REFUNDABLE: "form",
    Code.REFUND_DESTINATION_REQUIRED: "pix_key",
}


async def _refund_form(request: PageRequest, doc: ChargeDoc, filled: Filled, *, status: int = 400) -> Response[Any]:
    async with session(request.pool) as conn:
        payments = await payments_of(conn, UUID(doc.charge_id), request.owner)
    document = await _payer_document(request, UUID(doc.charge_id))
    values = {
        "payer_document": document and masked(document),
        "doc": doc,
        "filled": filled,
        "payments": payments,
        "gone_back": returned_totals(payments),
        "paid_by": lambda payment: payer_in_view(open_payer(payment, request.seal), request.payers),
        "base": request.here(f"/cobrancas/{doc.charge_id}"),
        "reason_max": REASON_MAX,
    }
    return request.show("refund.html", values, status=status if filled.faults else 200)


async def _payment_ids(request: PageRequest, doc: ChargeDoc) -> list[str]:
    async with session(request.pool) as conn:
        return [each.payment_id for each in await payments_of(conn, UUID(doc.charge_id), request.owner)]


async def _read_destination(filled: Filled, request: PageRequest, charge_id: UUID) -> TransferDestination | None:
    """Returns where the refund of a boleto paid by its line goes; None when both fields are empty. A key without a
    document is the payer's, whose document was registered with the charge."""
    if not filled.value("pix_key") and not filled.value("document"):
        return None
    pix_key = typed_pix_key(filled.value("pix_key"))
    if not is_pix_key(pix_key):
        filled.wrong("pix_key", "Informe CPF, CNPJ, telefone com +55, e-mail ou chave aleatória.")
    document = await _payer_document(request, charge_id) if not filled.value("document") else None
    document = document or filled.document(
        "document", letters=request.settings.cnpj_with_letters, production=not request.test, required=True
    )
    return TransferDestination(pix_key=pix_key, document=document or "")


async def _payer_document(request: PageRequest, charge_id: UUID) -> str | None:
    async with session(request.pool) as conn:
        payer = await payer_of_charge(conn, charge_id, request.owner, seal=request.seal)
    return None if payer is None else payer.document


async def _order_redate(request: PageRequest, charge_id: UUID, due_on: date) -> None:
    bank_order = Redate(due_date=due_on.isoformat(), actor=request.actor, request_id=request.request_id)
    await change_boleto(request, "boleto.redate_ordered", charge_id, bank_order, due_date=due_on.isoformat())
