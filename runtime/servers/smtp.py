"""The server for our mails, and the address they come from: settings, read once (runtime/settings.py)."""

import re
from collections.abc import Mapping
from urllib.parse import parse_qs, unquote, urlsplit

from msgspec import Struct


class SmtpServer(Struct, frozen=True, kw_only=True):
    """`tls`: TLS from the first byte (smtps); `starttls`: TLS after the greeting, without which no mail is sent."""

    host: str
    port: int
    user: str = ""
    password: str = ""
    tls: bool = False
    starttls: bool = False

    def __repr__(self) -> str:
        return f"SmtpServer(host={self.host!r}, port={self.port})"


def read_smtp(env: Mapping[str, str]) -> SmtpServer | None:
    """The server of SMTP_URL; None when it is not set; ValueError when it is not the address of a mail server."""
    text = env.get("SMTP_URL", "")
    if not text:
        return None
    wrong = ValueError("SMTP_URL must be such as smtp://user:password@host:587?starttls=1 or smtps://host")
    try:
        url = urlsplit(text)
        tls = {"smtp": False, "smtps": True}[url.scheme]
        options = parse_qs(url.query, strict_parsing=True) if url.query else {}
        starttls = options.pop("starttls", ["0"])
        port = url.port or (465 if tls else 587)
    except (ValueError, KeyError):
        raise wrong from None
    if not url.hostname or options or url.path not in ("", "/") or starttls not in (["0"], ["1"]):
        raise wrong
    if tls and starttls == ["1"]:
        raise wrong
    return SmtpServer(
        host=url.hostname,
        port=port,
        user=unquote(url.username or ""),
        password=unquote(url.password or ""),
        tls=tls,
        starttls=starttls == ["1"],
    )


def read_mail_from(env: Mapping[str, str], *, required: bool) -> str:
    """MAIL_FROM; ValueError when it is missing and `required`, or is not a bare e-mail address."""
    given = env.get("MAIL_FROM", "")
    if not given and required:
        raise ValueError("MAIL_FROM is not set")
    given = given or "cobrancas@example.com"
    if not re.fullmatch(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,189}", given):
        raise ValueError("MAIL_FROM must be a bare e-mail address")
    return given
