"""The payout key, to which withdrawals go: an owner asks for a change, which waits for a day, or cancels the change."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from litestar.response import Response
from msgspec import Struct

from commands.merchants.payout_key import (
    ASKED,
    CANCELLED,
    ask_payout_key,
    cancel_payout_key,
    payout_change_of,
)
from commands.people.tell import mail_owners
from domain.brazilian import moment
from domain.documents import masked, well_formed
from domain.errors import Code, Refused
from domain.identifiers import parse_id
from domain.merchants.payout import PayoutChange, PayoutKey
from domain.refund import is_pix_key
from domain.withdrawal import masked_key
from readmodels.money.withdrawal import find_destination
from sql import Connection
from web.painel.auth.step_up import require_step_up
from web.painel.fields import Filled, typed_pix_key
from web.painel.page_request import PageRequest

_FAULTS: Final = {
    "pix_key": "Informe outra chave que a atual: CPF, CNPJ, telefone com +55, e-mail ou chave aleatória.",
    "document": "Informe o CPF ou CNPJ do dono da chave. Se a chave é um documento, é o mesmo.",
    "change": "Outra troca já espera. Cancele-a antes de pedir uma nova.",
}
GONE: Final = "Esta troca não espera mais. Veja como está agora."


class ShownChange(Struct, frozen=True):
    """A change of key that waits to come into force; key and document are masked."""

    change: PayoutChange
    pix_key: str
    document: str


class ShownPayout(Struct, frozen=True):
    """The key in force: `pix_key` is empty without one; `owner` is the account's name if the document is its own."""

    approved: bool
    pix_key: str
    document: str
    owner: str
    waiting: ShownChange | None


async def ask_for_payout_key(request: PageRequest, filled: Filled) -> bool:
    """Asks for the key that the form names; False when the form has faults, which are then in `filled`."""
    key = read_key(filled, request)
    if filled.faults:
        return False
    # Unmasked: the owner reads the whole key once more before confirming.
    facts = {"Chave nova": key.pix_key, "CPF ou CNPJ do dono": filled.value("document")}
    require_step_up(request, "Trocar a chave Pix dos saques", facts)
    try:
        async with request.change(ASKED, subject=str(request.session.account_id), **payout_key_facts(key)) as conn:
            change = await ask_payout_key(
                conn, request.session.account_id, key, by=request.session.email, by_staff=False, now=request.now
            )
            await mail_key_change(conn, request, "payout_key.asked", change, request.doer)
    except Refused as refused:
        say(filled, refused)
        return False
    return True


async def cancel(request: PageRequest) -> Response[Any]:
    """Cancels a change, without asking for the password: an owner who stops a change may be in a hurry, and the key in
    force stays as it is."""
    change_id = parse_id(request.field("change_id"))
    if change_id is None:
        raise Refused(Code.VALIDATION_ERROR)
    async with request.change(CANCELLED, subject=str(request.session.account_id)) as conn:
        change = await cancel_payout_key(
            conn, request.session.account_id, change_id, by=request.session.email, now=request.now
        )
        await mail_key_change(conn, request, "payout_key.cancelled", change, request.doer)
    return request.go("/painel/saques", done="chave-cancelada")


async def mail_key_change(
    conn: Connection, request: PageRequest, kind: str, change: PayoutChange, doer: Mapping[str, str]
) -> None:
    """Mails the change to all owners of the account."""
    facts = {"destination": f"{masked_key(change.pix_key)}, documento {_masked_document(change.document)}", **doer}
    if change.effective_at is not None:
        facts["effective"] = moment(change.effective_at)
    await mail_owners(conn, change.account_id, kind, facts, now=request.now, seal=request.seal)


def read_key(filled: Filled, request: PageRequest) -> PayoutKey:
    """Returns the key that a form of either section names; faults are in `filled`."""
    pix_key = typed_pix_key(filled.value("pix_key"))
    document = filled.document("document", letters=request.settings.cnpj_with_letters, production=True, required=True)
    if not is_pix_key(pix_key):
        filled.wrong("pix_key", _FAULTS["pix_key"])
    return PayoutKey(pix_key, document or "")


def payout_key_facts(key: PayoutKey) -> dict[str, str]:
    return {"pix_key": masked_key(key.pix_key)}


def say(filled: Filled, refused: Refused) -> None:
    """Shows the refusal beside its field; raises a refusal that is not about the form."""
    if refused.code is not Code.VALIDATION_ERROR:
        raise refused
    for field in refused.fields or {}:
        filled.wrong("form" if field == "change" else field, _FAULTS[field])


async def shown_payout(conn: Connection, account_id: UUID, *, now: datetime) -> ShownPayout:
    destination = await find_destination(conn, account_id=account_id, now=now)
    waiting = await payout_change_of(conn, account_id, now=now)
    return ShownPayout(
        approved=destination.approved,
        pix_key=masked_key(destination.pix_key) if is_pix_key(destination.pix_key) else "",
        document=_masked_document(destination.document),
        owner=destination.merchant if destination.document == destination.merchant_document else "",
        waiting=None
        if waiting is None
        else ShownChange(waiting, masked_key(waiting.pix_key), _masked_document(waiting.document)),
    )


def _masked_document(document: str) -> str:
    return masked(document) if well_formed(document, letters=True) else ""
