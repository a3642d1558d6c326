"""A person who uses the dashboard, for tests: a browser without scripts, over real HTTP."""

import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any, NamedTuple
from uuid import UUID

import aiohttp
import msgspec
from yarl import URL

from commands.bank_orders.kinds import Payload
from commands.charges.create_pix import NewPix, create_pix
from commands.charges.pay import Confirmation, confirm_payments
from commands.merchants.merchants import MerchantCreated, create_merchant
from commands.people.staff import add_staff
from domain.instants import iso, to_millisecond
from domain.merchants.fees import NO_FEES
from domain.pix.br_code import dynamic_br_code
from readmodels.charges.charge import ChargeDoc
from runtime.ids import new_id, new_token
from runtime.passwords import hash_password
from runtime.postgres import Pool, transaction
from runtime.seal import CHARGE_PAYER, Seal
from runtime.settings import Settings, read_settings
from tests.support.pages import NOWHERE

ENTRY = "/painel/entrar"
_HIDDEN = re.compile(r'name="(csrf|once)" value="([^"]*)"')


class Clock:
    """A clock that stands still until a test advances it."""

    def __init__(self) -> None:
        self.at = datetime.now(UTC)

    def now(self) -> datetime:
        return self.at

    def on(self, span: timedelta) -> None:
        self.at += span


class Seen(NamedTuple):
    """An answer as a browser gets it; redirects are not followed."""

    status: int
    html: str
    headers: Any
    url: str

    @property
    def where(self) -> str:
        """The target of a redirect."""
        return str(self.headers.get("Location", ""))

    @property
    def text(self) -> str:
        """The visible text: tags are removed and blanks collapsed."""
        return re.sub(r"[ \n]+", " ", unescape(re.sub(r"<[^>]+>", " ", self.html)))

    def hidden(self) -> dict[str, str]:
        """The CSRF token and the id of a form of this page. All forms have the same token, and any id is valid."""
        return dict(_HIDDEN.findall(self.html))

    def field(self, name: str) -> str:
        """The value of the read-only field with this label."""
        found = re.search(rf'<label for="([^"]+)">{re.escape(name)}</label>', self.html)
        assert found, f"no field {name}"
        value = re.search(rf'<input id="{found[1]}"[^>]* value="([^"]*)"', self.html)
        assert value
        return unescape(value[1])


class Person:
    def __init__(self, address: str, email: str, password: str, root: str = "/painel") -> None:
        self.root = root
        self.address = address
        self.email = email
        self.password = password
        self.http = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True), timeout=aiohttp.ClientTimeout(30))

    async def ask(self, method: str, path: str, *, headers: Any = None, **sent: Any) -> Seen:
        async with self.http.request(
            method, self.address + path, allow_redirects=False, headers=headers, **sent
        ) as answer:
            raw = await answer.read()
            return Seen(answer.status, raw.decode("utf-8", "replace"), answer.headers.copy(), str(answer.url))

    async def get(self, path: str) -> Seen:
        return await self.ask("GET", path)

    async def opened(self, path: str) -> Seen:
        """Get a page, which must answer 200."""
        seen = await self.get(path)
        assert seen.status == 200, (seen.status, path, seen.where, seen.text[:300])
        return seen

    async def audit_log(self) -> str:
        """The text of the audit log, its newest hundred entries. Those of tests whose clocks were ahead are newer than
        all, and may fill its first page."""
        path, pages = f"{self.root}/auditoria", ""
        for _ in range(4):
            page = await self.opened(path)
            pages += page.text
            older = re.search(r'rel="next" href="([^"]+)"', page.html)
            if older is None:
                break
            path = f"{self.root}/auditoria{unescape(older[1])}"
        return pages

    async def post(self, path: str, *, form: Seen | None = None, on: str = "", **fields: Any) -> Seen:
        """Send a form with the hidden fields of the page `form`, or of the page at `on`."""
        page = form or await self.opened(on or f"{self.root}/acesso")
        data = [*page.hidden().items()]
        for name, value in fields.items():
            data += [(name, each) for each in (value if isinstance(value, list) else [value])]
        return await self.ask("POST", path, data=data)

    async def sign_in(self, password: str | None = None, *, where_to: str = "") -> Seen:
        entry = f"{self.root}/entrar"
        page = await self.get(entry + (f"?para={where_to}" if where_to else ""))
        return await self.ask(
            "POST",
            entry,
            data={
                "csrf": page.hidden().get("csrf", ""),
                "email": self.email,
                "password": self.password if password is None else password,
                "para": where_to,
            },
        )

    def cookie(self) -> str:
        """The value of the session's cookie; empty when there is none."""
        found = self.http.cookie_jar.filter_cookies(URL(self.address)).get(self.root[1:])
        return "" if found is None else found.value


@asynccontextmanager
async def owner_in_browser(address: str, merchant: MerchantCreated, *, signed_in: bool = True) -> AsyncIterator[Person]:
    """The merchant's owner in a browser of their own."""
    person = Person(address, merchant.dashboard.email, merchant.dashboard.password)
    try:
        if signed_in:
            seen = await person.sign_in()
            assert seen.status == 303, seen.text[:300]
        yield person
    finally:
        await person.http.close()


