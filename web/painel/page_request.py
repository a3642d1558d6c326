"""A request by a person who is signed in.

Every change goes through `PageRequest.change`, which writes the audit log in the same transaction, once per form. The
table of pages has checked the permission before.
"""

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID, uuid5

from litestar import Request
from litestar.datastructures import UploadFile
from litestar.exceptions import ClientException, NotFoundException
from litestar.response import Redirect, Response
from msgspec import Struct
from msgspec.structs import replace

from commands.people.audit import AuditEntry, Origin, write_audit_entry
from commands.people.sessions import Session
from domain.client_address import client_address
from domain.identifiers import parse_id
from domain.instants import to_millisecond
from domain.merchants.staff import PLATFORM
from domain.mode import Mode, Owner
from domain.payer import MASKED, WHOLE, PayerView
from domain.sandbox_clock import on_clock
from readmodels.dashboard.charge import ACTOR
from runtime.cells.directory import HOME_NAME
from runtime.cells.number import HOME, cell_of_hex, current_cell
from runtime.ids import new_id
from runtime.limits.rates import ClientRates
from runtime.limits.shares import Shares
from runtime.postgres import Connection, Pool, transaction
from runtime.seal import Seal
from runtime.servers.standby import Reads
from runtime.settings import Settings
from web.cells import CellPages, form_key
from web.context import WebContext
from web.front import support_link
from web.head import parameter_in
from web.pages import page
from web.painel import labels
from web.painel.page_refusals import ForeignForm, StepUpNeeded
from web.painel.section import PLATAFORMA, Section

FIELDS_MAX = 60
FIELD_MAX = 4_096
UPLOAD_MAX = 256 * 1024
"""Characters of a field in a form that sends a file; the page that confirms a sheet carries it in one, as base64."""
# Values of Sec-Fetch-Site that a form may come with: none, from a browser that does not send it, or our own pages.
_OWN_SITES = (None, "same-origin")
_POLICY = (
    "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "Content-Security-Policy": _POLICY,
    # Not no-referrer: browsers would then send our own forms with a null origin.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_POSTAL_CODE_HEADERS = {
    **PAGE_HEADERS,
    "Content-Security-Policy": _POLICY.replace("connect-src 'none'", "connect-src 'self'"),
}
"""Headers of pages whose script asks us for the address of a postal code."""

Form = dict[str, list[str]]
Files = dict[str, bytes]
AnyRequest = Request[Any, Any, Any]


class Grant(Struct, frozen=True):
    """The pages a role opens: `may` has "METHOD path" of each, `menu` mode, path and name of those in the menu.
    `payers`: the role sees the payers of production unmasked."""

    may: frozenset[str]
    menu: Sequence[tuple[Mode, str, str]]
    payers: bool


