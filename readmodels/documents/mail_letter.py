"""The texts of mails, in Portuguese: letters to payers about a charge as it is now, and notices to a merchant's people.

A letter is composed once and rendered twice, as HTML and as plain text (readmodels/documents/mail_message.py).
"""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct

from domain.boleto.codes import printed_line
from domain.boleto.terms import AmountDue, PaymentTerms, amount_due, last_day
from domain.brazilian import brl, day, moment, span
from domain.charge import Status
from domain.events import SANDBOX_MARK
from domain.instants import day_of, iso, parse_day
from domain.payer import holds_link
from domain.schedules.reminders import due_day
from readmodels.charges.charge import ChargeDoc
from readmodels.charges.conditions import portuguese_conditions

_DESCRIPTION_MAX: Final = 200


class PixCode(Struct, frozen=True):
    """A code to copy and pay with: PIX copia e cola, or linha digitavel."""

    label: str
    text: str


class Letter(Struct, frozen=True, kw_only=True):
    subject: str
    heading: str
    lead: str
    amount: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    codes: tuple[PixCode, ...] = ()
    link: tuple[str, str]
    """The link's text and its address."""
    note: str | None = None
    """Free text from the merchant."""
    merchant: str
    """The merchant in whose name the letter is sent; empty for letters of the platform to its staff."""
    closing: tuple[str, ...] = ()


def charge_letter(
    doc: ChargeDoc, *, kind: str, merchant: str, link: str, note: str | None, about_day: date, now: datetime
) -> Letter | None:
    """The letter of this kind about the charge; None when the charge, as it is now, leaves nothing to say.

    A charge that can no longer be paid is never mailed with a code. For a paid charge, a mail requested by the merchant
    is the receipt.
    """
    status = Status(doc.status)
    if status in (Status.PAID, Status.REFUNDED):
        return _receipt(doc, merchant=merchant, link=link, note=note) if kind in ("receipt", "asked") else None
    if status is not Status.PENDING or doc.overdue(iso(now)) or kind == "receipt":
        return None
    due = _due_date(doc)
    days_left = (due - day_of(now)).days
    # The charge has got another due date meanwhile, which has its own reminders, or the mail server was down too long.
    missed = due != about_day or (days_left != 0 if kind == "due_day" else days_left < 1)
    if kind in ("before_due", "due_day") and missed:
        return None
    return _invitation(doc, kind=kind, merchant=merchant, link=link, note=note, due=due, now=now)


def _invitation(
    doc: ChargeDoc, *, kind: str, merchant: str, link: str, note: str | None, due: date, now: datetime
) -> Letter:
    """The letter about a pending charge. Until the due date it shows the charge's amount, with discounts beside it;
    after that the amount to pay today."""
    today = day_of(now)
    days_left = (due - today).days
    late_terms = doc.terms if doc.boleto is not None and today > _effective_due(doc, due) else None
    owed = amount_due(late_terms, amount_cents=doc.amount_cents, due=due, on=today)
    amount, due_text = brl(owed.total_cents), day(due)
    subject, heading = {
        "before_due": (
            f"Lembrete: {amount} para {merchant} vence em {due_text}",
            f"Sua cobrança vence em {days_left} dia{'s' if days_left > 1 else ''}",
        ),
        "due_day": (f"Vence hoje: {amount} para {merchant}", "Sua cobrança vence hoje"),
    }.get(kind, (f"Cobrança de {merchant}: {amount}, vence em {due_text}", "Você recebeu uma cobrança"))
    if late_terms is not None:
        subject = f"Cobrança de {merchant}: {amount}, venceu em {due_text}"
        heading = "Sua cobrança venceu e ainda pode ser paga"
    return Letter(
        subject=subject,
        heading=heading,
        lead=f"{merchant} enviou a você esta cobrança. Se já pagou, desconsidere esta mensagem.",
        amount=amount,
        facts=(("Para", merchant), *_due_facts(doc, due, late_terms, owed, today), *_merchant_texts(doc)),
        codes=_payable_codes(doc, now),
        link=("Ver e pagar", link),
        note=note,
        merchant=merchant,
        closing=("Confira no seu banco o nome de quem recebe e o valor antes de confirmar.",),
    )


