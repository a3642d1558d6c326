"""A person's own access: the sessions, the password, the second factor.

Each change asks for the password again, so that an open browser is not enough to make it, and each guess counts against
a limit (commands/people/attempts.py). A new password or second factor ends the person's other sessions, and each change
is reported to the person by e-mail.
"""

import asyncio
import secrets
from base64 import b64encode
from typing import Any

from cryptography.exceptions import InvalidTag
from litestar.exceptions import ClientException
from litestar.response import Response

from commands.people.attempts import take_code_attempt
from commands.people.links import end_links
from commands.people.people import PASSWORD_MIN, change_password, check_password
from commands.people.second_factor import RECOVERY_CHANCE, clear, enrol, is_digits, open_secret, seal_secret, take_code
from commands.people.sessions import count_sessions, end_other_sessions
from commands.people.tell import mail_person
from domain.errors import Refused
from domain.pix.qr import png
from domain.totp import SECRET_BYTES, in_text, otpauth
from readmodels.dashboard.people import find_own_factor
from runtime.passwords import hash_password
from runtime.postgres import Connection, session
from web.painel.auth.devices import browser_name, remember_device
from web.painel.auth.step_up import THROTTLED, WRONG_CODE, password_fault, password_refusal_text
from web.painel.page_request import PageRequest, address_of

ISSUER = "Quita"


_PASSWORD_CHANGED, _FACTOR_ON, _FACTOR_OFF = "password.changed", "factor.on", "factor.off"


async def show(request: PageRequest) -> Response[Any]:
    return await _access_page(request)


async def set_password(request: PageRequest) -> Response[Any]:
    new_password = request.raw("new")
    try:
        check_password(new_password, request.session.email)
    except Refused as refused:
        return await _access_page(request, fault=password_refusal_text(refused))
    if new_password != request.raw("again"):
        return await _access_page(request, fault="As duas senhas novas são diferentes.")
    fault = await password_fault(request, request.raw("password"))
    if fault:
        return await _access_page(request, fault=fault)
    password_hash = await _hash_in_turn(request, new_password)
    async with request.change(_PASSWORD_CHANGED) as conn:
        await change_password(conn, request.session.email, password_hash)
        await end_other_sessions(conn, request.session.email, request.cookie)
        # With a link still open, somebody who reads the mailbox could replace the new password.
        await end_links(conn, email=request.session.email, now=request.now)
        await _mail_change(conn, request, _PASSWORD_CHANGED)
    answer = request.go(f"{request.section.root}/acesso", done="senha")
    remember_device(request.http, request.section, answer, request.session.email, password_hash)
    return answer


async def show_factor(request: PageRequest) -> Response[Any]:
    return await _factor_page(request)


async def turn_on(request: PageRequest) -> Response[Any]:
    """Turns the second factor on, with the first code of the secret that this form showed. A second factor that is on
    must be turned off first, with a code of its own."""
    email = request.session.email
    try:
        secret = open_secret(email, bytes.fromhex(request.field("secret")), request.seal)
    except (ValueError, InvalidTag):
        raise ClientException from None
    fault = await password_fault(request, request.raw("password"))
    if fault:
        return await _factor_page(request, secret=secret, fault=fault)
    try:
        async with request.change("totp.enrolled") as conn:
            codes = await enrol(
                conn,
                email,
                secret,
                request.field("code"),
                now=request.now,
                seal=request.seal,
                chance=secrets.token_bytes(RECOVERY_CHANCE),
            )
            await end_other_sessions(conn, email, request.cookie)
            await _mail_change(conn, request, _FACTOR_ON)
    except Refused:
        return await _factor_page(request, secret=secret, fault=WRONG_CODE)
    return request.show("recovery.html", {"codes": codes})


async def turn_off(request: PageRequest) -> Response[Any]:
    fault = await password_fault(request, request.raw("password"))
    if fault:
        return await _factor_page(request, off_fault=fault)
    email, code = request.session.email, request.field("code")
    try:
        async with session(request.pool) as conn:
            if is_digits(code):
                await take_code_attempt(conn, email, now=request.now, seal=request.seal)
        async with request.change("totp.removed") as conn:
            if await take_code(conn, email, code, now=request.now, seal=request.seal) is None:
                raise _WrongCode
            await clear(conn, email=email)
            await _mail_change(conn, request, _FACTOR_OFF)
    except Refused:
        return await _factor_page(request, off_fault=THROTTLED)
    except _WrongCode:
        return await _factor_page(request, off_fault=WRONG_CODE)
    return request.go(f"{request.section.root}/acesso", done="fator-desligado")


class _WrongCode(Exception):
    """Rolls the transaction back, so that the audit log has no entry for a change that was not made."""


async def _mail_change(conn: Connection, request: PageRequest, kind: str) -> None:
    """Reports the change to the person by e-mail: somebody else with the session and the password may have made it."""
    person, facts = request.session, {"browser": browser_name(request.http), "from": address_of(request.http)}
    await mail_person(conn, person.email, person.account_id, kind, facts, now=request.now, seal=request.seal)


async def _hash_in_turn(request: PageRequest, password: str) -> str:
    async with request.http.app.state.sign_in_turns:
        return await asyncio.to_thread(hash_password, password)


async def _access_page(request: PageRequest, *, fault: str = "") -> Response[Any]:
    async with session(request.pool) as conn:
        sessions = await count_sessions(conn, request.session.email, now=request.now)
        factor = await find_own_factor(conn, email=request.session.email)
    values = {
        "sessions": sessions,
        "factor": factor,
        "fault": fault,
        "length_min": PASSWORD_MIN,
    }
    return request.show("access.html", values, status=400 if fault else 200)


async def _factor_page(
    request: PageRequest, *, secret: bytes | None = None, fault: str = "", off_fault: str = ""
) -> Response[Any]:
    email = request.session.email
    if secret is None:
        secret = secrets.token_bytes(SECRET_BYTES)
    async with session(request.pool) as conn:
        factor = await find_own_factor(conn, email=email)
    # An e-mail too long for our QR Code is shown without an image: the secret as text is enough.
    link = otpauth(secret, issuer=ISSUER, account=email)
    values = {
        "factor": factor,
        "secret": seal_secret(email, secret, request.seal).hex(),
        "secret_text": in_text(secret),
        "image": f"data:image/png;base64,{b64encode(png(link)).decode()}" if len(link) <= 512 else None,
        "link": link,
        "fault": fault,
        "off_fault": off_fault,
        "must": request.must_enrol,
    }
    return request.show("factor.html", values, status=400 if fault or off_fault else 200)
