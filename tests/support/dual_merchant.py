"""A merchant's dual charges for tests: the two bodies that ask for one, and what the bank has of each leg."""

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
    """A field given as None is left out."""
    body = {"amount": amount, "due_date": in_days(10), "payer": PAYER, **more}
    return {name: value for name, value in body.items() if value is not None}


async def issue_dual(client: ApiClient, amount: str = "150.00", *, key: str | None = None, **more: Any) -> Answer:
    """POST /v1/charges/dual; `headers` are the request's, `body` all of it, the rest fields of it."""
    headers = more.pop("headers", None)
    body = more.pop("body", None) or dual_body(amount, **more)
    return await client.ask("POST", DUAL, json=body, key=key or str(uuid4()), headers=headers)


async def dual(client: ApiClient, amount: str = "150.00", **more: Any) -> dict[str, Any]:
    """An issue that must succeed; the charge."""
    answer = await issue_dual(client, amount, **more)
    assert answer.status == 201, answer.raw
    charge: dict[str, Any] = answer.body
    return charge


def pix_boleto_body(**more: Any) -> dict[str, Any]:
    """The other way in: the boleto's body."""
    return boleto_body(tipo="boleto_pix", **more)


def legs(charge: dict[str, Any]) -> dict[str, str]:
    """Status by leg."""
    return {each["leg"]: each["status"] for each in charge["legs"]}


def number_of(charge: dict[str, Any]) -> str:
    return str(charge["boleto"]["nosso_numero"])


async def boleto_at_bank(books: Books, charge: dict[str, Any]) -> str:
    row = await at_bank(books, number_of(charge))
    if row is None:
        return "none"
    return "written_off" if row["written_off_at"] is not None else "paid" if row["payments"] else "open"


async def cob_at_bank(books: Books, charge: dict[str, Any]) -> Any:
    """The cob in the simulated bank's books; None while it is not registered."""
    return await books.fetchrow("SELECT * FROM simulated_cob WHERE txid = $1", charge["pix"]["txid"])


async def cob_status(books: Books, charge: dict[str, Any]) -> str:
    row = await cob_at_bank(books, charge)
    return "none" if row is None else str(row["status"])


_LEFT = """
SELECT count(*) FROM bank_order o WHERE charge_id = $1
    AND NOT (kind = 'boleto_reconcile' AND state = 'waiting' AND attempts > 1
             AND EXISTS (SELECT FROM charge c WHERE c.charge_id = o.charge_id AND c.status = 'pending'))
"""


async def at_rest(books: Books, charge: dict[str, Any]) -> None:
    """Whatever the bank is still to be told of this charge has been; a boleto that looks untouched may be watched
    on."""

    async def over() -> bool:
        return bool(await books.fetchval(_LEFT, UUID(charge["charge_id"])) == 0)

    await until_answer(over, within_s=30)


async def pay_at_bank(system: System, client: ApiClient, charge: dict[str, Any], leg: str, **more: Any) -> int:
    """A payer pays one leg at the bank of production; the bank's status: 200 when it took the money."""
    named = {"number": number_of(charge)} if leg == "boleto" else {"txid": charge["pix"]["txid"]}
    async with client.http.post(f"{system.bank_url}/simulated/pay", json={**named, **more}) as answer:
        return answer.status


async def becomes(client: ApiClient, charge: dict[str, Any], status: str) -> dict[str, Any]:
    async def now() -> dict[str, Any] | None:
        found = await client.charge(charge["charge_id"])
        return found if found["status"] == status else None

    found: dict[str, Any] = await until_answer(now)
    return found
