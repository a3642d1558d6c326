"""A form that was sent after its session had ended. What it says is carried through the sign-in and sent by its person
afterwards, so that nobody types it a second time.

It is carried in the pages of the sign-in as it came; nothing is stored. Only a form that was shown to this browser in
that session is, and it goes on only for the person of that session.
"""

import hmac
from typing import Final

from litestar.exceptions import ClientException, PermissionDeniedException
from litestar.response import Response

from commands.people.sessions import hash_of, person_of_session
from runtime.postgres import Pool, session
from runtime.seal import Seal
from web.cells import form_key
from web.pages import page
from web.painel.page_request import PAGE_HEADERS, AnyRequest, Form, csrf_token, read_form
from web.painel.section import PAINEL, Section

Kept = list[tuple[str, str]]
"""Hidden fields of the sign-in's pages: where the form goes, whose it is, and its own fields."""

_PATH: Final = "guardado_em"
_OF: Final = "guardado_de"
_FIELD: Final = "guardado."
# With those of the sign-in they stay below FIELDS_MAX of a form.
_FIELDS_MAX: Final = 50
# Passwords and codes are given anew.
_SECRETS: Final = "/painel/acesso"
_NOT_KEPT: Final = ("csrf", "step_up_")


async def keep(request: AnyRequest, section: Section, pool: Pool, cookie: str) -> Kept:
    """Of a form sent with the `cookie` of a session that has ended by itself; empty for any other."""
    seal = Seal(request.app.state.settings.secret_key)
    path = request.scope["path"]
    # Staff may have chosen a cell since, in which the same form would do something else.
    if section is not PAINEL or path.startswith(_SECRETS) or hash_of(cookie) is None:
        return []
    try:
        form = await read_form(request, seal, form_key(cookie))
    except (ClientException, PermissionDeniedException):
        return []
    async with session(pool) as conn:
        email = await person_of_session(conn, cookie)
    fields = [(_FIELD + name, each) for name, values in form.items() for each in values]
    fields = [(name, each) for name, each in fields if not name.removeprefix(_FIELD).startswith(_NOT_KEPT)]
    if email is None or len(fields) > _FIELDS_MAX:
        return []
    return [(_PATH, path), (_OF, _mark(seal, email, path)), *fields]


def carried(form: Form) -> Kept:
    """What a page of the sign-in brings along."""
    return [(name, each) for name, values in form.items() if name.startswith("guardado") for each in values]


def sent_on(seal: Seal, kept: Kept, email: str, cookie: str) -> Response[str] | None:
    """The page from which the person who signed in sends it, in the new session of `cookie`; None for anybody else."""
    named = dict(kept)
    path = named.get(_PATH, "")
    if not hmac.compare_digest(named.get(_OF, "").encode(), _mark(seal, email, path).encode()):
        return None
    values = {
        "path": path,
        "csrf": csrf_token(seal, form_key(cookie)),
        "given": [(name.removeprefix(_FIELD), each) for name, each in kept if name.startswith(_FIELD)],
    }
    return page("painel/kept_form.html", values, headers=PAGE_HEADERS)


def _mark(seal: Seal, email: str, path: str) -> str:
    return seal.blind(f"kept form {email} {path}")
