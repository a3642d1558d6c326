"""A mail server that is too slow: a mail that nobody waits for any more never meets the next one on its connection."""

import asyncio
from email.message import EmailMessage

import pytest

import workers.mail.smtp
from runtime.settings import SmtpServer
from workers.mail.smtp import SmtpReader, Unsure, Went

_TOO_SLOW_S = 1.0


async def test_a_mail_given_up_never_shares_a_connection_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers.mail.smtp, "MAIL_S", _TOO_SLOW_S)
    taken: list[tuple[list[str], str]] = []
    all_taken = asyncio.Event()
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        slow = connections == 1

        async def say(line: str) -> None:
            writer.write(line.encode() + b"\r\n")
            await writer.drain()

        to: list[str] = []
        await asyncio.sleep(2 * _TOO_SLOW_S if slow else 0)
        await say("220 mail.example.com ESMTP")
        while line := await reader.readline():
            command = line.decode().strip()
            if command.upper().startswith("RCPT"):
                to.append(command)
            if command.upper() == "DATA":
                await asyncio.sleep(3 * _TOO_SLOW_S if slow else 0)
                await say("354 go on")
                body = await reader.readuntil(b"\r\n.\r\n")
                taken.append((to, body.decode()))
                to = []
                if len(taken) == 3:
                    all_taken.set()
            await say("250 ok")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    line = SmtpReader(SmtpServer(host="127.0.0.1", port=port), "cobrancas@example.com")
    fates = [await line.send(f"{name}@example.com", _message(name)) for name in ("ana", "bia")]
    await asyncio.sleep(2 * _TOO_SLOW_S)  # the first connection has got its greeting, and goes on with its mail
    fates.append(await line.send("eva@example.com", _message("eva")))
    await line.close()
    assert fates == [Unsure("too slow"), Went(), Went()]
    async with asyncio.timeout(30):
        await all_taken.wait()
    server.close()
    for to, body in taken:
        (name,) = [name for name in ("ana", "bia", "eva") if f"{name}@example.com" in to[0]]
        assert len(to) == 1
        assert [each for each in ("ana", "bia", "eva") if f"Boleto de {each}" in body] == [name]


def _message(name: str) -> bytes:
    message = EmailMessage()
    message["To"] = f"{name}@example.com"
    message.set_content(f"Boleto de {name}")
    return message.as_bytes()
