"""The account's people, for its owners: invite them, change their roles, send them a new link, remove them.

Nobody sees another person's password: a person who is invited, or has lost the password, is mailed a link.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from litestar.exceptions import NotFoundException
from litestar.response import Response

from commands.merchants.payout_key import payout_change_of
from commands.people.attempts import take_invite
from commands.people.credentials import revoke_credential
from commands.people.invitations import INVITED, invitations, invite, withdraw
from commands.people.links import ask_for_link
from commands.people.people import NAME_MAX, PEOPLE_MAX, ROLES, change_role, clear_factor, is_member, remove_person
from commands.people.scopes import grantable
from commands.people.tell import mail_owners
from domain.errors import Code, Refused
from domain.merchants.payout import PayoutChange
from domain.mode import Mode
from domain.withdrawal import masked_key
from readmodels.dashboard.credentials import CredentialRow, credentials_of_person
from readmodels.dashboard.people import people_of_account
from runtime.postgres import session
from sql import Connection
from web.painel.auth.step_up import require_step_up
from web.painel.labels import ROLES as ROLE_WORDS
from web.painel.page_request import PageRequest

_FAULTS = {
    "email": "Confira o e-mail. Quem já está na conta não é convidado de novo.",
    "name": f"Escreva o nome da pessoa, com até {NAME_MAX} caracteres e sem endereços da web.",
    "role": "Escolha um perfil.",
    "often": "Foram muitos e-mails em um dia. Espere até amanhã.",
    "limit": f"São no máximo {PEOPLE_MAX} pessoas.",
}
_LAST_OWNER = "A conta precisa de ao menos um proprietário. Escolha outro antes."
_SUBJECT_MAX = 500


async def show(request: PageRequest) -> Response[Any]:
    return await _page(request)


async def add(request: PageRequest) -> Response[Any]:
    """Invites a person. The page is the same for an e-mail that signs in to another account already; in that case the
    mail to that address says so."""
    email, name, role = request.field("email").lower(), request.field("name"), request.field("role")
    require_step_up(request, "Convidar uma pessoa", {"Nome": name, "E-mail": email, "Perfil": _role_label(role)})
    try:
        await count_invite(request)
        async with request.change("person.invited", subject=email, role=role) as conn:
            account_id = request.session.account_id
            await invite(conn, account_id, email, name, role, by=request.session.email, now=request.now)
            await ask_for_link(conn, email, invited_to=account_id, now=request.now, seal=request.seal)
            facts = {"person": email, "name": name, "role": role, **request.doer}
            await mail_owners(conn, account_id, "person.invited", facts, now=request.now, seal=request.seal)
    except Refused as refused:
        faults = {field: _FAULTS[field] for field in _refused_fields(refused)}
        return await _page(request, email=email, name=name, role=role, faults=faults)
    return request.go("/painel/pessoas", done="convite")


async def invite_again(request: PageRequest) -> Response[Any]:
    """Sends another mail for an invitation whose link has expired, with the role and the name of the invitation."""
    email, account_id = request.field("email"), request.session.account_id
    require_step_up(request, "Enviar um convite de novo", {"E-mail": email})
    async with session(request.pool) as conn:
        invitation = next(
            (each for each in await invitations(conn, account_id, now=request.now) if each.email == email), None
        )
    if invitation is None:
        raise NotFoundException
    try:
        await count_invite(request)
    except Refused:
        return await _page(request, faults={"often": _FAULTS["often"]})
    async with request.change("person.invited", subject=email, role=invitation.role) as conn:
        await invite(
            conn, account_id, email, invitation.name, invitation.role, by=request.session.email, now=request.now
        )
        await ask_for_link(conn, email, invited_to=account_id, now=request.now, seal=request.seal)
    return request.go("/painel/pessoas", done="convite")


async def take_back(request: PageRequest) -> Response[Any]:
    """Withdraws an invitation, whose link then stops working."""
    email = request.field("email")
    async with request.change("person.invitation_withdrawn", subject=email) as conn:
        if await withdraw(conn, account_id=request.session.account_id, email=email) is None:
            raise NotFoundException
    return request.go("/painel/pessoas", done="convite-retirado")


async def set_role(request: PageRequest) -> Response[Any]:
    email, role = request.field("email"), request.field("role")
    require_step_up(request, "Mudar o perfil de uma pessoa", {"E-mail": email, "Perfil novo": _role_label(role)})
    try:
        async with request.change("person.role_changed", subject=email, role=role) as conn:
            # Before the change, so that an owner who loses that role is mailed too.
            account_id, facts = request.session.account_id, {"person": email, "role": role, **request.doer}
            await mail_owners(conn, account_id, "person.role_changed", facts, now=request.now, seal=request.seal)
            if not await change_role(conn, account_id, email, role):
                raise NotFoundException
            remaining = await _remaining_access(conn, request, email)
    except Refused:
        return await _page(request, at=email, at_fault=_LAST_OWNER if role in ROLES else _FAULTS["role"])
    if email == request.session.email:
        return request.go("/painel", done="perfil")
    # The person may know the secrets of credentials that may do more than the new role (contract section 16).
    grantable_scopes = {mode.test: grantable(role, mode) for mode in Mode}
    excess = [each for each in remaining.credentials if not grantable_scopes[each.test].issuperset(each.scopes)]
    remaining = _RemainingAccess(excess, None if role == "owner" else remaining.key_change)
    if any(remaining):
        return _remaining_access_page(
            request, remaining, "Perfil alterado", f"{email} agora tem o perfil {_role_label(role)}"
        )
    return request.go("/painel/pessoas", done="perfil")


async def send_link(request: PageRequest) -> Response[Any]:
    """Mails a link to a person who lost the password; also turns the second factor off when that box is ticked."""
    email, account_id = request.field("email"), request.session.account_id
    if request.field("sure") != "yes":
        return await _page(request, at=email, at_fault="Confirme que quer enviar o link.")
    if email == request.session.email:
        # Otherwise anybody at an open browser could turn off the second factor of its owner.
        return await _page(request, at=email, at_fault="O seu próprio acesso se troca em “Seu acesso”, com a senha.")
    clears_factor = request.field("factor") == "yes"
    facts = {"E-mail": email, "Dois fatores": "serão desligados" if clears_factor else ""}
    require_step_up(request, "Enviar um link de acesso", facts)
    try:
        await count_invite(request)
    except Refused:
        return await _page(request, at=email, at_fault=_FAULTS["often"])
    kind = "person.factor_cleared" if clears_factor else "person.access_sent"
    async with request.change(kind, subject=email) as conn:
        if not await is_member(conn, account_id, email):
            raise NotFoundException
        if clears_factor:
            await clear_factor(conn, email)
        await ask_for_link(conn, email, now=request.now, seal=request.seal)
        facts = {"person": email, **request.doer}
        await mail_owners(conn, account_id, kind, facts, now=request.now, seal=request.seal)
    return request.go("/painel/pessoas", done="link-enviado")


async def remove(request: PageRequest) -> Response[Any]:
    email = request.field("email")
    if request.field("sure") != "yes":
        return await _page(request, at=email, at_fault="Confirme que quer remover.")
    try:
        async with request.change("person.removed", subject=email) as conn:
            # Before the removal, so that an owner who is removed is mailed too.
            account_id, facts = request.session.account_id, {"person": email, **request.doer}
            await mail_owners(conn, account_id, "person.removed", facts, now=request.now, seal=request.seal)
            if not await remove_person(conn, request.session.account_id, email):
                raise NotFoundException
            remaining = await _remaining_access(conn, request, email)
    except Refused:
        return await _page(request, at=email, at_fault=_LAST_OWNER)
    if any(remaining) and email != request.session.email:
        return _remaining_access_page(request, remaining, "Pessoa removida", f"{email} não entra mais")
    return request.go("/painel/pessoas", done="pessoa-removida")


async def revoke_credentials(request: PageRequest) -> Response[Any]:
    """Revokes the ticked credentials, whose secrets a person who was removed may have kept."""
    client_ids = request.fields("client_id")
    async with request.change(
        "credential.revoked", subject=" ".join(client_ids)[:_SUBJECT_MAX], count=len(client_ids)
    ) as conn:
        for client_id in client_ids:
            await revoke_credential(conn, request.session.account_id, client_id, now=request.now)
    return request.go("/painel/pessoas", done="revogadas")


class _RemainingAccess(NamedTuple):
    """What stays in force after a person was removed, or has another role."""

    credentials: Sequence[CredentialRow]
    key_change: PayoutChange | None
    """A change of the payout key that this person asked for and that is not in force yet."""


async def _remaining_access(conn: Connection, request: PageRequest, email: str) -> _RemainingAccess:
    account_id, now = request.session.account_id, request.now
    credentials = await credentials_of_person(conn, account_id=account_id, email=email, now=now)
    change = await payout_change_of(conn, account_id, now=now)
    return _RemainingAccess(
        credentials, change if change is not None and (change.asked_by, change.by_staff) == (email, False) else None
    )


def _remaining_access_page(
    request: PageRequest, remaining: _RemainingAccess, title: str, heading: str
) -> Response[Any]:
    values = {**remaining._asdict(), "masked_key": masked_key, "title": title, "heading": heading}
    return request.show("left_behind.html", values)


def _role_label(role: str) -> str:
    return ROLE_WORDS.get(role, role)


async def count_invite(request: PageRequest) -> None:
    """Counts one mail to an address of the account's choosing; Refused(RATE_LIMITED) when there were too many."""
    async with session(request.pool) as conn:
        await take_invite(conn, request.session.account_id, now=request.now, seal=request.seal)


def _refused_fields(refused: Refused) -> list[str]:
    return ["often"] if refused.code is Code.RATE_LIMITED else list(refused.fields or {})


async def _page(
    request: PageRequest,
    *,
    email: str = "",
    name: str = "",
    role: str = "",
    faults: dict[str, str] | None = None,
    at: str = "",
    at_fault: str = "",
) -> Response[Any]:
    async with session(request.pool) as conn:
        people = await people_of_account(conn, request.session.account_id)
        pending = await invitations(conn, request.session.account_id, now=request.now)
    if at_fault and at not in {each.email for each in people}:
        raise NotFoundException
    values = {
        "people": people,
        "invited": pending,
        "invited_days": INVITED.days,
        "name": name,
        "choices": {each: ROLE_WORDS[each] for each in ROLES},
        "email": email,
        "role": role or "support",
        "faults": faults or {},
        "at": at,
        "at_fault": at_fault,
    }
    return request.show("team.html", values, status=400 if faults or at_fault else 200)
