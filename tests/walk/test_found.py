"""What walks have found, each as short as it can be told."""

import asyncio
from typing import Any

from structlog.testing import capture_logs

from runtime.bell import Bell
from runtime.redis import open_redis
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


async def test_a_redis_that_goes_away_in_the_middle_of_a_bells_job_is_no_error_of_ours() -> None:
    """arq watches a key first; a connection that dies then is told by another exception than one that dies before."""
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while count := (await reader.readline())[1:]:
                words = [(await reader.readline(), await reader.readline())[1].strip() for _ in range(int(count))]
                if words[0] == b"EXISTS":
                    gone.set()
                    return
                writer.write(b":1\r\n" if words[0] == b"LPUSH" else b"+OK\r\n")
                await writer.drain()
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        redis = open_redis(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}", blocking=False)
        bell = Bell(redis)
        with capture_logs() as said:
            bell.ring("webhooks")
            await asyncio.wait_for(gone.wait(), 5)
            await bell.stop()
        await redis.aclose(close_connection_pool=True)
    assert [(each["event"], each["log_level"]) for each in said] == [("bell_job_lost", "debug")]
