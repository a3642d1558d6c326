"""A surplus answer of a bank answers no later call, and a call whose answer was lost is not repeated unseen."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from banks.banco_do_brasil.adapter import BancoDoBrasil
from banks.protocol import Cob, Done, Location, NotFound, Unknown
from banks.transfers import Return
from runtime.jobs import Jobs
from runtime.settings import read_settings
from tests.support.banking import SECRET_KEY, adapter_at, utc_now
from workers.context import open_context


class _NoJobs(Jobs):
    def __init__(self) -> None:
        pass


class TwiceAnsweringBank:
    """A bank that makes locations numbered from 1 and sends the answer with the first one again a moment later."""

    def __init__(self) -> None:
        self.made = 0
        self.twice = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
                await reader.readexactly(length)
                if head.startswith("post /oauth/token"):
                    writer.write(self._answer({"access_token": "t", "expires_in": 600}))
                    continue
                self.made += 1
                answer = self._answer({"id": self.made, "location": f"pix.example.com/{self.made}"})
                writer.write(answer)
                if self.made == 1:
                    await asyncio.sleep(0.05)
                    writer.write(answer)
                    self.twice.set()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, body: dict[str, Any]) -> bytes:
        said = json.dumps(body).encode()
        return b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
            len(said),
            said,
        )


async def test_a_repeated_answer_of_a_bank_is_not_taken_for_the_answer_to_the_next_call(servers: Any) -> None:
    bank = TwiceAnsweringBank()
    server = await asyncio.start_server(bank.serve, "127.0.0.1", 0)
    settings = read_settings(
        {
            "DATABASE_URL": servers.database_url,
            "REDIS_URL": servers.redis_url,
            "SECRET_KEY": SECRET_KEY,
            "BANK_URL": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}",
        }
    )
    async with server, open_context(settings, _NoJobs(), asyncio.Event()) as context:
        (production,) = context.banks.production.values()
        made = []
        for _ in range(3):
            answer = await production.pix.create_locations(1)
            assert isinstance(answer, Done)
            made += answer.value
            await bank.twice.wait()
            await asyncio.sleep(0.2)
    assert made == [Location(number, f"pix.example.com/{number}") for number in (1, 2, 3)]


class ForgetfulBank:
    """A bank that executes the first PUT and drops the kept connection instead of answering, refuses the same PUT when
    it is repeated, and does not show yet what it did."""

    def __init__(self) -> None:
        self.put = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                _, length, rest = head.lower().partition("content-length: ")
                await reader.readexactly(int(rest.partition("\r\n")[0]) if length else 0)
                if head.startswith("POST /oauth/token"):
                    writer.write(self._answer(200, {"access_token": "t", "expires_in": 600}))
                elif head.startswith("GET"):
                    writer.write(self._answer(404, self._no("NaoEncontrado")))
                else:
                    self.put += 1
                    if self.put == 1:
                        break
                    writer.write(self._answer(400, self._no("PixDevolucaoInvalida")))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _no(self, kind: str) -> dict[str, Any]:
        return {"type": f"https://pix.bcb.gov.br/api/v2/error/{kind}", "title": kind, "detail": "-"}

    def _answer(self, status: int, body: dict[str, Any]) -> bytes:
        said = json.dumps(body).encode()
        head = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        return head % (status, len(said)) + said


async def return_pix(bank: BancoDoBrasil) -> object:
    return await bank.transfers.return_pix(Return(id="a" * 32, end_to_end_id="E1", amount_cents=100))


async def put_cob(bank: BancoDoBrasil) -> object:
    return await bank.pix.put_cob(
        Cob(txid="a" * 32, amount_cents=100, created_at=utc_now(), expires_in_s=60, location_id=1, pix_key="k")
    )


@pytest.mark.parametrize("ask", [return_pix, put_cob])
async def test_a_call_on_a_dropped_connection_is_unknown_and_not_repeated(ask: Any) -> None:
    """A refusal of the repeated call would hide that the first one succeeded: a refund that was sent would fail."""
    bank = ForgetfulBank()
    server = await asyncio.start_server(bank.serve, "127.0.0.1", 0)
    async with server, aiohttp.ClientSession() as http:
        adapter = adapter_at(http, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        assert await adapter.pix.get_cob("a" * 32) == NotFound()  # from here on a connection is kept
        answer = await ask(adapter)
        assert isinstance(answer, Unknown), answer
    assert bank.put == 1
