"""Errors that belong to one operation. Errors that every operation of a kind has are in rules.py.

A case is one way to bring an error about. The words of the spec's line are in spec.py; a line may have several cases.
"""

from typing import Final

from msgspec import Struct

from domain.errors import Code
from tests.conformance.asking import (
    LEFT_OUT,
    Ask,
    act_on_charge,
    act_on_test_charge,
    ambiguous,
    boleto,
    boleto_for_another_merchant,
    both_legs,
    by_foreign_reference,
    by_reference,
    cancel_by_reference,
    cancel_withdrawal_twice,
    dual_for_another_merchant,
    look_up_invalid_key,
    mail_of_cancelled,
    mail_without_address,
    move_clock,
    no_longer_pending,
    on_charge_in_state,
    on_ended_schedule,
    pdf_of_pix,
    pix,
    pix_for_another_merchant,
    pix_without_a_location,
    redate,
    redate_charge,
    redate_pix,
    refund,
    refund_of_another_payment,
    refund_twice,
    refund_without_balance,
    schedule,
    token_expired,
    unavailable,
    while_suspended,
    with_inactive_code,
    with_silent_bank,
    withdraw,
    withdraw_more_than_the_balance,
    without_address,
)
from tests.conformance.world import DESTINATION, NOBODY, SCHEDULES, schedule_body, yesterday
from tests.support.boleto_merchant import BOLETO, PAGADOR, boleto_body, in_days
from tests.support.dual_merchant import DUAL, dual_body


class Case(Struct, frozen=True):
    """A way to bring a code about: `way` names what is wrong, `ask` sends the request."""

    operation: str
    code: Code
    way: str
    ask: Ask

    @property
    def id(self) -> str:
        return f"{self.operation}-{self.code.name}-{self.way}"


