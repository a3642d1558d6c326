"""A merchant's boletos for tests: request bodies, creation, due-date changes, and the boleto in the bank's books."""

import os
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec

from api.body.reading import fingerprint
from banks.boletos import BoletoPayer, NewBoleto
from banks.simulated.bank import PRODUCTION, SANDBOX, SimulatedBank
from commands.charges.control_numbers import take_block
from commands.charges.create_boleto import BoletoRequest, RegistrationResult, compose_boleto, issue_boletos
from commands.charges.issuer import Issuer
from commands.webhooks.endpoint import set_endpoint
from domain.boleto.terms import PaymentTerms
from domain.instants import SAO_PAULO, to_millisecond
from runtime.ids import new_id
from runtime.postgres import open_pool
from runtime.seal import CHARGE_PAYER, Seal
from tests.support.boletos import AGREEMENT
from tests.support.merchant import Answer, ApiClient, Books
from tests.support.system import System

CONVENIO = "3128557"
BOLETO = "/v1/charges/boleto"
DUE_DATE = "/v1/charges/due-date"

PAGADOR = {
    "nome": "João da Conceição d'Ávila",
    "documento": "52998224725",
    "tipoPessoa": "PESSOA_FISICA",
    "cep": "01310100",
    "logradouro": "Avenida Paulista",
    "numero": "1578",
    "cidade": "São Paulo",
    "uf": "SP",
}


def today() -> date:
    return datetime.now(UTC).astimezone(SAO_PAULO).date()


def in_days(days: int) -> str:
    return (today() + timedelta(days=days)).isoformat()


def boleto_body(amount: str = "150.00", **more: Any) -> dict[str, Any]:
    """The body of a creation; a field that is None is left out."""
    body = {"tipo": "boleto", "valorCents": amount, "dataVencimento": in_days(10), "pagador": PAGADOR, **more}
    return {name: value for name, value in body.items() if value is not None}


async def issue(client: ApiClient, amount: str = "150.00", *, key: str | None = None, **more: Any) -> Answer:
    """POST /v1/charges/boleto. `headers` are those of the request, `more` are fields of the body."""
    headers = more.pop("headers", None)
    body = more.pop("body", None) or boleto_body(amount, **more)
    return await client.ask("POST", BOLETO, json=body, key=key or str(uuid4()), headers=headers)


async def issue_boleto(client: ApiClient, amount: str = "150.00", **more: Any) -> dict[str, Any]:
    """Create a boleto, which must succeed; returns the charge."""
    answer = await issue(client, amount, **more)
    assert answer.status == 201, answer.raw
    charge: dict[str, Any] = answer.body
    return charge


async def redate(client: ApiClient, due_date: str | None, **more: Any) -> Answer:
    """PATCH /v1/charges/due-date. `headers` are those of the request, `more` are fields of the body."""
    headers = more.pop("headers", None)
    body = {**more, **({} if due_date is None else {"due_date": due_date})}
    return await client.ask("PATCH", DUE_DATE, json=body, headers=headers)


async def listen(system: System, books: Books, client: ApiClient, url: str) -> None:
    """Register `url` as the account's webhook endpoint."""
    async with books.transaction():
        await set_endpoint(
            books,
            UUID(client.account_id),
            url,
            allow_private=True,
            now=datetime.now(UTC),
            seal=Seal(system.secret_key),
            chance=os.urandom(32),
        )


async def at_bank(books: Books, number: str) -> Any:
    """The boleto's row in the simulated bank's books, or None."""
    return await books.fetchrow("SELECT * FROM simulated_boleto WHERE number = $1", number)


async def issue_boleto_in_the_past(
    system: System,
    books: Books,
    client: ApiClient,
    *,
    test: bool,
    due_on: date,
    amount_cents: int = 15000,
    external_id: str | None = None,
    terms: PaymentTerms | None = None,
    key: str | None = None,
    body: dict[str, Any] | None = None,
) -> str:
    """Issue a boleto a week before `due_on`, registered at the simulated bank and created by the product's own command,
    so that a test need not wait for days to pass. `body` is the request body that `key` stands for. Returns the
    charge's id."""
    created_at = to_millisecond(datetime.combine(due_on - timedelta(days=7), datetime.now(UTC).timetz()))
    payer = BoletoPayer(
        name="João d'Ávila", document="52998224725", street="Avenida Paulista", number="1578", city="São Paulo",
        state="SP", zip_code="01310100",
    )  # fmt: skip
    seal = Seal(system.secret_key)
    charge_id = new_id()
    request = BoletoRequest(
        charge_id=charge_id,
        issuer=Issuer(account_id=UUID(client.account_id), test=test, name="", city="", pix_key="", actor="test"),
        key=key or str(uuid4()), fingerprint=fingerprint("POST", BOLETO, body or {}), request_id="req_before",
        kind="boleto", amount_cents=amount_cents, due_on=due_on, terms=terms, external_id=external_id, description=None,
        payer_sealed=seal.seal(msgspec.json.encode(payer), CHARGE_PAYER, charge_id),
        payer_document_hash=seal.blind(payer.document),
    )  # fmt: skip
    control = await take_block(books)
    order = compose_boleto(request, control, agreement=AGREEMENT, now=created_at, deadline=created_at, reply_to=None)
    composed = order.request.payload.charge.boleto
    assert composed is not None
    boleto = NewBoleto(
        number=composed.nosso_numero, seu_numero=composed.seu_numero, amount_cents=amount_cents,
        issued_on=created_at.date(), due_on=due_on, terms=terms, hybrid=False, payer=payer,
    )  # fmt: skip
    pool = await open_pool(system.database_url, name="tests", size=1)
    try:
        world = SANDBOX if test else PRODUCTION
        bank = SimulatedBank(pool, seal, world=world, url=system.bank_url, now=lambda: created_at)
        assert await bank.boletos.add(boleto)
    finally:
        await pool.close()
    async with books.transaction():
        # Inserted as claimed, so that no worker claims it.
        await books.execute(
            "INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, state, attempts,"
            " due_at, created_at) VALUES ($1, $2, $3, $4, '001', 'boleto_register', $5, 'working', 1, $6, $6)",
            order.order_id, order.account_id, order.charge_id, test, msgspec.json.encode(order.request), created_at,
        )  # fmt: skip
        made = RegistrationResult(
            order_id=order.order_id,
            attempts=1,
            reconcile_id=new_id(),
            request=order.request,
            qr_code=None,
            at=created_at,
        )
        assert await issue_boletos(books, [made]) == ({order.order_id}, {order.charge_id})
    return str(order.charge_id)
