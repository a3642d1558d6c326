"""A mail server for tests, on a real socket (RFC 5321): it accepts mails, or refuses or hangs as the test plans it."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP

from msgspec import Struct


class Taken(Struct):
    sender: str
    to: list[str]
    raw: bytes

    @property
    def message(self) -> EmailMessage:
        found = message_from_bytes(self.raw, policy=SMTP)
        assert isinstance(found, EmailMessage)
        return found

    def part(self, kind: str) -> str:
        body = self.message.get_body((kind,))
        assert body is not None
        return str(body.get_content())


class MailServer:
    """`answers` replace the usual ones: by command, the lines to answer next, each used once. `HANG` answers nothing,
    `DROP` closes the connection, `DROP AFTER` stores the mail and closes the connection instead of acknowledging. Mails
    to `unknown` addresses are refused permanently."""

    def __init__(self, *, user: str = "", password: str = "") -> None:
        self.mails: list[Taken] = []
        self.answers: dict[str, list[str]] = {}
        self.unknown: set[str] = set()
        self.connections = 0
        self.logins: list[str] = []
        self._credentials = (user, password)
        self.url = ""

    def of(self, address: str) -> list[Taken]:
        return [mail for mail in self.mails if address in mail.to]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self._talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def say(line: str) -> None:
            writer.write(line.encode() + b"\r\n")
            await writer.drain()

        await say("220 mail.example.com ESMTP")
        sender = ""
        to: list[str] = []
        while line := await reader.readline():
            text = line.decode().strip()
            command = text.split(" ", 1)[0].upper()
            planned = self.answers.get(command, [])
            if planned and planned[0] != "DROP AFTER":
                answer = planned.pop(0)
                if answer == "HANG":
                    await asyncio.sleep(60)
                if answer == "DROP":
                    return
                await say(answer)
                continue
            match command:
                case "EHLO":
                    await say("250-mail.example.com")
                    if self._credentials[0]:
                        await say("250-AUTH PLAIN")
                    await say("250 8BITMIME")
                case "AUTH":
                    given = base64.b64decode(text.split(" ")[2]).decode().split("\0")[1:]
                    self.logins.append(given[0])
                    await say("235 in" if tuple(given) == self._credentials else "535 no")
                case "MAIL":
                    sender, to = text[len("MAIL FROM:<") :].split(">")[0], []
                    await say("250 ok")
                case "RCPT":
                    address = text[len("RCPT TO:<") :].split(">")[0]
                    known = address not in self.unknown
                    to += [address] if known else []
                    await say("250 ok" if known else "550 nobody here")
                case "DATA":
                    await say("354 go on")
                    raw = await reader.readuntil(b"\r\n.\r\n")
                    body = raw.removesuffix(b".\r\n").replace(b"\r\n..", b"\r\n.")
                    self.mails.append(Taken(sender, list(to), body))
                    if planned:
                        planned.pop(0)
                        return
                    await say("250 taken")
                case "QUIT":
                    await say("221 bye")
                    return
                case "RSET" | "NOOP":
                    await say("250 ok")
                case _:
                    await say("500 what")


@asynccontextmanager
async def mail_server(*, user: str = "", password: str = "") -> AsyncIterator[MailServer]:
    made = MailServer(user=user, password=password)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    login = f"{user}:{password}@" if user else ""
    made.url = f"smtp://{login}127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