# fmt: off
CASES: Final[tuple[Case, ...]] = (
    Case("listCharges", Code.UNAUTHENTICATED, "expired-token", token_expired),

    Case("createPixCharge", Code.AMOUNT_INVALID, "missing", pix(amount=LEFT_OUT)),
    Case("createPixCharge", Code.AMOUNT_INVALID, "null", pix(amount=None)),
    Case("createPixCharge", Code.AMOUNT_INVALID, "a-number", pix(amount=10.5)),
    Case("createPixCharge", Code.AMOUNT_INVALID, "zero", pix(amount="0.00")),
    Case("createPixCharge", Code.AMOUNT_INVALID, "three-decimals", pix(amount="1.000")),
    Case("createPixCharge", Code.EXPIRES_IN_INVALID, "59", pix(expires_in=59)),
    Case("createPixCharge", Code.EXPIRES_IN_INVALID, "2592001", pix(expires_in=2_592_001)),
    Case("createPixCharge", Code.EXPIRES_IN_INVALID, "a-string", pix(expires_in="3600")),
    Case("createPixCharge", Code.VALIDATION_ERROR, "account_id-missing", pix(account_id=LEFT_OUT)),
    Case("createPixCharge", Code.VALIDATION_ERROR, "document-of-10-digits", pix(payer={"document": "1234567890"})),
    Case("createPixCharge", Code.VALIDATION_ERROR, "wrong-check-digits",
         pix("production", payer={"document": "12345678900"})),
    Case("createPixCharge", Code.CHARGE_NOT_FOUND, "account-of-nobody", pix(account_id=NOBODY)),
    Case("createPixCharge", Code.CHARGE_NOT_FOUND, "account-of-another-merchant", pix_for_another_merchant),
    Case("createPixCharge", Code.PIX_AVULSO_SUSPENDED, "production", while_suspended(pix("production"))),
    Case("createPixCharge", Code.BANK_UNAVAILABLE, "no-location-left", pix_without_a_location),

    Case("createBoletoCharge", Code.AMOUNT_INVALID, "missing", boleto(valorCents=LEFT_OUT)),
    Case("createBoletoCharge", Code.AMOUNT_INVALID, "a-number", boleto(valorCents=15000)),
    Case("createBoletoCharge", Code.AMOUNT_INVALID, "zero", boleto(valorCents="0")),
    Case("createBoletoCharge", Code.AMOUNT_INVALID, "malformed", boleto(valorCents="1,50")),
    Case("createBoletoCharge", Code.AMOUNT_INVALID, "more-than-a-boleto-carries", boleto(valorCents="100000000.00")),
    Case("createBoletoCharge", Code.INVALID_DUE_DATE, "impossible-date", boleto(dataVencimento="2030-02-30")),
    Case("createBoletoCharge", Code.INVALID_DUE_DATE, "missing", boleto(dataVencimento=LEFT_OUT)),
    Case("createBoletoCharge", Code.INVALID_DUE_DATE, "another-type", boleto(dataVencimento=20300630)),
    Case("createBoletoCharge", Code.INVALID_DUE_DATE, "past", boleto(dataVencimento=yesterday())),
    Case("createBoletoCharge", Code.INVALID_DUE_DATE, "today", boleto(dataVencimento=in_days(0))),
    Case("createBoletoCharge", Code.INTEGRADOR_CODE_INVALID, "malformed", boleto(integrador_code="INTG-abc")),
    Case("createBoletoCharge", Code.INTEGRADOR_CODE_INVALID, "nonexistent", boleto(integrador_code="INTG-000000")),
    Case("createBoletoCharge", Code.INTEGRADOR_CODE_INVALID, "inactive", with_inactive_code(BOLETO, boleto_body)),
    Case("createBoletoCharge", Code.VALIDATION_ERROR, "tipo-unknown", boleto(tipo="carne")),
    Case("createBoletoCharge", Code.VALIDATION_ERROR, "cep-missing",
         boleto(pagador={name: value for name, value in PAGADOR.items() if name != "cep"})),
    Case("createBoletoCharge", Code.VALIDATION_ERROR, "uf-of-no-state", boleto(pagador={**PAGADOR, "uf": "XX"})),
    Case("createBoletoCharge", Code.VALIDATION_ERROR, "cpf-for-a-company",
         boleto(pagador={**PAGADOR, "tipoPessoa": "PESSOA_JURIDICA"})),
    Case("createBoletoCharge", Code.ACCOUNT_MISMATCH, "account-of-nobody", boleto(account_id=NOBODY)),
    Case("createBoletoCharge", Code.ACCOUNT_MISMATCH, "account-of-another-merchant", boleto_for_another_merchant),
    Case("createBoletoCharge", Code.MERCHANT_ADDRESS_REQUIRED, "no-address", without_address(BOLETO, boleto_body)),
    Case("createBoletoCharge", Code.PIX_AVULSO_SUSPENDED, "boleto_pix",
         while_suspended(boleto("production", tipo="boleto_pix"))),
    Case("createBoletoCharge", Code.BANK_UNAVAILABLE, "registration-failed", unavailable(BOLETO, boleto_body)),

    Case("createDualCharge", Code.AMOUNT_INVALID, "a-number", both_legs(amount=150)),
    Case("createDualCharge", Code.INVALID_DUE_DATE, "impossible-date", both_legs(due_date="2030-02-30")),
    Case("createDualCharge", Code.INVALID_DUE_DATE, "today", both_legs(due_date=in_days(0))),
    Case("createDualCharge", Code.EXPIRES_IN_INVALID, "59", both_legs(expires_in=59)),
    Case("createDualCharge", Code.INTEGRADOR_CODE_INVALID, "nonexistent", both_legs(integrador_code="INTG-000000")),
    Case("createDualCharge", Code.INTEGRADOR_CODE_INVALID, "inactive", with_inactive_code(DUAL, dual_body)),
    Case("createDualCharge", Code.VALIDATION_ERROR, "payer-missing", both_legs(payer=LEFT_OUT)),
    Case("createDualCharge", Code.ACCOUNT_MISMATCH, "account-of-another-merchant", dual_for_another_merchant),
    Case("createDualCharge", Code.MERCHANT_ADDRESS_REQUIRED, "no-address", without_address(DUAL, dual_body)),
    Case("createDualCharge", Code.PIX_AVULSO_SUSPENDED, "production", while_suspended(both_legs("production"))),
    Case("createDualCharge", Code.BANK_UNAVAILABLE, "registration-failed", unavailable(DUAL, dual_body)),

    Case("printBoleto", Code.CHARGE_NOT_FOUND, "no-boleto", pdf_of_pix),

    *(Case("cancelCharge", Code.CHARGE_NOT_PENDING, state, on_charge_in_state(state, act_on_charge("cancel")))
      for state in ("paid", "cancelled", "expired", "failed")),
    *(Case("cancelCharge", Code.CHARGE_NOT_PENDING, f"{state}-boleto",
           on_charge_in_state(state, act_on_charge("cancel"), boleto=True))
      for state in ("paid", "cancelled", "expired", "failed")),
    Case("cancelCharge", Code.BANK_UNAVAILABLE, "boleto",
         with_silent_bank(lambda world: world.boleto(), act_on_charge("cancel"))),
    Case("cancelCharge", Code.BANK_UNAVAILABLE, "dual",
         with_silent_bank(lambda world: world.dual(), act_on_charge("cancel"))),

    Case("cancelChargeByReference", Code.CANCEL_REFERENCE_REQUIRED, "neither", by_reference()),
    Case("cancelChargeByReference", Code.CANCEL_REFERENCE_REQUIRED, "both",
         by_reference(charge_id=NOBODY, external_id="pedido-1")),
    Case("cancelChargeByReference", Code.VALIDATION_ERROR, "reason-unknown",
         by_reference(external_id="pedido-1", reason="because")),
    Case("cancelChargeByReference", Code.CHARGE_NOT_FOUND, "charge_id-of-nobody", by_reference(charge_id=NOBODY)),
    Case("cancelChargeByReference", Code.CHARGE_NOT_FOUND, "external_id-of-nothing",
         by_reference(external_id="nobody's")),
    Case("cancelChargeByReference", Code.CHARGE_NOT_FOUND, "none-pending-with-that-external_id",
         no_longer_pending(by_reference)),
    *(Case("cancelChargeByReference", Code.CHARGE_NOT_FOUND, f"{field}-of-{whose}",
           by_foreign_reference(field, by_reference, whose))
      for field in ("charge_id", "external_id") for whose in ("theirs", "production")),
    Case("cancelChargeByReference", Code.CANCEL_REFERENCE_AMBIGUOUS, "several-pending", ambiguous(by_reference)),
    *(Case("cancelChargeByReference", Code.CHARGE_NOT_PENDING, state, on_charge_in_state(state, cancel_by_reference))
      for state in ("paid", "cancelled", "expired", "failed")),
    Case("cancelChargeByReference", Code.BANK_UNAVAILABLE, "boleto",
         with_silent_bank(lambda world: world.boleto(), cancel_by_reference)),

    Case("changeDueDate", Code.INVALID_DUE_DATE, "missing", redate(charge_id=NOBODY)),
    Case("changeDueDate", Code.INVALID_DUE_DATE, "malformed", redate(charge_id=NOBODY, due_date="30/06/2030")),
    Case("changeDueDate", Code.INVALID_DUE_DATE, "nonexistent", redate(charge_id=NOBODY, due_date="2030-02-30")),
    Case("changeDueDate", Code.INVALID_DUE_DATE, "past", redate(charge_id=NOBODY, due_date=yesterday())),
    Case("changeDueDate", Code.CANCEL_REFERENCE_REQUIRED, "neither", redate(due_date=in_days(20))),
    Case("changeDueDate", Code.CANCEL_REFERENCE_REQUIRED, "both",
         redate(due_date=in_days(20), charge_id=NOBODY, external_id="pedido-1")),
    Case("changeDueDate", Code.CHARGE_NOT_FOUND, "charge_id-of-nobody", redate(charge_id=NOBODY, due_date=in_days(20))),
    Case("changeDueDate", Code.CHARGE_NOT_FOUND, "external_id-of-nothing",
         redate(external_id="nobody's", due_date=in_days(20))),
    Case("changeDueDate", Code.CHARGE_NOT_FOUND, "none-pending-with-that-external_id",
         no_longer_pending(redate, due_date=in_days(20))),
    *(Case("changeDueDate", Code.CHARGE_NOT_FOUND, f"{field}-of-{whose}",
           by_foreign_reference(field, redate, whose, due_date=in_days(20)))
      for field in ("charge_id", "external_id") for whose in ("theirs", "production")),
    Case("changeDueDate", Code.CHARGE_NOT_FOUND, "pix", redate_pix),
    *(Case("changeDueDate", Code.CHARGE_NOT_PENDING, state, on_charge_in_state(state, redate_charge, boleto=True))
      for state in ("paid", "cancelled", "expired", "failed")),
    Case("changeDueDate", Code.CANCEL_REFERENCE_AMBIGUOUS, "several-pending",
         ambiguous(redate, due_date=in_days(20))),
    Case("changeDueDate", Code.BANK_UNAVAILABLE, "boleto",
         with_silent_bank(lambda world: world.boleto(), redate_charge)),

    *(Case("simulatePayment", Code.CHARGE_NOT_PENDING, state,
           on_charge_in_state(state, act_on_charge("simulate-payment")))
      for state in ("paid", "cancelled", "expired", "failed")),
    Case("simulatePayment", Code.BANK_UNAVAILABLE, "boleto",
         with_silent_bank(lambda world: world.boleto(), act_on_charge("simulate-payment"))),
    Case("sandboxExpire", Code.CHARGE_NOT_PENDING, "paid", on_charge_in_state("paid", act_on_test_charge("expire"))),
    Case("sandboxFail", Code.CHARGE_NOT_PENDING, "paid", on_charge_in_state("paid", act_on_test_charge("fail"))),
    Case("sandboxFail", Code.BANK_UNAVAILABLE, "boleto",
         with_silent_bank(lambda world: world.boleto(), act_on_test_charge("fail"))),
    Case("sandboxPay", Code.AMOUNT_INVALID, "a-number",
         lambda world: act_on_test_charge("pay", {"amount": 10})(world, NOBODY)),
    Case("sandboxPay", Code.VALIDATION_ERROR, "times-of-11",
         lambda world: act_on_test_charge("pay", {"times": 11})(world, NOBODY)),
    Case("sandboxPay", Code.VALIDATION_ERROR, "paid_at-to-come",
         lambda world: act_on_test_charge("pay", {"paid_at": "2999-01-01T00:00:00.000Z"})(world, NOBODY)),
    Case("sandboxPay", Code.BANK_UNAVAILABLE, "boleto",
         with_silent_bank(lambda world: world.boleto(), act_on_test_charge("pay", {}))),

    *(Case("advanceSandboxClock", Code.VALIDATION_ERROR, way, move_clock(**body))
      for way, body in (("neither", {}), ("both", {"advance": "P1D", "to": "2030-01-01T00:00:00Z"}),
                        ("backwards", {"advance": "-P1D"}), ("over-a-year", {"advance": "P367D"}))),

    Case("createRefund", Code.AMOUNT_INVALID, "a-number", refund(lambda world: world.paid(), {"amount": 1})),
    Case("createRefund", Code.AMOUNT_INVALID, "null", refund(lambda world: world.paid(), {"amount": None})),
    Case("createRefund", Code.VALIDATION_ERROR, "destination-of-a-pix",
         refund(lambda world: world.paid(), {"destination": DESTINATION})),
    Case("createRefund", Code.VALIDATION_ERROR, "destination-that-is-not-the-payers",
         refund(lambda world: world.paid_boleto(), {"destination": {**DESTINATION, "document": "11144477735"}})),
    Case("createRefund", Code.CHARGE_NOT_REFUNDABLE, "not-paid", refund(lambda world: world.pix(), {})),
    Case("createRefund", Code.CHARGE_NOT_REFUNDABLE, "pix-over-90-days",
         refund(lambda world: world.paid_long_ago(91), {})),
    Case("createRefund", Code.CHARGE_NOT_REFUNDABLE, "payment-of-another-charge", refund_of_another_payment),
    Case("createRefund", Code.REFUND_DESTINATION_REQUIRED, "boleto-paid-on-its-line",
         refund(lambda world: world.paid_boleto(), {})),
    Case("createRefund", Code.REFUND_EXCEEDS, "more-than-was-paid",
         refund(lambda world: world.paid(), {"amount": "10.01"})),
    Case("createRefund", Code.REFUND_EXCEEDS, "more-than-pending-refunds-leave", refund_twice),
    Case("createRefund", Code.INSUFFICIENT_BALANCE, "empty-wallet", refund_without_balance),

    Case("createSchedule", Code.AMOUNT_INVALID, "a-number", schedule(amount=99)),
    Case("createSchedule", Code.INVALID_DUE_DATE, "impossible-date", schedule(first_due_date="2030-02-30")),
    Case("createSchedule", Code.INVALID_DUE_DATE, "today", schedule(first_due_date=in_days(0))),
    Case("createSchedule", Code.DATE_RANGE_INVALID, "ends-before-it-begins", schedule(end_date=in_days(39))),
    Case("createSchedule", Code.VALIDATION_ERROR, "end_date-and-max_charges",
         schedule(end_date=in_days(400), max_charges=3)),
    Case("createSchedule", Code.VALIDATION_ERROR, "frequency-unknown", schedule(frequency="daily")),
    Case("createSchedule", Code.MERCHANT_ADDRESS_REQUIRED, "no-address",
         without_address(SCHEDULES, lambda: schedule_body(
             payment_method="boleto", payer=dual_body()["payer"]), "production")),
    *(Case(f"{change}Schedule", Code.SCHEDULE_ENDED, "ended", on_ended_schedule(change))
      for change in ("pause", "resume", "cancel")),
    Case("sendChargeEmail", Code.CHARGE_NOT_PENDING, "cancelled", mail_of_cancelled),
    Case("sendChargeEmail", Code.PAYER_EMAIL_REQUIRED, "payer-without-address", mail_without_address),
    Case("createWithdrawal", Code.AMOUNT_INVALID, "a-number", withdraw(amount=2)),
    Case("createWithdrawal", Code.AMOUNT_INVALID, "missing", withdraw()),
    Case("createWithdrawal", Code.WITHDRAWAL_BELOW_MINIMUM, "0.99", withdraw(amount="0.99")),
    Case("createWithdrawal", Code.INSUFFICIENT_BALANCE, "more-than-is-there", withdraw_more_than_the_balance),
    Case("cancelWithdrawal", Code.WITHDRAWAL_NOT_CANCELLABLE, "cancelled", cancel_withdrawal_twice),
    Case("getIdempotencyKey", Code.IDEMPOTENCY_KEY_INVALID, "not-printable", look_up_invalid_key),
)
# fmt: on