@asynccontextmanager
async def staff_in_browser(
    pool: Pool, address: str, *, role: str = "admin", signed_in: bool = True
) -> AsyncIterator[Person]:
    """A new member of the platform's staff."""
    email, password = f"equipe.{secrets.token_hex(4)}@example.com", secrets.token_urlsafe(12)
    person = Person(address, email, password, "/plataforma")
    async with pool.acquire() as conn:
        await add_staff(conn, email, hash_password(password), role=role, now=datetime.now(UTC))
    try:
        if signed_in:
            assert (await person.sign_in()).status == 303
        yield person
    finally:
        await person.http.close()


@asynccontextmanager
async def colleague_in_browser(pool: Pool, address: str, merchant: MerchantCreated, role: str) -> AsyncIterator[Person]:
    """Another person of the same account, signed in."""
    person = Person(address, f"{role}.{secrets.token_hex(4)}@example.com", secrets.token_urlsafe(12))
    await pool.execute(
        "INSERT INTO dashboard_user (email, account_id, role, password_hash, created_at)"
        " VALUES ($1, $2, $3, $4, now())",
        person.email, merchant.account_id, role, hash_password(person.password),
    )  # fmt: skip
    try:
        assert (await person.sign_in()).status == 303
        yield person
    finally:
        await person.http.close()


async def a_merchant(pool: Pool, name: str = "Loja Açaí & Cia", *, kyc: str = "approved") -> MerchantCreated:
    async with pool.acquire() as conn, conn.transaction():
        return await create_merchant(conn, name=name, address=True, kyc=kyc, now=datetime.now(UTC))


def settings_with(**env: str) -> Settings:
    """Settings of a web application with its own secret key, so that its fingerprints differ from all others."""
    given = {"DATABASE_URL": "unused", "REDIS_URL": NOWHERE, "SECRET_KEY": secrets.token_hex(32)}
    return read_settings({**given, **env})


class Books(NamedTuple):
    """Creates an account's charges by the product's commands, so that tests of pages need no API."""

    pool: Pool
    account_id: UUID
    seal: Seal

    async def charge(
        self,
        amount_cents: int = 1000,
        *,
        test: bool = False,
        at: datetime | None = None,
        lifetime: timedelta = timedelta(days=1),
        payer: dict[str, str] | None = None,
        **more: Any,
    ) -> ChargeDoc:
        """Create a pending PIX charge at `at`; `more` are fields of its document."""
        at = to_millisecond(at or datetime.now(UTC))
        charge_id = new_id()
        doc = ChargeDoc(
            account_id=str(self.account_id),
            charge_id=str(charge_id),
            test=test,
            public_id=new_token(),
            payment_method="pix",
            status="pending",
            version=1,
            amount_cents=amount_cents,
            txid=charge_id.hex,
            qr_code=dynamic_br_code(
                location=f"bank.example.com/pix/v2/{new_token()}", amount_cents=amount_cents, name="Loja", city="Olinda"
            ),
            created_at=iso(at),
            expires_at=iso(at + lifetime),
            **more,
        )
        new = NewPix(
            bank="001",
            key=str(charge_id),
            fingerprint=bytes(32),
            order_id=new_id(),
            location="",
            payer_sealed=None if payer is None else self.seal.seal(msgspec.json.encode(payer), CHARGE_PAYER, charge_id),
            payer_document_hash=self.seal.blind(payer["document"]) if payer and "document" in payer else None,
            actor="test_program",
            request_id="req",
            payload=Payload(doc),
            order=msgspec.Raw(b"{}"),
        )
        async with transaction(self.pool) as conn:
            assert await create_pix(conn, [new]) == {charge_id}
            # No worker must register it at a bank.
            await conn.execute("DELETE FROM bank_order WHERE charge_id = $1", charge_id)
        return doc

    async def refunded(self, doc: ChargeDoc) -> UUID:
        """Insert the rows of a refund without moving money; returns its id. The bank's return id is D, the id's hex
        from its third digit on, Z."""
        refund_id = new_id()
        doc_of_refund = msgspec.json.encode({"return_id": f"D{refund_id.hex[2:]}Z"})
        await self.pool.execute(
            "WITH kept AS (INSERT INTO refund (account_id, refund_id, test, charge_id, payment_id, amount_cents,"
            " status, created_at) VALUES ($1, $2, $3, $4, $2, 1, 'pending', now()))"
            " INSERT INTO read_refund (account_id, refund_id, test, created_at, status, charge_id, payment_id, paid_at,"
            " doc) VALUES ($1, $2, $3, now(), 'pending', $4, $2, now(), $5)",
            self.account_id, refund_id, doc.test, UUID(doc.charge_id), doc_of_refund,
        )  # fmt: skip
        return refund_id

    async def paid(
        self,
        doc: ChargeDoc,
        *cents: int,
        at: datetime | None = None,
        payer_name: str | None = "Fulana de Tal",
        payer_document: str | None = "12345678909",
    ) -> None:
        """Confirm payments of these amounts, or of the charge's amount. The payer is None when the bank names none."""
        at = at or datetime.now(UTC)
        async with transaction(self.pool) as conn:
            for each in cents or (doc.amount_cents,):
                confirmation = Confirmation(
                    charge_id=UUID(doc.charge_id),
                    end_to_end_id=f"E99999997{at:%Y%m%d%H%M}{secrets.token_hex(6)[:11]}",
                    amount_cents=each,
                    paid_at=at,
                    payer_name=payer_name,
                    payer_document=payer_document,
                )
                await confirm_payments(conn, [confirmation], now=at, seal=self.seal, fees=NO_FEES)
