"""Makes the pictures of docs/screenshots: `.venv/bin/python -m tests.support.screenshots [NAME ...]`.

Starts a system, books a month of a merchant's payments, and takes screenshots in Chromium; with names, only these
pictures. Everything shown is invented. docs/screenshots/locust.png shows a run of ten minutes (docs/load.md).
"""

import asyncio
import io
import random
import sys
import tempfile
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

import openpyxl
import pypdfium2
from PIL import Image

from runtime.postgres import open_pool
from runtime.seal import Seal
from tests.support.browser import Browser, Tab, chromium
from tests.support.dashboard import Books
from tests.support.merchant import ApiClient, until_answer
from tests.support.system import ROOT, System, remove_home, temporary_home

FOLDER: Final = ROOT / "docs" / "screenshots"
COLOURS: Final = 128
"""The colours of a picture: pages have few, and a palette takes a third of the bytes."""
DAYS: Final = 29
_PAID: Final = 0.85
DESKTOP, TABLET, PHONE = 1440, 768, 390
PAYERS: Final = (
    ("Maria da Silva Prado", "52998224725"),
    ("João Batista D'Ávila", "11144477735"),
    ("Mercado do Largo Ltda", "60701190000104"),
)
PLACE: Final = {
    "tipoPessoa": "PESSOA_FISICA",
    "cep": "01310100",
    "logradouro": "Avenida Paulista",
    "numero": "1578",
    "cidade": "São Paulo",
    "uf": "SP",
}


class Stage(NamedTuple):
    """The system that is shown. `charges` are by the state or form that a picture shows."""

    system: System
    browser: Browser
    owner: str
    """The group of tabs in which the merchant's owner and a member of staff are signed in."""
    production: ApiClient
    sandbox: ApiClient
    charges: dict[str, dict[str, Any]]


class Shot(NamedTuple):
    """A page as opened, or after `prepare`; the picture is cut at `height`."""

    page: str
    """The path, with a charge's name in braces for its id, or {name:public} for its public id."""
    width: int
    height: int
    scheme: str = "light"
    prepare: Callable[[Tab], Awaitable[None]] | None = None


async def _payer_chosen(tab: Tab) -> None:
    await tab.fill("#i-amount", "150,00")
    await tab.fill("#i-payer_query", "maria")
    await tab.leaves("button[name=buscar]")


async def _sheet_checked(tab: Tab) -> None:
    book = openpyxl.Workbook()
    for row in (
        ("tipo", "valor", "vencimento", "referencia", "nome", "documento", "validade_dias"),
        ("pix", 1234.56, None, "fatura 2001", PAYERS[0][0], PAYERS[0][1], 7),
        ("pix", 80, None, "fatura 2002", PAYERS[1][0], PAYERS[1][1], 30),
        ("pix", 99.9, None, "fatura 2003", PAYERS[2][0], PAYERS[2][1], None),
    ):
        book.active.append(row)
    made = io.BytesIO()
    book.save(made)
    with tempfile.NamedTemporaryFile(suffix=".xlsx") as file:
        Path(file.name).write_bytes(made.getvalue())
        await tab.choose_file("#file", Path(file.name))
        await tab.leaves("form[enctype] button[type=submit]")


LONG_NAME: Final = (
    "Associação dos Moradores e Amigos do Conjunto Habitacional Presidente Juscelino Kubitschek de Oliveira"
)
LONG_TEXT: Final = (
    "Taxa de condomínio, fundo de reserva e rateio da reforma da fachada conforme a assembleia de outubro"
)
PAYER_PAGE: Final = "/pagar/{%s:public}"
# fmt: off
SHOTS: Final[dict[str, Shot]] = {
    "painel-desktop":             Shot("/painel", DESKTOP, 1400),
    "painel-tablet":              Shot("/painel", TABLET, 1300),
    "painel-phone":               Shot("/painel", PHONE, 1400),
    "painel-charge-desktop":      Shot("/painel/cobrancas/{paid}", DESKTOP, 1580),
    "painel-new-boleto-phone":    Shot("/painel/cobrancas/nova?forma=boleto", PHONE, 1750, prepare=_payer_chosen),
    "painel-import-desktop":      Shot("/painel/cobrancas/importar", DESKTOP, 700, prepare=_sheet_checked),
    "painel-refund-phone-dark":   Shot("/painel/cobrancas/{paid}/devolver", PHONE, 900, "dark"),
    "painel-saques-phone":        Shot("/painel/saques", PHONE, 1500),
    "plataforma-desktop":         Shot("/plataforma", DESKTOP, 965),
    "plataforma-report-desktop":  Shot("/plataforma/relatorios/receipts", DESKTOP, 1000),
    "docs-reference-desktop":     Shot("/docs/api/charges", DESKTOP, 1000),
    "docs-reference-phone":       Shot("/docs/pt/api/charges", PHONE, 1000),
    "payer-page-phone":           Shot(PAYER_PAGE % "pix", PHONE, 1334),
    "payer-page-tablet":          Shot(PAYER_PAGE % "pix", TABLET, 1243),
    "payer-page-desktop":         Shot(PAYER_PAGE % "pix", DESKTOP, 801),
    "payer-page-boleto-phone":    Shot(PAYER_PAGE % "plain", PHONE, 1124),
    "payer-page-boleto-desktop":  Shot(PAYER_PAGE % "plain", DESKTOP, 938),
    "payer-page-dual-phone":      Shot(PAYER_PAGE % "dual", PHONE, 1625),
    "payer-page-paid":            Shot(PAYER_PAGE % "paid", PHONE, 900),
    "payer-page-paid-dark":       Shot(PAYER_PAGE % "paid", PHONE, 900, "dark"),
    "payer-page-refunded":        Shot(PAYER_PAGE % "refunded", PHONE, 900),
    "payer-page-cancelled":       Shot(PAYER_PAGE % "cancelled", PHONE, 900),
    "payer-page-expired":         Shot(PAYER_PAGE % "expired", PHONE, 900),
    "payer-page-failed":          Shot(PAYER_PAGE % "failed", PHONE, 900),
}
# fmt: on
RECEIPT: Final = "payer-page-receipt-print"
BOLETOS: Final = {f"boleto-{name}": name for name in ("plain", "hybrid", "long", "sandbox", "cancelled-boleto")}


