"""Hand messages to a mail server, over the standard library's blocking client in a thread.

One connection takes the mails of a batch, one after the other, until one of them takes too long. What a server says of
one mail is a value; only "no, for good, to this mail" is `Turned`. Everything else may be over in a while, or may have
gone through: it is tried again.
"""

import asyncio
import contextlib
import smtplib
import ssl
from typing import Final

from msgspec import Struct

from runtime.settings import SmtpServer

READ_S: Final = 15.0
"""How long the server may think between two lines."""
MAIL_S: Final = 60.0
"""How long one mail may take in all."""
_FOR_GOOD = 500


class Went(Struct, frozen=True):
    """The server has taken it on."""


class Turned(Struct, frozen=True):
    """Refused for good. `code` is the server's, three digits."""

    code: str


class Unsure(Struct, frozen=True):
    """Not taken, or nobody knows. `ours`: nothing is wrong with the mail, so who runs this should look."""

    detail: str
    ours: bool = False


Fate = Went | Turned | Unsure


class SmtpReader:
    """The way to the server for the mails of one task."""

    def __init__(self, server: SmtpServer, mail_from: str) -> None:
        self._server = server
        self._from = mail_from
        self._talk = _Talk(server, mail_from)

    async def send(self, to: str, message: bytes) -> Fate:
        talk = self._talk
        try:
            async with asyncio.timeout(MAIL_S):
                return await asyncio.to_thread(talk.send, to, message)
        except TimeoutError:
            # Its thread ends by its socket's timeout, and nobody waits for it. The connection is its own from here on:
            # the next mail's words in the middle of this one would become part of it.
            talk.given_up = True
            self._talk = _Talk(self._server, self._from)
            return Unsure("too slow")

    async def close(self) -> None:
        await asyncio.to_thread(self._talk.quit)


class _Talk:
    """A connection, opened when its first mail goes, for one thread at a time."""

    def __init__(self, server: SmtpServer, mail_from: str) -> None:
        self._server = server
        self._from = mail_from
        self._smtp: smtplib.SMTP | None = None
        self.given_up = False
        """Nobody waits for its mail, and none will follow."""

    def send(self, to: str, message: bytes) -> Fate:
        try:
            if self._smtp is None:
                self._smtp = self._open()
            self._smtp.sendmail(self._from, [to], message)
            return Went()
        except smtplib.SMTPRecipientsRefused as refused:
            code, _ = refused.recipients[to]
            return self._said(code)
        except smtplib.SMTPDataError as refused:
            return self._said(refused.smtp_code)
        except smtplib.SMTPResponseException as refused:
            # Greeting, login or sender: about us, whatever the mail.
            self._drop()
            return Unsure(f"{type(refused).__name__} {refused.smtp_code}", ours=True)
        except (smtplib.SMTPException, OSError, UnicodeError) as error:
            self._drop()
            return Unsure(type(error).__name__, ours=not isinstance(error, smtplib.SMTPServerDisconnected))
        finally:
            if self.given_up:
                self.quit()

    def quit(self) -> None:
        if self._smtp is not None:
            with contextlib.suppress(smtplib.SMTPException, OSError):
                self._smtp.quit()
            self._drop()

    def _open(self) -> smtplib.SMTP:
        server = self._server
        # The name we greet with: looking this machine's own up may ask a name server for seconds.
        name = self._from.rpartition("@")[2]
        smtp: smtplib.SMTP
        if server.tls:
            smtp = smtplib.SMTP_SSL(
                server.host, server.port, local_hostname=name, timeout=READ_S, context=ssl.create_default_context()
            )
        else:
            smtp = smtplib.SMTP(server.host, server.port, local_hostname=name, timeout=READ_S)
        try:
            if server.starttls:
                smtp.starttls(context=ssl.create_default_context())
            if server.user:
                smtp.login(server.user, server.password)
        except BaseException:
            smtp.close()
            raise
        return smtp

    def _said(self, code: int) -> Fate:
        self._reset()
        return Turned(str(code)) if code >= _FOR_GOOD else Unsure(str(code))

    def _reset(self) -> None:
        """The next mail begins anew, on a connection that survived the refusal."""
        assert self._smtp is not None
        try:
            self._smtp.rset()
        except (smtplib.SMTPException, OSError):
            self._drop()

    def _drop(self) -> None:
        if self._smtp is not None:
            self._smtp.close()
            self._smtp = None
