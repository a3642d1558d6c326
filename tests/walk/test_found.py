"""Regression tests for the faults that walks have found, each in its shortest form."""

import asyncio
from decimal import Decimal
from typing import Any

from structlog.testing import capture_logs

from runtime.jobs import Jobs
from runtime.redis import open_redis
from tests.support.boleto_merchant import issue_boleto
from tests.support.dual_merchant import cob_status, number_of, until_bank_orders_are_done
from tests.support.merchant import database_of, new_merchant, until_answer
from tests.support.system import System


async def test_a_pix_charge_failed_in_the_sandbox_is_removed_at_the_bank(system: System) -> None:
    async with new_merchant(system) as merchant, database_of(system) as books:
        charge = await merchant.sandbox.created()
        await until_bank_orders_are_done(books, charge)
        assert await cob_status(books, charge) == "ATIVA"
        answer = await merchant.sandbox.post(f"/v1/sandbox/charges/{charge['charge_id']}/fail")
        assert (answer.status, answer.body["status"]) == (200, "failed")
        await until_bank_orders_are_done(books, charge)
        assert await cob_status(books, charge) == "REMOVIDA_PELO_USUARIO_RECEBEDOR"


async def test_each_pix_paid_into_one_boleto_keeps_its_own_end_to_end_id(system: System) -> None:
    """A boleto was paid twice by its QR Code, and the second payment got the first one's endToEndId: its refund went
    to the wrong payer."""
    async with new_merchant(system) as merchant, database_of(system) as books:
        client = merchant.production
        charge = await issue_boleto(client, tipo="boleto_hibrido")
        for times in (1, 2):
            asked = {"number": number_of(charge), "rail": "pix", "force": True}
            async with client.http.post(f"{system.bank_url}/simulated/pay", json=asked) as answer:
                assert answer.status == 200

            async def booked(count: int = times) -> list[dict[str, Any]]:
                found = await client.all("/v1/payments", charge_id=charge["charge_id"], order="asc")
                return found if len(found) == count else []

            payments = await until_answer(booked)
        sent = await books.fetch(
            "SELECT end_to_end_id FROM simulated_boleto_payment WHERE number = $1 ORDER BY payment_id",
            number_of(charge),
        )
        assert [payment["end_to_end_id"] for payment in payments] == [row["end_to_end_id"] for row in sent]


async def test_two_pix_of_another_amount_into_one_boleto_are_two_payments_refundable_in_full(system: System) -> None:
    """Read together they became one payment with the second's endToEndId, and the bank refused to return the sum."""
    async with new_merchant(system) as merchant:
        client = merchant.production
        charge = await issue_boleto(client, tipo="boleto_hibrido")
        assert (await client.post(f"/v1/charges/{charge['charge_id']}/cancel")).status == 200
        asked = {"number": number_of(charge), "rail": "pix", "amount": "19.73", "times": 2, "force": True}
        async with client.http.post(f"{system.bank_url}/simulated/pay", json=asked) as answer:
            sent = [each["end_to_end_id"] for each in (await answer.json())["payments"]]

        async def booked() -> list[dict[str, Any]]:
            found = await client.all("/v1/payments", charge_id=charge["charge_id"], order="asc")
            return found if sum(Decimal(payment["amount"]) for payment in found) == Decimal("39.46") else []

        payments = await until_answer(booked)
        assert [payment["amount"] for payment in payments] == ["19.73", "19.73"]
        assert sorted(payment["end_to_end_id"] for payment in payments) == sorted(sent)
        for payment in payments:
            body = {"payment_id": payment["payment_id"]}
            path = f"/v1/charges/{charge['charge_id']}/refunds"
            refund = await client.ask("POST", path, json=body, key=payment["payment_id"])
            assert refund.status == 201, refund.body

            async def ended_refund(refund_id: str = refund.body["refund_id"]) -> dict[str, Any] | None:
                shown = (await client.get(f"/v1/refunds/{refund_id}")).body
                return None if shown["status"] == "pending" else shown

            ended = await until_answer(ended_refund)
            assert (ended["status"], ended["amount"]) == ("succeeded", "19.73")


async def test_two_concurrent_full_payments_of_an_underpaid_boleto_pay_it_once(system: System) -> None:
    """An underpaid boleto is pending, and simulate-payment answered CHARGE_NOT_PENDING."""
    async with new_merchant(system) as merchant:
        client = merchant.sandbox
        charge = await issue_boleto(client)
        path = f"/v1/sandbox/charges/{charge['charge_id']}/pay"
        assert (await client.post(path, {"amount": "1.00"})).body["status"] == "pending"
        answers = await asyncio.gather(
            *(client.post(f"/v1/charges/{charge['charge_id']}/simulate-payment") for _ in range(2))
        )
        assert {answer.status for answer in answers} <= {200, 409}
        assert (await client.get(f"/v1/charges/{charge['charge_id']}")).body["status"] == "paid"
        payments = await client.all("/v1/payments", charge_id=charge["charge_id"], order="asc")
        shown = [(payment["amount"], payment["anomaly"]) for payment in payments]
        assert shown == [("1.00", "amount_mismatch"), (charge["amount"], None)]


async def test_a_redis_connection_lost_during_an_enqueue_is_logged_as_debug_and_not_as_error() -> None:
    """A connection that dies after the command was sent raises another exception than one that dies before."""
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while count := (await reader.readline())[1:]:
                words = [(await reader.readline(), await reader.readline())[1].strip() for _ in range(int(count))]
                if words[0] == b"EVALSHA":
                    gone.set()
                    return
                writer.write(b"+OK\r\n")
                await writer.drain()
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        redis = open_redis(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}", blocking=False)
        jobs = Jobs(redis)
        with capture_logs() as said:
            jobs.wake("webhooks")
            await asyncio.wait_for(gone.wait(), 30)
            await jobs.stop()
        await redis.aclose(close_connection_pool=True)
    assert [(each["event"], each["log_level"]) for each in said] == [("job_not_enqueued", "debug")]
