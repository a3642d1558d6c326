"""What a bank sends without being asked answers no order."""

import asyncio
import json
from typing import Any

from banks.protocol import Done, Location
from runtime.jobs import Jobs
from runtime.settings import read_settings
from tests.support.banking import SECRET_KEY
from workers.context import open_context


class _NoJobs(Jobs):
    def __init__(self) -> None:
        pass


class TwiceAnsweringBank:
    """Makes locations numbered from 1; the answer with the first comes a second time a moment later."""

    def __init__(self) -> None:
        self.made = 0

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


async def test_an_answer_that_a_bank_gives_twice_is_none_to_the_next_order(servers: Any) -> None:
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
            await asyncio.sleep(0.2)
    assert made == [Location(number, f"pix.example.com/{number}") for number in (1, 2, 3)]