class PageRequest:
    """A request of a signed-in person. `mode` follows from the path of the page, and from nothing else."""

    def __init__(
        self,
        request: AnyRequest,
        session: Session,
        cookie: str,
        *,
        mode: Mode,
        form: Form,
        grant: Grant,
        section: Section,
        files: Files,
        person_pool: Pool,
        chosen: int,
    ) -> None:
        """`person_pool` is the pool of the session's cell; `chosen` is the cell whose pages the person works in."""
        state = request.app.state
        self.section = section
        self.http = request
        self.session = session
        self.cookie = cookie
        self.mode = mode
        self.pool: Pool = state.people_pool
        self.person_pool = person_pool
        self.chosen = chosen
        self.report_pool: Pool = state.report_pool
        self.reads: Reads = state.reads
        self.shares: Shares = state.shares
        self.settings: Settings = state.settings
        self.context: WebContext = state.context
        self.seal = self.context.seal
        self.now: datetime = to_millisecond(state.now())
        self.files = files
        self._form = form
        self._grant = grant
        self._key: UUID | None = None
        self.proof_refused = False
        """A wrong password or code came with this request, which therefore changes nothing."""

    @property
    def cells(self) -> Sequence[CellPages]:
        """The cells that this person may choose; empty with one cell only, and for people who belong to one cell."""
        if self.section is not PLATAFORMA or cell_of_hex(self.cookie) != HOME:
            return ()
        cells: Sequence[CellPages] = self.http.app.state.cells()
        return cells

    def spend(self, what: str) -> None:
        """Counts one `what` against the account's rate limit; Refused(RATE_LIMITED) when it is used up."""
        rates: ClientRates = self.http.app.state.rates
        rates.spend(what, str(self.session.account_id), now_s=time.monotonic())

    @asynccontextmanager
    async def file_turn(self) -> AsyncIterator[None]:
        """Held while a thread reads a file. Files of one account wait for a turn of the account's first, so that few of
        them are ahead of another account's; Refused(RATE_LIMITED) when one waits for too long."""
        async with self.shares.of(self.owner), self.http.app.state.file_turns:
            yield

    def prove(self) -> None:
        """Records that the password was given with this request."""
        self.session = replace(self.session, proved_at=self.now)

    def given(self, *, but: Collection[str]) -> list[tuple[str, str]]:
        """Returns the fields of the form as they were sent, without those in `but`."""
        return [(name, value) for name, values in self._form.items() if name not in but for value in values]

    @property
    def test(self) -> bool:
        return self.mode.test

    @property
    def owner(self) -> Owner:
        return Owner(self.session.account_id, self.mode)

    @property
    def account_now(self) -> datetime:
        """The present for the charges of this page: `now`, or later in a test section whose clock was advanced."""
        return on_clock(self.now, self.session.ahead_s if self.test else 0)

    @property
    def payers(self) -> PayerView:
        """How this page shows payers; nothing else decides it. The payers of test charges are invented."""
        return WHOLE if self.test or self._grant.payers else MASKED

    @property
    def must_enrol(self) -> bool:
        """Whether a second factor must be set up before anything else."""
        is_staff = self.session.account_id == PLATFORM
        return is_staff and self.settings.staff_totp_required and not self.session.second_factor

    @property
    def request_id(self) -> str:
        return str(self.http.scope["state"]["request_id"])

    def may(self, page_path: str) -> bool:
        """Whether this person may use this "METHOD path" of the table."""
        return page_path in self._grant.may

    def menu(self, mode: Mode) -> list[tuple[str, str]]:
        """Returns path and name of the menu's pages that this person may open."""
        return [(path, name) for page_mode, path, name in self._grant.menu if page_mode == mode]

    def here(self, path: str) -> str:
        """A path of this page's mode: `/cobrancas` -> `/painel/teste/cobrancas`."""
        return ("/painel/teste" if self.test else "/painel") + path

    def id(self, name: str) -> UUID:
        """An id of the path in its canonical spelling; 404 for any other text."""
        parsed = parse_id(self.text_of_path(name))
        if parsed is None:
            raise NotFoundException
        return parsed

    def text_of_path(self, name: str) -> str:
        return str(self.http.path_params[name])

    def field(self, name: str) -> str:
        """A field of the form, without blanks around it; empty when it is not there."""
        return self._form.get(name, [""])[0].strip()

    def raw(self, name: str) -> str:
        """A field as it was typed: blanks are part of a password."""
        return self._form.get(name, [""])[0]

    def fields(self, name: str) -> list[str]:
        return self._form.get(name, [])

    @asynccontextmanager
    async def change(
        self, action: str, *, subject: str | None = None, wakes: Sequence[str] = (), **facts: object
    ) -> AsyncIterator[Connection]:
        """Opens a transaction for `action`, logged; commands.people.audit.AlreadySent if this form was sent before.

        `wakes` are the lanes to wake after the commit, because the change gives them work.
        """
        if self.proof_refused:
            raise StepUpNeeded
        async with transaction(self.pool) as conn:
            await write_audit_entry(conn, self.entry(self.form_id, action, subject, **facts), now=self.now)
            yield conn
        for lane in wakes:
            self.context.jobs.wake(lane)

    def entry(self, audit_id: UUID, action: str, subject: str | None = None, **facts: object) -> AuditEntry:
        """Returns an entry of this cell's audit log; staff of home who work in another cell are marked as home's."""
        return AuditEntry(
            audit_id=audit_id,
            account_id=self.session.account_id,
            email=self.session.email,
            action=action,
            subject=subject,
            facts=facts if cell_of_hex(self.cookie) in (None, current_cell()) else {"staff_of": HOME_NAME, **facts},
            address_hash=address_hash(self.http),
            request_id=self.request_id,
        )

    @property
    def origin(self) -> Origin:
        return Origin(self.session.email, address_hash(self.http), self.request_id)

    @property
    def form_id(self) -> UUID:
        """The id the form was shown with."""
        try:
            return UUID(self.field("once"))
        except ValueError:
            raise ClientException from None

    def part(self, name: str, fields: Mapping[str, str] | None = None, *, key: UUID | None = None) -> "PageRequest":
        """Returns the request for one of several things that a form asks for. Its id is derived from the form's, so it
        is done once too. It may have `fields` of its own, and a `key` that outlives the form."""
        request = copy(self)
        form = self._form if fields is None else {each: [value] for each, value in fields.items()}
        request._form = {**form, "once": [str(uuid5(self.form_id, name))]}
        request._key = key
        return request

    @property
    def key(self) -> str:
        """The Idempotency-Key of what the form creates: a form sent again creates nothing more."""
        return f"{ACTOR}{self._key or self.form_id}"

    @property
    def doer(self) -> dict[str, str]:
        """Who does this and from where, as mails to owners say it (commands/people/tell.py)."""
        return {"by": self.session.email, "from": address_of(self.http)}

    @property
    def actor(self) -> str:
        """The actor in the journal; the audit log has the person."""
        return f"{ACTOR}{self.form_id}"

    def show(self, template: str, values: Mapping[str, object], *, status: int = 200) -> Response[str]:
        """Answers a page inside the dashboard's frame. `template` is in painel/ unless its name has a folder."""
        done = parameter_in(self.http.scope, "feito") or ""
        shown = {
            "request": self,
            "path": self.http.scope["path"],
            "csrf": csrf_token(self.seal, form_key(self.cookie)),
            # For forms about the person: requests with them go to the session's cell, whichever cell showed the form.
            "csrf_person": csrf_token(self.seal, self.cookie),
            "once": lambda: str(new_id()),
            "done": labels.DONE.get(done),
            "labels": labels,
            "help": {"docs": f"{self.settings.docs_url}/pt", "support": support_link(self.settings.support_contact)},
            "find_cep": f"{self.section.root}/cep/" if self.settings.cep_url else "",
            **values,
        }
        name = template if "/" in template else f"painel/{template}"
        headers = _POSTAL_CODE_HEADERS if self.settings.cep_url else PAGE_HEADERS
        return page(name, shown, status=status, headers=headers)

    def show_secret(
        self, title: str, fields: Mapping[str, str], back: tuple[str, str], previous_until: datetime | None = None
    ) -> Response[str]:
        """Shows a secret, once. `back` is a link's path and text; the old secret works until `previous_until`."""
        values = {"title": title, "fields": fields, "previous_until": previous_until, "back": back}
        return self.show("secret.html", values)

    def go(self, path: str, *, done: str = "") -> Response[Any]:
        """Redirect to another page, which says what was done (a key of DONE)."""
        assert not done or done in labels.DONE
        return go(path + (f"?feito={done}" if done else ""))


