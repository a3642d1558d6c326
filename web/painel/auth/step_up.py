"""Step-up: a form that moves money or lets people in asks for the password again, and the code of the second factor.

The proof is valid for five minutes in the session in which it was given. Signing in counts as a proof, except when a
kept form waits to be sent again (kept_form.py). Password and code are checked in the cell of the session, whichever
cell the page belongs to. The page that asks for the proof says what is to be confirmed and has a field for the
password; it carries the form's fields as they were filled in, and sends them to the same address.
"""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from litestar.response import Response

from commands.people.attempts import reset_attempts, take_attempt, take_code_attempt
from commands.people.people import GUESSABLE, PASSWORD_MIN
from commands.people.second_factor import is_digits, take_code
from commands.people.sessions import PASSWORD_MAX, Side, find_person, hash_of, password_is_right, prove_session
from domain.errors import Refused
from domain.merchants.staff import is_newcomer
from runtime.postgres import session, transaction
from web.painel.page_refusals import StepUpNeeded, StillNew
from web.painel.page_request import PageRequest, address_of

HOLDS: Final = timedelta(minutes=5)
PASSWORD_FIELD: Final = "step_up_password"  # noqa: S105 - the name of a field
CODE_FIELD: Final = "step_up_code"
WRONG_PASSWORD: Final = "Senha incorreta."  # noqa: S105 - what is said of one
WRONG_CODE: Final = "Código incorreto ou já usado. Espere o próximo e tente de novo."
THROTTLED: Final = "Muitas tentativas. Espere alguns minutos e tente de novo."


def password_refusal_text(refused: Refused) -> str:
    """Returns why a chosen password is not accepted, in words for people."""
    if refused.fields == {"password": GUESSABLE}:
        return "Esta senha é das primeiras que se tentam. Escolha outra: quatro palavras sem ligação, por exemplo."
    return f"A senha precisa de {PASSWORD_MIN} a {PASSWORD_MAX} caracteres."


def require_step_up(request: PageRequest, action: str, facts: Mapping[str, str]) -> None:
    """Raises StepUpNeeded unless the person gave the password, and the code with a second factor, within the last five
    minutes. `action` and `facts` say on the page what is to be confirmed: the last look before money leaves."""
    if not request.session.second_factor and request.settings.money_totp_required:
        raise StepUpNeeded(enrol=True)
    if request.proof_refused or request.now - request.session.proved_at > HOLDS:
        raise StepUpNeeded(action, facts)


def refuse_newcomer(request: PageRequest) -> None:
    """Checks either of the two members of staff that a decision takes: StillNew for one whom a colleague gave the role
    less than a day ago."""
    if is_newcomer(request.session.role_given_at, now=request.now):
        raise StillNew


async def prove(request: PageRequest) -> str:
    """Checks the password and the code of the form; returns what is wrong, or empty text. Each guess counts."""
    fault = await password_fault(request, request.raw(PASSWORD_FIELD))
    if not fault and request.session.second_factor:
        fault = await _code_fault(request, request.field(CODE_FIELD))
    if not fault:
        async with session(request.person_pool) as conn:
            await prove_session(conn, request.cookie, now=request.now)
        request.prove()
    request.proof_refused = bool(fault)
    return fault


def step_up_page(request: PageRequest, needed: StepUpNeeded, fault: str, *, back: str) -> Response[Any]:
    """`back` is the page that the form was on."""
    if needed.enrol:
        link = f"{request.section.root}/acesso/codigo"
        return request.show("message.html", _ENROL_MESSAGE | {"link": link, "back": back}, status=403)
    values = {
        "action": needed.action,
        "facts": {label: text for label, text in needed.facts.items() if text},
        "given": request.given(but={"csrf", PASSWORD_FIELD, CODE_FIELD}),
        "password_field": PASSWORD_FIELD,
        "code_field": CODE_FIELD,
        "fault": fault,
    }
    return request.show("step_up.html", values, status=403)


async def password_fault(request: PageRequest, password: str) -> str:
    """Returns what is wrong with the password given by the signed-in person; empty when it is right. Guesses are
    counted by session, so that attempts of strangers elsewhere keep nobody from their work."""
    email, address = request.session.email, address_of(request.http)
    side: Side = request.section.side
    device = (hash_of(request.cookie) or b"").hex()
    try:
        async with session(request.person_pool) as conn:
            await take_attempt(conn, email, address, now=request.now, seal=request.seal, device=device)
            person = await find_person(conn, email, side)
    except Refused:
        return THROTTLED
    async with request.http.app.state.sign_in_turns:
        is_right = await asyncio.to_thread(password_is_right, password[:PASSWORD_MAX], person)
    if not is_right or len(password) > PASSWORD_MAX:
        return WRONG_PASSWORD
    async with session(request.person_pool) as conn:
        await reset_attempts(conn, email, address, seal=request.seal, device=device)
    return ""


async def _code_fault(request: PageRequest, code: str) -> str:
    email = request.session.email
    try:
        if is_digits(code):
            async with session(request.person_pool) as conn:
                await take_code_attempt(conn, email, now=request.now, seal=request.seal)
        async with transaction(request.person_pool) as conn:
            accepted = await take_code(conn, email, code, now=request.now, seal=request.seal)
    except Refused:
        return THROTTLED
    return "" if accepted is not None else WRONG_CODE


_ENROL_MESSAGE: Final = {
    "title": "Ligue os dois fatores",
    "text": "Para movimentar dinheiro, além da senha é preciso um código do seu telefone. Ligue os dois fatores e "
    "tente de novo.",
    "link_text": "Ligar dois fatores",
}
