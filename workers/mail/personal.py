"""Letters to people of the dashboard. A one-time link is made with its mail; a security letter tells what was done."""

from uuid import UUID

import msgspec

from commands.mail import drop
from commands.people.links import HOLDS, LinkPurpose, make_link
from commands.people.tell import SecurityMail
from domain.merchants.staff import PLATFORM
from readmodels.documents.mail_letter import Letter
from readmodels.documents.people_letter import link_letter, other_account_letter, security_letter
from runtime.postgres import transaction
from workers.context import Context


async def personal_letter(
    context: Context, *, mail_id: UUID, account_id: UUID | None, kind: str, to: str, about: bytes, account: str
) -> Letter | None:
    """The letter of a mail of kind access or security; None when it has no recipient, or nothing left to say.

    `about` is the stored content, opened. `account` is the name of the account; `Quita` in mails to staff.
    """
    if kind == "security":
        notice = msgspec.json.decode(about, type=SecurityMail)
        return security_letter(
            kind=notice.kind, at=notice.at, facts=notice.facts, account=account, app_url=context.settings.app_url,
            staff=account_id is None, cell=context.settings.cell_name, last=notice.last,
        )  # fmt: skip
    link_request = msgspec.json.decode(about, type=LinkPurpose)
    async with transaction(context.pool) as conn:
        link = await make_link(conn, mail_id, to, link_request, now=context.now(), seal=context.seal)
        if link is None:
            # The e-mail that somebody typed belongs to nobody: the mail is not kept.
            await drop(conn, mail_id=mail_id)
            return None
    app_url, holder = context.settings.app_url, link.holder
    if link.token is None:
        return other_account_letter(account=holder.account, app_url=app_url)
    staff = holder.account_id == PLATFORM
    root = "/plataforma" if staff else "/painel"
    return link_letter(
        account=holder.account,
        role=holder.role,
        name=holder.name,
        fresh=holder.fresh,
        invited_by=link.invited_by,
        link=f"{app_url}{root}/recuperar/{link.token}",
        minutes=int(HOLDS.total_seconds()) // 60,
        staff=staff,
    )