def file_turns() -> asyncio.Semaphore:
    """Limits the uploaded files that an application reads concurrently; kept in its state as `file_turns`. A workbook
    or a picture of some KB may take a core for seconds, and a thread that computes slows the event loop down (GIL)."""
    return asyncio.Semaphore(1)


def go(path: str) -> Response[Any]:
    return Redirect(path, status_code=303)


def secure(settings: Settings) -> bool:
    return settings.app_url.startswith("https://")


def csrf_token(seal: Seal, cookie: str) -> str:
    """Bound to the cookie: a form works only in the session it was shown in."""
    return hmac.new(seal.key("dashboard form"), cookie.encode(), "sha256").hexdigest()


async def read_upload(request: AnyRequest, cookie: str) -> tuple[Form, Files]:
    """Reads a form that may send a file; without a file it may be multipart or URL-encoded."""
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        return await read_form(request, cookie), {}
    if request.headers.get("sec-fetch-site") not in _OWN_SITES:
        raise ForeignForm
    form: Form = {}
    files: Files = {}
    try:
        sent = (await request.form()).multi_items()
    except (LookupError, UnicodeDecodeError):  # the text is not in the character set that it names
        raise ClientException from None
    for name, value in sent:
        if isinstance(value, UploadFile):
            files[name] = await value.read()
            await value.close()
        elif not isinstance(value, str) or len(value) > UPLOAD_MAX or "\0" in value:
            raise ClientException
        else:
            form.setdefault(name, []).append(value)
    _check_csrf_token(request, form, cookie)
    return form, files


def _check_csrf_token(request: AnyRequest, form: Form, cookie: str) -> None:
    seal: Seal = request.app.state.context.seal
    token = form.get("csrf", [""])[0]
    if not cookie or not hmac.compare_digest(token.encode(), csrf_token(seal, cookie).encode()):
        raise ForeignForm


async def read_form(request: AnyRequest, cookie: str) -> Form:
    """Returns the fields of one of our forms; 403 if it was not shown to this browser, 400 if the body is no form."""
    if request.headers.get("sec-fetch-site") not in _OWN_SITES:
        raise ForeignForm
    content_type = request.headers.get("content-type", "").split(";", 1)[0].strip().lower()
    if content_type != "application/x-www-form-urlencoded":
        raise ClientException
    try:
        text = (await request.body()).decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except ValueError:
        raise ClientException from None
    form: Form = {}
    for name, value in pairs:
        if len(value) > FIELD_MAX or "\0" in value:
            raise ClientException
        form.setdefault(name, []).append(value)
    _check_csrf_token(request, form, cookie)
    return form


def address_of(request: AnyRequest) -> str:
    """Returns the client's address, also behind proxies that the settings trust (domain/client_address.py)."""
    settings: Settings = request.app.state.settings
    peer = request.client.host if request.client else ""
    if not settings.trusted_proxies:
        return peer
    header = settings.trusted_proxy_header
    return client_address(peer, request.headers.getall(header, []), header=header, trusted=settings.trusted_proxies)


def address_hash(request: AnyRequest) -> str:
    seal: Seal = request.app.state.context.seal
    return seal.blind(f"audit address {address_of(request)}")