def _due_facts(
    doc: ChargeDoc, due: date, late_terms: PaymentTerms | None, owed: AmountDue, today: date
) -> Iterator[tuple[str, str]]:
    """The facts on when the charge is to be paid and at what amount; with `late_terms`, the parts of today's amount."""
    if doc.boleto is None:
        if doc.expires_at is not None:
            yield "Pagável até", f"{moment(datetime.fromisoformat(doc.expires_at))} (horário de Brasília)"
        return
    effective_due = _effective_due(doc, due)
    yield "Vencimento", day(due)
    if late_terms is not None:
        yield "Pagável até", day(last_day(late_terms, due))
        yield "Valor do documento", brl(doc.amount_cents)
        additions = (("Multa", owed.fine_cents), ("Juros", owed.interest_cents))
        yield from ((name, brl(cents)) for name, cents in additions if cents)
        yield "Valor calculado para", day(today)
    elif effective_due != due:
        yield "Pagável até", f"{day(effective_due)}, porque no vencimento os bancos não abrem"
    if doc.terms is not None:
        yield "Condições", " ".join(portuguese_conditions(doc.terms, amount_cents=doc.amount_cents, due=due))


def _payable_codes(doc: ChargeDoc, now: datetime) -> tuple[PixCode, ...]:
    """The codes that can be paid now: the PIX of a dual charge may expire before its boleto."""
    codes = []
    pix_expired = doc.pix_ends_at is not None and doc.pix_ends_at <= iso(now)
    qr_code = doc.qr_code or (doc.boleto.qr_code if doc.boleto is not None else None)
    if qr_code is not None and not pix_expired:
        codes.append(PixCode("Pix copia e cola", qr_code))
    if doc.boleto is not None:
        codes.append(PixCode("Linha digitável do boleto", printed_line(doc.boleto.linha_digitavel)))
    return tuple(codes)


def _effective_due(doc: ChargeDoc, due: date) -> date:
    return due if doc.effective_due_date is None else parse_day(doc.effective_due_date)


def _receipt(doc: ChargeDoc, *, merchant: str, link: str, note: str | None) -> Letter:
    payment = doc.payment
    amount = brl(doc.amount_cents if payment is None else payment.amount_cents)
    facts = [("Para", merchant)]
    if payment is not None:
        parts = (("Multa", payment.fine_cents), ("Juros", payment.interest_cents), ("Desconto", payment.discount_cents))
        facts += [(name, brl(cents)) for name, cents in parts if cents]
        facts.append(("Pago em", f"{moment(datetime.fromisoformat(payment.paid_at))} (horário de Brasília)"))
        facts.append(("Forma", "Pix" if payment.method == "pix" else "Boleto"))
        if payment.end_to_end_id is not None:
            facts.append(("ID da transação", payment.end_to_end_id))
        if payment.refunded_cents:  # the charge's may be of a second payment, and this is the receipt of one
            facts.append(("Devolvido", brl(payment.refunded_cents)))
    facts += _merchant_texts(doc)
    return Letter(
        subject=f"Pagamento recebido: {amount} para {merchant}",
        heading="Pagamento recebido",
        lead=f"O pagamento da sua cobrança de {merchant} foi confirmado. Não é preciso fazer mais nada.",
        amount=amount,
        facts=tuple(facts),
        link=("Ver o comprovante", link),
        note=note,
        merchant=merchant,
    )


