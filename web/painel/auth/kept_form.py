"""A form that was sent after its session had ended. Its fields are carried through the sign-in, and the person sends
the form again afterwards without typing it a second time.

The fields are carried unchanged in the pages of the sign-in; nothing is stored. Only a form that was shown to this
browser in that session is carried, and only the person of that session can send it again.
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
"""Hidden fields of the sign-in's pages: the form's path, a mark of its person, and its own fields."""

_PATH_FIELD: Final = "guardado_em"
_PERSON_FIELD: Final = "guardado_de"
_FIELD_PREFIX: Final = "guardado."
# Together with the sign-in's own fields these stay below FIELDS_MAX of a form.
_FIELDS_MAX: Final = 50
# Passwords and codes are not carried: the person types them again.
_SECRETS_PATH: Final = "/painel/acesso"
_NOT_KEPT: Final = ("csrf", "step_up_")


async def keep(request: AnyRequest, section: Section, pool: Pool, cookie: str) -> Kept:
    """Returns the fields to carry of a form sent with the `cookie` of an expired session; empty for any other form."""
    path = request.scope["path"]
    # Not for staff: they may have chosen another cell since, in which the same form would do something else.
    if section is not PAINEL or path.startswith(_SECRETS_PATH) or hash_of(cookie) is None:
        return []
    try:
        form = await read_form(request, form_key(cookie))
    except (ClientException, PermissionDeniedException):
        return []
    async with session(pool) as conn:
        email = await person_of_session(conn, cookie)
    fields = [(_FIELD_PREFIX + name, each) for name, values in form.items() for each in values]
    fields = [(name, each) for name, each in fields if not name.removeprefix(_FIELD_PREFIX).startswith(_NOT_KEPT)]
    if email is None or len(fields) > _FIELDS_MAX:
        return []
    return [(_PATH_FIELD, path), (_PERSON_FIELD, _person_mark(request.app.state.context.seal, email, path)), *fields]


def carried(form: Form) -> Kept:
    """Returns the kept fields that came with a form of the sign-in."""
    return [(name, each) for name, values in form.items() if name.startswith("guardado") for each in values]


def resend_page(seal: Seal, kept: Kept, email: str, cookie: str) -> Response[str] | None:
    """Answers the page from which the person sends the kept form again, in the new session of `cookie`; None when
    somebody else has signed in."""
    values_by_name = dict(kept)
    path = values_by_name.get(_PATH_FIELD, "")
    if not hmac.compare_digest(
        values_by_name.get(_PERSON_FIELD, "").encode(), _person_mark(seal, email, path).encode()
    ):
        return None
    values = {
        "path": path,
        "csrf": csrf_token(seal, form_key(cookie)),
        "given": [(name.removeprefix(_FIELD_PREFIX), each) for name, each in kept if name.startswith(_FIELD_PREFIX)],
    }
    return page("painel/kept_form.html", values, headers=PAGE_HEADERS)


def _person_mark(seal: Seal, email: str, path: str) -> str:
    return seal.blind(f"kept form {email} {path}")
