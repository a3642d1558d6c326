"""The text of mails about charges, webhooks and staff, without a mail server."""

from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import msgspec
import pytest

from domain.boleto.terms import Fine, Interest, PaymentTerms
from readmodels.charges.charge import BoletoDoc, ChargeDoc, PaymentDoc
from readmodels.documents.mail_letter import Letter, charge_letter, notice_letter
from readmodels.documents.mail_message import message_bytes, plain_text
from readmodels.documents.people_letter import security_letter


def _boleto(**more: Any) -> ChargeDoc:
    boleto = BoletoDoc(
        nosso_numero="0", seu_numero="1", linha_digitavel="00190000090114971860168524522114210000000102656",
        codigo_barras="00192100000001026560000001149718606852452211", tipo_cobranca="boleto",
        data_vencimento="2027-03-10",
    )  # fmt: skip
    return ChargeDoc(
        account_id="a", charge_id="c", test=False, public_id="p", payment_method="boleto", status="pending", version=1,
        amount_cents=150_00, boleto=boleto, created_at="2027-03-01T12:00:00.000Z", due_date="2027-03-10",
        effective_due_date="2027-03-10", expires_at="2027-04-10T03:00:00.000Z", **more,
    )  # fmt: skip


def _letter_about(doc: ChargeDoc, now: datetime, merchant: str = "Loja") -> Letter:
    letter = charge_letter(
        doc, kind="asked", merchant=merchant, link="https://app.example.com/pagar/x", note=None,
        about_day=date(1970, 1, 1), now=now,
    )  # fmt: skip
    assert letter is not None
    return letter


def test_a_mail_about_an_overdue_boleto_states_the_amount_due_today() -> None:
    terms = PaymentTerms(fine=Fine(percent_bps=200), interest=Interest(day_cents=10), payable_days=30)
    doc = _boleto(terms=terms)
    before, after = (_letter_about(doc, datetime(2027, 3, day, 15, tzinfo=UTC)) for day in (10, 12))
    assert before.subject == "Cobrança de Loja: R$\u00a0150,00, vence em 10/03/2027"
    assert (before.amount, dict(before.facts).get("Multa")) == ("R$\u00a0150,00", None)
    assert after.subject == "Cobrança de Loja: R$\u00a0153,20, venceu em 10/03/2027"
    assert after.amount == "R$\u00a0153,20"
    facts = dict(after.facts)
    assert (facts["Valor do documento"], facts["Multa"], facts["Juros"]) == (
        "R$\u00a0150,00", "R$\u00a03,00", "R$\u00a00,20",
    )  # fmt: skip
    assert (facts["Pagável até"], facts["Valor calculado para"]) == ("09/04/2027", "12/03/2027")


def test_the_pix_code_of_a_dual_charge_is_mailed_until_it_expires() -> None:
    doc = _boleto(qr_code="0002...", pix_expires_at="2027-03-02T12:00:00.000Z")
    for day, labels in ((1, ["Pix copia e cola", "Linha digitável do boleto"]), (3, ["Linha digitável do boleto"])):
        letter = _letter_about(doc, datetime(2027, 3, day, 15, tzinfo=UTC))
        assert [each.label for each in letter.codes] == labels


@pytest.mark.parametrize(("returned_cents", "told"), [(0, None), (50_00, "R$\u00a050,00")])
def test_a_receipt_says_what_was_returned_of_its_own_payment(returned_cents: int, told: str | None) -> None:
    """The charge's amount includes what was returned of a second payment; told alone, it denied the payment."""
    payment = PaymentDoc(
        payment_id="p", charge_id="c", payment_method="boleto", method="pix", amount_cents=150_00,
        paid_at="2027-03-01T12:00:00.000Z", credited_at="2027-03-01T12:00:00.000Z", refunded_cents=returned_cents,
    )  # fmt: skip
    doc = msgspec.structs.replace(_boleto(payment=payment, refunded_cents=150_00 + returned_cents), status="paid")
    assert dict(_letter_about(doc, datetime(2027, 3, 1, 15, tzinfo=UTC)).facts).get("Devolvido") == told


def test_a_webhook_notice_names_the_last_answer_in_portuguese() -> None:
    for facts, said in (
        (b'{"outcome": "connection_refused", "status": null, "failures": 5}', "Conexão recusada"),
        (b'{"outcome": "rejected", "status": 500, "failures": 5}', "HTTP 500"),
    ):
        letter = notice_letter(
            kind="webhook_failing", event_type="payment.received", at=datetime(2027, 3, 1, 15, tzinfo=UTC), facts=facts,
            merchant="Loja", app_url="https://app.example.com", held_s=0,
        )  # fmt: skip
        assert dict(letter.facts)["Última resposta"] == said


@pytest.mark.parametrize(("held_s", "told"), [(1_209_600, "por 14 dias"), (36 * 3_600, "por 36 h")])
def test_the_notice_of_a_paused_webhook_says_how_long_deliveries_are_held(held_s: float, told: str) -> None:
    letter = notice_letter(
        kind="webhook_paused", event_type="payment.received", at=datetime(2027, 3, 1, 15, tzinfo=UTC), facts=b"{}",
        merchant="Loja", app_url="https://app.example.com", held_s=held_s,
    )  # fmt: skip
    assert told in letter.lead


def test_a_mail_contains_the_merchants_reference_unless_it_looks_like_a_link() -> None:
    now = datetime(2027, 3, 1, 15, tzinfo=UTC)
    for reference, told in (("fatura-77", "fatura-77"), ("golpe.example/77", None), (None, None)):
        assert dict(_letter_about(_boleto(external_id=reference), now).facts).get("Referência") == told


def test_a_mail_contains_the_whole_name_of_the_merchant() -> None:
    longest = "Associação dos Moradores e Amigos do Conjunto Habitacional Presidente Juscelino Kubitschek de Olivei"
    letter = _letter_about(_boleto(), datetime(2027, 3, 1, 15, tzinfo=UTC), merchant=longest)
    assert f"Cobrança de {longest}: R$" in letter.subject
    assert dict(letter.facts)["Para"] == longest


def test_mails_to_staff_name_the_platform_and_not_a_merchant_as_sender() -> None:
    at = datetime(2027, 3, 1, 15, tzinfo=UTC)
    for staff, sender, told in (
        (True, b"From: Quita <", "Enviado pela Quita à equipe da plataforma."),
        (False, b"From: Loja via Quita <", "Enviado pela Quita às pessoas da conta Loja."),
    ):
        letter = security_letter(
            kind="session.new_device", at=at, facts={}, account="Quita" if staff else "Loja",
            app_url="https://app.example.com", staff=staff,
        )  # fmt: skip
        raw = message_bytes(
            letter, mail_id=UUID(int=1), to="ana@example.com", mail_from="a@example.com", now=at, stop_url=None
        )
        assert sender in raw
        assert told in plain_text(letter, None)
        assert ("Conta" in dict(letter.facts)) is not staff