# fmt: off
# The outcomes of a webhook attempt in Portuguese, by their names in webhook_attempt.
OUTCOMES: Final[dict[str, str]] = {
    "delivered": "Recebida", "rejected": "Recusada pelo seu servidor", "timeout": "Sem resposta em 10 s",
    "connection_refused": "Conexão recusada", "connection_reset": "Conexão interrompida",
    "dns_error": "Nome não encontrado (DNS)", "tls_error": "Certificado inválido (TLS)",
    "blocked_address": "Endereço não público", "worker_lost": "Falha nossa, tentada de novo",
    "network_error": "Falha de rede",
}
_NOTICES: Final[dict[str, tuple[str, str]]] = {
    "webhook_failing":   ("Seu webhook está falhando",
                          "Seu endereço não confirmou os últimos eventos. Continuamos tentando."),
    "webhook_paused":    ("Seu webhook foi pausado",
                          "Seu endereço não confirma eventos há muito tempo. O que há para entregar fica guardado por "
                          "{held} e segue quando ele responder ou quando você retomar as entregas."),
    "second_copy_asked": ("Um pagador pediu a 2ª via de um boleto",
                          "O boleto venceu e não pode mais ser pago. Se a dívida continua, cobre de novo: a página que "
                          "o pagador já tem leva à nova cobrança."),
    "webhook_recovered": ("Seu webhook voltou a responder",
                          "Seu endereço confirma eventos de novo. O que estava pendente está sendo entregue."),
}
# fmt: on
_LAST_NOTICE: Final = "É o último aviso deste tipo por hoje: foram muitos. O que acontecer depois aparece no painel."


class _Facts(Struct, frozen=True):
    """The facts of a notice that its letter shows. `last`: no more notices of this kind are sent today."""

    url: str = ""
    failing_since: datetime | None = None
    failures: int | None = None
    outcome: str | None = None
    status: int | None = None
    charge_id: str = ""
    amount_cents: int = 0
    due_date: date | None = None
    reference: str | None = None
    last: bool = False


def notice_letter(
    *, kind: str, event_type: str, at: datetime, facts: bytes, merchant: str, app_url: str, held_s: float
) -> Letter:
    """A notice for the people of an account. `event_type` already carries the prefix of test events; `held_s` is how
    long deliveries to a paused endpoint are held."""
    decoded = msgspec.json.decode(facts, type=_Facts)
    heading, lead = _NOTICES.get(kind, ("Aviso sobre a sua conta", "Veja os detalhes no painel."))
    shown_facts = [("Evento", event_type)] if event_type else []
    shown_facts.append(("Quando", moment(at)))
    if decoded.due_date is not None:
        shown_facts += [("Valor", brl(decoded.amount_cents)), ("Vencimento", day(decoded.due_date))]
    if decoded.reference:
        shown_facts.append(("Sua referência", decoded.reference))
    if decoded.url:
        shown_facts.append(("Endereço", decoded.url))
    if decoded.failing_since is not None:
        shown_facts.append(("Falhando desde", moment(decoded.failing_since)))
    if decoded.failures:
        shown_facts.append(("Falhas seguidas", str(decoded.failures)))
    if decoded.status is not None or decoded.outcome is not None:
        shown_facts.append(
            (
                "Última resposta",
                f"HTTP {decoded.status}"
                if decoded.status is not None
                else OUTCOMES.get(str(decoded.outcome), str(decoded.outcome)),
            )
        )
    test = event_type.startswith(SANDBOX_MARK)
    path = "/painel/teste/webhooks/entregas" if test else "/painel/webhooks"
    if decoded.charge_id:
        path = f"/painel/cobrancas/{decoded.charge_id}"
    return Letter(
        subject=f"{SANDBOX_MARK} {heading}" if test else heading,
        heading=heading,
        lead=lead.format(held=span(timedelta(seconds=held_s))),
        facts=tuple(shown_facts),
        link=("Abrir a cobrança" if decoded.charge_id else "Abrir o painel", app_url + path),
        merchant=merchant,
        closing=(_LAST_NOTICE,) if decoded.last else (),
    )


def _merchant_texts(doc: ChargeDoc) -> list[tuple[str, str]]:
    """The merchant's own texts about the charge. A text with a link is left out: the payer's page shows it as text, but
    mail programs make links clickable, and the mail is sent in our name."""
    texts = (("Descrição", doc.description), ("Referência", doc.external_id))
    return [(name, text[:_DESCRIPTION_MAX]) for name, text in texts if text and not holds_link(text)]


def _due_date(doc: ChargeDoc) -> date:
    assert doc.expires_at is not None, "every pending charge has an end"
    return due_day(None if doc.due_date is None else parse_day(doc.due_date), datetime.fromisoformat(doc.expires_at))