async def main(names: list[str]) -> None:
    system = System(temporary_home())
    system.start()
    try:
        async with standing(system) as stage:
            for name, shot in SHOTS.items():
                if not names or name in names:
                    await photographed(stage, name, shot)
            if not names or RECEIPT in names:
                await printed(stage)
            for name, charge in BOLETOS.items():
                if not names or name in names:
                    await drawn(stage, name.removesuffix("-boleto"), stage.charges[charge])
    finally:
        system.stop()
        remove_home(system.home)


@asynccontextmanager
async def standing(system: System) -> AsyncIterator[Stage]:
    """Books a month of payments, and signs the people in in a browser."""
    merchant = system.merchants[0]
    production, sandbox = (
        ApiClient(system.base_url, merchant["account_id"], merchant[mode]["client_id"], merchant[mode]["client_secret"])
        for mode in ("production", "test")
    )
    pool = await open_pool(system.database_url, name="screenshots", size=2)
    try:
        await a_month(Books(pool, UUID(merchant["account_id"]), Seal(system.secret_key)))
        charges = await today(system, production, sandbox)
        with tempfile.TemporaryDirectory() as profile:
            async with chromium(Path(profile)) as browser:
                group = await browser.group()
                people = {"/painel": merchant["dashboard"], "/plataforma": system.dev["staff"]}
                async with browser.tab(group=group) as tab:
                    for root, person in people.items():
                        await tab.sign_in(f"{system.app_url}{root}/entrar", person["email"], person["password"])
                yield Stage(system, browser, group, production, sandbox, charges)
    finally:
        await asyncio.gather(production.http.close(), sandbox.http.close(), pool.close())


async def a_month(books: Books) -> None:
    """Create charges for each day, most of them paid within the hour. The unpaid ones come last: once the sweeper has
    recorded that one expired, an account books nothing with an earlier time."""
    rng = random.Random(7)
    plan = [
        (rng.random() < _PAID, day, number, rng.choice(PAYERS), rng.randint(20_00, 900_00))
        for day in range(DAYS, 0, -1)
        for number in range(rng.randint(1, 3))
    ]
    for paid, day, number, (name, document), cents in sorted(plan, key=lambda each: not each[0]):
        at = datetime.now(UTC) - timedelta(days=day, minutes=97 * number)
        doc = await books.charge(
            cents,
            at=at,
            lifetime=timedelta(days=DAYS + 1) if paid else timedelta(hours=2),
            payer={"name": name, "document": document},
            external_id=f"pedido-{1000 + 10 * (DAYS - day) + number}",
        )
        if paid:
            await books.paid(doc, at=at + timedelta(minutes=20), payer_name=name, payer_document=document)


