"""Browsers that a person has signed in with before. Attempts elsewhere do not slow down a sign-in in a known browser,
and a sign-in in an unknown one is reported to the person by e-mail.

A cookie names the browser by 128 random bits, and has a keyed fingerprint of browser, e-mail and password hash for each
of the last people who signed in. The server stores nothing, and a new password makes every browser unknown again except
the one in which the password was chosen.
"""

import hmac
import re
import secrets
from hashlib import sha256
from typing import Any, Final

from litestar.response import Response

from commands.people.sessions import Person
from runtime.settings import Settings
from web.head import cookie_in
from web.painel.auth.entry_form import cookie_name, make_cookie
from web.painel.page_request import AnyRequest
from web.painel.section import Section

PEOPLE_MAX: Final = 5
"""People for whom one browser is known; the one who signed in longest ago is forgotten first."""
LIFETIME_S: Final = 180 * 86_400
_COOKIE_NAME: Final = "aparelho"
_COOKIE_FORMAT = re.compile(rf"([0-9a-f]{{32}})((?:\.[0-9a-f]{{32}}){{1,{PEOPLE_MAX}}})")
_BROWSERS: Final = (
    ("Edg", "Edge"), ("OPR", "Opera"), ("Firefox", "Firefox"), ("Chrome", "Chrome"), ("Safari", "Safari"),
)  # fmt: skip
_SYSTEMS: Final = (
    ("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("Windows", "Windows"), ("Mac OS", "macOS"),
    ("Linux", "Linux"),
)  # fmt: skip


def known_device(request: AnyRequest, section: Section, person: Person | None) -> str | None:
    """Returns the browser's name if this person has signed in with it since the password was chosen."""
    device, fingerprints = _read_cookie(request)
    if person is None or person.password_hash is None or not device:
        return None
    fingerprint = _fingerprint(request, section, device, person.email, person.password_hash)
    return device if any(hmac.compare_digest(fingerprint, each) for each in fingerprints) else None


def remember_device(
    request: AnyRequest, section: Section, answer: Response[Any], email: str, password_hash: str
) -> None:
    """Sets the cookie that makes this browser known for this person."""
    settings: Settings = request.app.state.settings
    device, fingerprints = _read_cookie(request)
    device = device or secrets.token_hex(16)
    fingerprint = _fingerprint(request, section, device, email, password_hash)
    kept = [fingerprint, *(each for each in fingerprints if each != fingerprint)][:PEOPLE_MAX]
    answer.set_cookie(make_cookie(_COOKIE_NAME, ".".join([device, *kept]), settings, LIFETIME_S))


def browser_name(request: AnyRequest) -> str:
    """Returns program and system in words of our own: the result is mailed, and anybody can choose a User-Agent."""
    user_agent = request.headers.get("user-agent", "")
    program = next((name for token, name in _BROWSERS if token in user_agent), "navegador desconhecido")
    system = next((name for token, name in _SYSTEMS if token in user_agent), "")
    return f"{program}, {system}" if system else program


def _read_cookie(request: AnyRequest) -> tuple[str, list[str]]:
    match = _COOKIE_FORMAT.fullmatch(cookie_in(request.scope, cookie_name(_COOKIE_NAME, request.app.state.settings)))
    return ("", []) if match is None else (match[1], match[2][1:].split("."))


def _fingerprint(request: AnyRequest, section: Section, device: str, email: str, password_hash: str) -> str:
    key = request.app.state.context.seal.key("known device")
    text = "\n".join((section.root, device, email, password_hash))
    return hmac.new(key, text.encode(), sha256).hexdigest()[:32]
