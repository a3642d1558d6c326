"""A mail server that is too slow: a mail that timed out never shares its connection with the next mail."""

import asyncio
import contextlib
from collections.abc import Callable
from email.message import EmailMessage
from types import SimpleNamespace

import pytest

import workers.mail.smtp
from runtime.servers.smtp import SmtpServer
from workers.mail.smtp import MailSent, MailUnknown, SmtpConnection


@pytest.fixture
def end_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Ends the time of the first mail, for which no other end is set: a busy machine may take any part of a second."""
    limits: list[asyncio.Timeout] = []

    def limit(_s: float) -> asyncio.Timeout:
        limits.append(asyncio.timeout(None))
        return limits[-1]

    known = SimpleNamespace(timeout=limit, WriteTransport=asyncio.WriteTransport)
    monkeypatch.setattr(workers.mail.smtp, "asyncio", known)
    return lambda: limits[0].reschedule(asyncio.get_running_loop().time())


async def test_a_mail_that_timed_out_never_shares_its_connection_with_the_next_mail(
    end_time: Callable[[], None],
) -> None:
    talks: list[list[str]] = []
    taken: list[tuple[str, str]] = []
    abandoned = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk: list[str] = []
        talks.append(talk)
        slow = len(talks) == 1
        writer.write(b"220 mail.example.com ESMTP\r\n")
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                talk.append(line.decode().strip())
                if talk[-1] == "DATA":
                    writer.write(b"354 go on\r\n")
                    taken.append((talk[-2], (await reader.readuntil(b"\r\n.\r\n")).decode()))
                    if slow:
                        end_time()
                        assert not await reader.read()  # no answer until the client gives up
                        abandoned.set()
                        break
                writer.write(b"250 ok\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    connection = SmtpConnection(SmtpServer(host="127.0.0.1", port=port), "cobrancas@example.com")
    outcomes = [await connection.send("ana@example.com", _message("ana"))]
    outcomes += [await connection.send(f"{name}@example.com", _message(name)) for name in ("bia", "eva")]
    await connection.close()
    assert outcomes == [MailUnknown("too slow"), MailSent(), MailSent()]
    async with asyncio.timeout(30):
        await abandoned.wait()
    server.close()
    assert len(talks) == 2
    for name, (to, body) in zip(("ana", "bia", "eva"), taken, strict=True):
        assert f"{name}@example.com" in to
        assert [each for each in ("ana", "bia", "eva") if f"Boleto de {each}" in body] == [name]


async def test_a_mail_to_a_server_that_stops_reading_is_given_up_half_sent(end_time: Callable[[], None]) -> None:
    message = b"x" * 50_000_000
    given_up = asyncio.Event()
    read: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.com ESMTP\r\n")
        while (await reader.readline()).strip() != b"DATA":
            writer.write(b"250 ok\r\n")
        writer.write(b"354 go on\r\n")
        count = len(await reader.readexactly(1))
        end_time()
        await given_up.wait()
        with contextlib.suppress(ConnectionError):
            while block := await reader.read(65_536):
                count += len(block)
        read.set_result(count)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    connection = SmtpConnection(SmtpServer(host="127.0.0.1", port=port), "cobrancas@example.com")
    assert await connection.send("ana@example.com", message) == MailUnknown("too slow")
    given_up.set()
    async with asyncio.timeout(30):
        assert await read < len(message)
    server.close()


def _message(name: str) -> bytes:
    message = EmailMessage()
    message["To"] = f"{name}@example.com"
    message.set_content(f"Boleto de {name}")
    return message.as_bytes()