async def today(system: System, production: ApiClient, sandbox: ApiClient) -> dict[str, dict[str, Any]]:
    """Create one charge of each kind and state, over the API and at the bank."""

    async def boleto(client: ApiClient, kind: str, value: str, name: str, **more: Any) -> dict[str, Any]:
        pagador = {**PLACE, "nome": name, "documento": PAYERS[0][1]}
        body = {"tipo": kind, "valorCents": value, "dataVencimento": _in_days(12), "pagador": pagador, **more}
        return await made(client, "/v1/charges/boleto", body)

    async def made(client: ApiClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await client.ask(
            "POST", path, json=body, key=f"{path} {body}"[:200].encode("ascii", "replace").decode()
        )
        assert answer.status == 201, answer.raw
        return dict(answer.body)

    async def becomes(client: ApiClient, charge_id: str, status: str) -> None:
        async def address() -> bool:
            return str((await client.charge(charge_id))["status"]) == status

        await until_answer(address)

    person = {"name": PAYERS[0][0], "document": PAYERS[0][1]}
    other = {"name": PAYERS[1][0], "document": PAYERS[1][1]}
    address = {
        "street": "Avenida Paulista",
        "number": "1578",
        "city": "São Paulo",
        "state": "SP",
        "zip_code": "01310100",
    }
    charges = {
        "pix": await production.created(
            "1234.56", external_id="pedido-88", description="Encomenda nº 88", payer=person
        ),
        "paid": await production.created(
            "149.90", external_id="pedido-91", description="Bolo de aniversário", payer=person
        ),
        "refunded": await production.created("59.90", external_id="pedido-92", payer=person),
        "cancelled": await production.created("33.00", external_id="pedido-93", payer=person),
        "twice": await production.created("89.90", external_id="pedido-94", payer=other),
        "expired": await sandbox.created("33.00"),
        "failed": await sandbox.created("34.00"),
        "plain": await boleto(production, "boleto", "350.00", PAYERS[1][0], external_id="NF-350"),
        "hybrid": await boleto(
            production,
            "boleto_hibrido",
            "1250.00",
            PAYERS[0][0],
            external_id="NF-1250",
            fine={"percent": "2.00"},
            interest={"percent_per_month": "1.00"},
        ),
        "long": await boleto(
            production, "boleto_hibrido", "98765.43", LONG_NAME, descricao=LONG_TEXT, external_id="cota-101"
        ),
        "sandbox": await boleto(sandbox, "boleto_hibrido", "150.00", PAYERS[0][0]),
        "cancelled-boleto": await boleto(production, "boleto", "75.00", PAYERS[0][0]),
        "dual": await made(
            production,
            "/v1/charges/dual",
            {
                "amount": "480.00",
                "due_date": _in_days(26),
                "external_id": "mensalidade-12",
                "payer": {**person, "person_type": "PESSOA_FISICA", "address": address},
            },
        ),
    }
    for name, times in (("paid", "1"), ("refunded", "1"), ("twice", "2")):
        system.json("bank", "pay", "--charge-id", charges[name]["charge_id"], "--times", times)
        await becomes(production, charges[name]["charge_id"], "paid")
    for name in ("cancelled", "cancelled-boleto"):
        await production.cancel(charges[name]["charge_id"])
        await becomes(production, charges[name]["charge_id"], "cancelled")
    await made(production, f"/v1/charges/{charges['refunded']['charge_id']}/refunds", {"reason": "produto em falta"})
    await becomes(production, charges["refunded"]["charge_id"], "refunded")
    for name, last in (("expired", "expire"), ("failed", "fail")):
        assert (await sandbox.post(f"/v1/sandbox/charges/{charges[name]['charge_id']}/{last}")).status == 200
    for value, about in (("500.00", "Fornecedor de farinha"), ("25.90", "Contador")):
        await made(production, "/v1/withdrawals", {"amount": value, "description": about})
    return charges


def _in_days(days: int) -> str:
    return (date.today() + timedelta(days=days)).isoformat()  # noqa: DTZ011 - the due date is far enough away for any time zone


async def photographed(stage: Stage, name: str, shot: Shot) -> None:
    page = shot.page
    for known, charge in stage.charges.items():
        page = page.replace(f"{{{known}:public}}", charge["public_id"]).replace(f"{{{known}}}", charge["charge_id"])
    async with stage.browser.tab(group=stage.owner) as tab:
        await tab.screen(shot.width, scheme=shot.scheme)
        await tab.open(stage.system.app_url + page)
        if shot.prepare is not None:
            await shot.prepare(tab)
        image = Image.open(io.BytesIO(await tab.picture()))
        assert tab.complaints == [], (name, tab.complaints)
    kept(name, image.crop((0, 0, image.width, min(image.height, shot.height))))


async def printed(stage: Stage) -> None:
    """Make the picture of the receipt as the browser prints it."""
    async with stage.browser.tab() as tab:
        await tab.screen(DESKTOP)
        await tab.open(f"{stage.system.app_url}/pagar/{stage.charges['paid']['public_id']}")
        paper = await tab.command("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=True)
    kept(RECEIPT, _drawn(b64decode(paper["data"]), 1.0))


async def drawn(stage: Stage, name: str, charge: dict[str, Any]) -> None:
    """Make the picture of a boleto's PDF, at 100 dots per inch."""
    client = stage.sandbox if name == "boleto-sandbox" else stage.production
    path = f"{client.base_url}/v1/charges/boleto/{charge['charge_id']}/pdf"
    async with client.http.get(path, headers={"Authorization": f"Bearer {await client.token()}"}) as answer:
        assert answer.status == 200, await answer.text()
        kept(name, _drawn(await answer.read(), 100 / 72))


def _drawn(pdf: bytes, scale: float) -> Image.Image:
    with pypdfium2.PdfDocument(pdf) as document:
        image: Image.Image = document[0].render(scale=scale).to_pil()
        return image


def kept(name: str, image: Image.Image) -> None:
    path = FOLDER / f"{name}.png"
    image.convert("RGB").quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(
        path, optimize=True
    )
    print(f"{path.stat().st_size:>7} {path.name}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
