"""Send messages to a mail server; its answers are returned as values.

Only a permanent refusal of this mail is `MailRejected`. Any other fault may pass, or the mail may have been accepted:
the mail is sent again, with the same Message-ID.
"""

import asyncio
import contextlib
from typing import Final, cast

import aiosmtplib
from msgspec import Struct

from runtime.servers.smtp import SmtpServer

READ_S: Final = 15.0
"""How long the server may take over one answer."""
MAIL_S: Final = 60.0
"""How long one mail may take in all."""
_PERMANENT_CODE_MIN = 500


class MailSent(Struct, frozen=True):
    """The server has accepted the mail."""


class MailRejected(Struct, frozen=True):
    """Refused for good. `code` is the server's, three digits."""

    code: str


class MailUnknown(Struct, frozen=True):
    """Not accepted, or not known. `ours`: the mail is not at fault, so the operator should look."""

    detail: str
    ours: bool = False


Outcome = MailSent | MailRejected | MailUnknown


class SmtpConnection:
    """Sends mails one after the other. Connects with the first mail, and again after a failure."""

    def __init__(self, server: SmtpServer, mail_from: str) -> None:
        self._mail_from = mail_from
        self._smtp = aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            username=server.user or None,
            password=server.password or None,
            # The default looks up this machine's own name, which can take a name server seconds.
            local_hostname=mail_from.rpartition("@")[2],
            timeout=READ_S,
            use_tls=server.tls,
            start_tls=server.starttls,
        )
        self._transport: asyncio.WriteTransport | None = None

    async def send(self, to: str, message: bytes) -> Outcome:
        try:
            async with asyncio.timeout(MAIL_S):
                if not self._smtp.is_connected:
                    await self._smtp.connect()
                    self._transport = cast(asyncio.WriteTransport, self._smtp.transport)
                await self._smtp.sendmail(self._mail_from, [to], message)
            return MailSent()
        except aiosmtplib.SMTPRecipientsRefused as refused:
            return _refusal(refused.recipients[0].code)
        except aiosmtplib.SMTPDataError as refused:
            return _refusal(refused.code)
        except aiosmtplib.SMTPResponseException as refused:
            # The greeting, the login or the sender failed, as it would for every mail.
            self._disconnect()
            return MailUnknown(f"{type(refused).__name__} {refused.code}", ours=True)
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            self._disconnect()
            if type(error) is TimeoutError:  # MAIL_S
                return MailUnknown("too slow")
            return MailUnknown(type(error).__name__, ours=not isinstance(error, aiosmtplib.SMTPServerDisconnected))

    async def close(self) -> None:
        if self._smtp.is_connected:
            with contextlib.suppress(aiosmtplib.SMTPException, OSError):
                await self._smtp.quit()
        self._disconnect()

    def _disconnect(self) -> None:
        self._smtp.close()
        if self._transport is not None:
            # close() alone waits until the server has read what was written, which may never happen.
            self._transport.abort()
            self._transport = None


def _refusal(code: int) -> Outcome:
    return MailRejected(str(code)) if code >= _PERMANENT_CODE_MIN else MailUnknown(str(code))
