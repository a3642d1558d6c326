"""What walks have found, each as short as it can be told."""

from typing import Any

from tests.dual_shop import at_rest, cob_status, number_of
from tests.merchant import books_of, new_shop, until_answer
from tests.slip_shop import issued
from tests.system import System


async def test_a_pix_that_was_made_to_fail_cannot_be_paid_at_its_bank_any_more(system: System) -> None:
    async with new_shop(system) as shop, books_of(system) as books:
        charge = await shop.sandbox.created()
        await at_rest(books, charge)
        assert await cob_status(books, charge) == "ATIVA"
        answer = await shop.sandbox.post(f"/v1/sandbox/charges/{charge['charge_id']}/fail")
        assert (answer.status, answer.body["status"]) == (200, "failed")
        await at_rest(books, charge)
        assert await cob_status(books, charge) == "REMOVIDA_PELO_USUARIO_RECEBEDOR"


async def test_each_pix_into_one_slip_goes_back_to_who_sent_it(system: System) -> None:
    """Paid twice by its QR, the second payment was told by the first one's endToEndId: its refund went to another."""
    async with new_shop(system) as shop, books_of(system) as books:
        door = shop.production
        charge = await issued(door, tipo="boleto_hibrido")
        for times in (1, 2):
            asked = {"number": number_of(charge), "rail": "pix", "force": True}
            async with door.http.post(f"{system.bank_url}/simulated/pay", json=asked) as answer:
                assert answer.status == 200

            async def booked(count: int = times) -> list[dict[str, Any]]:
                found = await door.all("/v1/payments", charge_id=charge["charge_id"], order="asc")
                return found if len(found) == count else []

            payments = await until_answer(booked)
        sent = await books.fetch(
            "SELECT end_to_end_id FROM simulated_bank.slip_payment WHERE number = $1 ORDER BY payment_id",
            number_of(charge),
        )
        assert [payment["end_to_end_id"] for payment in payments] == [row["end_to_end_id"] for row in sent]
