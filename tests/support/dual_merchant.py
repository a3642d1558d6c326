"""A merchant's dual charges for tests: the two request bodies that create one, and each leg in the bank's books."""

from typing import Any
from uuid import UUID, uuid4

from tests.support.boleto_merchant import PAGADOR, at_bank, boleto_body, in_days
from tests.support.merchant import Answer, ApiClient, Books, until_answer
from tests.support.system import System

DUAL = "/v1/charges/dual"

PAYER: dict[str, Any] = {
    "name": PAGADOR["nome"],
    "document": PAGADOR["documento"],
    "person_type": PAGADOR["tipoPessoa"],
    "email": "joao@example.com",
    "phone": "+55 11 98765-4321",
    "address": {
        "zip_code": PAGADOR["cep"],
        "street": PAGADOR["logradouro"],
        "number": PAGADOR["numero"],
        "city": PAGADOR["cidade"],
        "state": PAGADOR["uf"],
    },
}


def dual_body(amount: str = "150.00", **more: Any) -> dict[str, Any]:
    """The body of a creation; a field that is None is left out."""
    body = {"amount": amount, "due_date": in_days(10), "payer": PAYER, **more}
    return {name: value for name, value in body.items() if value is not None}


async def issue_dual(client: ApiClient, amount: str = "150.00", *, key: str | None = None, **more: Any) -> Answer:
    """POST /v1/charges/dual. `headers` are those of the request; `body` is the whole body, or `more` its fields."""
    headers = more.pop("headers", None)
    body = more.pop("body", None) or dual_body(amount, **more)
    return await client.ask("POST", DUAL, json=body, key=key or str(uuid4()), headers=headers)


async def issue_dual_charge(client: ApiClient, amount: str = "150.00", **more: Any) -> dict[str, Any]:
    """Create a dual charge, which must succeed; returns the charge."""
    answer = await issue_dual(client, amount, **more)
    assert answer.status == 201, answer.raw
    charge: dict[str, Any] = answer.body
    return charge


def pix_boleto_body(**more: Any) -> dict[str, Any]:
    """The body of a boleto creation that makes a dual charge."""
    return boleto_body(tipo="boleto_pix", **more)


def status_by_leg(charge: dict[str, Any]) -> dict[str, str]:
    """The status of each leg."""
    return {each["leg"]: each["status"] for each in charge["legs"]}


def number_of(charge: dict[str, Any]) -> str:
    return str(charge["boleto"]["nosso_numero"])


async def boleto_at_bank(books: Books, charge: dict[str, Any]) -> str:
    row = await at_bank(books, number_of(charge))
    if row is None:
        return "none"
    return "written_off" if row["written_off_at"] is not None else "paid" if row["payments"] else "open"


async def cob_at_bank(books: Books, charge: dict[str, Any]) -> Any:
    """The cob's row in the simulated bank's books; None while it is not registered."""
    return await books.fetchrow("SELECT * FROM simulated_cob WHERE txid = $1", charge["pix"]["txid"])


async def cob_status(books: Books, charge: dict[str, Any]) -> str:
    row = await cob_at_bank(books, charge)
    return "none" if row is None else str(row["status"])


_OPEN_ORDERS = """
SELECT count(*) FROM bank_order o WHERE charge_id = $1
    AND NOT (kind = 'boleto_reconcile' AND state = 'waiting' AND attempts > 1
             AND EXISTS (SELECT FROM charge c WHERE c.charge_id = o.charge_id AND c.status = 'pending'))
"""


async def until_bank_orders_are_done(books: Books, charge: dict[str, Any]) -> None:
    """Wait until no bank order of this charge is open, except one that watches an unpaid boleto."""

    async def no_order_is_open() -> bool:
        return bool(await books.fetchval(_OPEN_ORDERS, UUID(charge["charge_id"])) == 0)

    await until_answer(no_order_is_open, within_s=30)


async def pay_at_bank(system: System, client: ApiClient, charge: dict[str, Any], leg: str, **more: Any) -> int:
    """Pay one leg at the simulated bank of production; returns its HTTP status, 200 when it accepted the money."""
    leg_id = {"number": number_of(charge)} if leg == "boleto" else {"txid": charge["pix"]["txid"]}
    async with client.http.post(f"{system.bank_url}/simulated/pay", json={**leg_id, **more}) as answer:
        return answer.status


async def until_status(client: ApiClient, charge: dict[str, Any], status: str) -> dict[str, Any]:
    async def now() -> dict[str, Any] | None:
        found = await client.charge(charge["charge_id"])
        return found if found["status"] == status else None

    found: dict[str, Any] = await until_answer(now)
    return found
