"""The steps of a payer's app: decode the image, parse the BR Code, fetch the location, verify its signature.

Third-party software does all the reading: zxing, starkbank-brcode, joserfc (contract section 5).
"""

import asyncio
import base64
import io
import json
import random
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from brcode.utils.brcodeId import brcodeJsonToBrcode, jsonFromBrcode
from joserfc import jws
from joserfc.jwk import KeySet
from PIL import Image

from commands.merchants.merchants import MerchantCreated, create_merchant
from runtime.postgres import connect
from tests.support.code_reader import qr_text
from tests.support.merchant import new_merchant
from tests.support.system import System

# The name in a BR Code is at most 25 ASCII characters; a name without an ASCII form becomes RECEBEDOR.
NAMES = {
    "Açougue São João & Filhos": "Acougue Sao Joao & Filhos",
    "ÀÉÎÕÜ ç ñ": "AEIOU c n",
    "X": "X",
    "Comércio de Materiais de Construção Irmãos Gonçalves Ltda": "Comercio de Materiais de",
    "Ж 日本語 🎉": "RECEBEDOR",
    'D\'Água — 100% "Natural" <b>': 'D\'Agua 100% "Natural" <b>',
}
AMOUNTS = ("0.01", "0.10", "1", "9.99", "10.00", "123456.78", "9999999999.99")
_MORE = 40
"""How many random amounts each merchant charges, beside AMOUNTS."""
_AT_ONCE = 8
_REGISTERED_S = 60.0


class IssuedCharge:
    def __init__(self, charge: dict[str, Any], name: str, amount: str) -> None:
        self.charge = charge
        self.name = name
        whole, _, rest = amount.partition(".")
        self.cents = int(whole) * 100 + int(rest.ljust(2, "0") or 0)
        self.code: str = charge["pix"]["qr_code"]
        self.objects: dict[str, Any] = jsonFromBrcode(self.code)
        self.location: str = self.objects["26"]["25"]


@pytest.fixture(scope="module")
async def charges(system: System) -> AsyncIterator[list[IssuedCharge]]:
    conn = await connect(system.database_url)
    try:
        merchants = [
            await create_merchant(conn, name=name, address=True, kyc="approved", now=datetime.now(UTC))
            for name in NAMES
        ]
    finally:
        await conn.close()
    chance = random.Random(5)
    free = asyncio.Semaphore(_AT_ONCE)
    async with httpx.AsyncClient(base_url=system.base_url, timeout=30) as client:

        async def token(merchant: MerchantCreated, mode: str) -> str:
            credential = getattr(merchant, mode)
            answer = await client.post(
                "/v1/oauth/token",
                data={"grant_type": "client_credentials"},
                auth=(credential.client_id, credential.client_secret),
            )
            return str(answer.json()["access_token"])

        async def create(merchant: MerchantCreated, bearer: str, amount: str, number: int) -> IssuedCharge:
            async with free:
                answer = await client.post(
                    "/v1/charges/pix",
                    headers={"authorization": f"Bearer {bearer}", "idempotency-key": f"qr {number}"},
                    json={"account_id": str(merchant.account_id), "amount": amount, "description": "Pão de açúcar"},
                )
                assert answer.status_code == 201, answer.text
                return IssuedCharge(answer.json(), merchant.name, amount)

        wanted = []
        for merchant in merchants:
            more = [f"{chance.randrange(10**9)}.{chance.randrange(1, 100):02}" for _ in range(_MORE)]
            for mode, amounts in (("test", (*AMOUNTS, *more)), ("production", AMOUNTS)):
                bearer = await token(merchant, mode)
                wanted += [create(merchant, bearer, amount, number) for number, amount in enumerate(amounts)]
        yield await asyncio.gather(*wanted)


async def test_the_qr_image_decodes_to_exactly_the_br_code(charges: list[IssuedCharge]) -> None:
    assert len(charges) > 300
    for made in charges:
        head, _, data = made.charge["pix"]["qr_code_image"].partition(",")
        assert head == "data:image/png;base64"
        image = Image.open(io.BytesIO(base64.b64decode(data, validate=True)))
        assert image.format == "PNG"
        assert qr_text(image) == made.code


async def test_the_qr_image_has_modules_of_four_pixels_and_a_quiet_zone_of_four_modules(
    charges: list[IssuedCharge],
) -> None:
    for made in charges[::20]:
        data = base64.b64decode(made.charge["pix"]["qr_code_image"].partition(",")[2])
        image = Image.open(io.BytesIO(data)).convert("L")
        left, top, right, bottom = image.point(lambda value: 255 - value).getbbox() or (0, 0, 0, 0)
        assert image.width == image.height
        modules, rest = divmod(image.width, 4)
        assert rest == 0
        assert (modules - 8 - 17) % 4 == 0, "a QR symbol has 17 + 4 v modules"
        assert (left, top) == (16, 16)
        assert (image.width - right, image.height - bottom) == (16, 16)


async def test_another_library_parses_the_br_code_and_encodes_it_identically(charges: list[IssuedCharge]) -> None:
    for made in charges:
        assert brcodeJsonToBrcode({path: value for path, value in made.objects.items() if path != "63"}) == made.code
        objects = made.objects
        assert (objects["00"], objects["01"], objects["52"], objects["53"], objects["58"]) == (
            "01", "12", "0000", "986", "BR",
        )  # fmt: skip
        assert objects["26"]["00"] == "br.gov.bcb.pix"
        assert set(objects["26"]) == {"00", "25"}
        assert objects["62"] == {"05": "***"}
        assert objects["59"] == NAMES[made.name]
        assert 1 <= len(objects["60"]) <= 15


async def test_the_br_code_contains_the_amount_of_the_charge(charges: list[IssuedCharge]) -> None:
    for made in charges:
        assert made.objects["54"] == made.charge["amount"] == f"{made.cents // 100}.{made.cents % 100:02}"


async def test_locations_are_at_most_77_characters_without_scheme_and_unique(charges: list[IssuedCharge]) -> None:
    for made in charges:
        assert len(made.location) <= 77
        assert "://" not in made.location
        assert "/" in made.location
    assert len({made.location for made in charges}) == len(charges)
    assert len({made.charge["pix"]["txid"] for made in charges}) == len(charges)


@pytest.mark.parametrize("test", [True, False], ids=["sandbox", "production"])
async def test_the_location_answers_the_signed_payload_of_the_charge(charges: list[IssuedCharge], test: bool) -> None:
    chosen = [made for made in charges if made.charge["test"] is test][::4]
    assert len(chosen) >= 10
    keys: dict[str, KeySet] = {}
    async with httpx.AsyncClient(timeout=30) as client:
        for made in chosen:
            signed = await payload(client, made)
            header = jws.extract_compact(signed).headers()
            assert header["alg"] == "ES256"
            if header["jku"] not in keys:
                keys[header["jku"]] = KeySet.import_key_set((await client.get(header["jku"])).json())
            # The payload is signed by the host of the location (manual of standards: `jku` has the location's domain).
            assert header["jku"].split("/")[2] == made.location.split("/")[0]
            verified = jws.deserialize_compact(signed, keys[header["jku"]], algorithms=["ES256"])
            payload_fields = json.loads(verified.payload)
            assert payload_fields["txid"] == made.charge["pix"]["txid"]
            assert payload_fields["valor"]["original"] == made.charge["amount"]
            assert payload_fields["status"] == "ATIVA"
            assert payload_fields["calendario"]["expiracao"] > 0


async def test_a_changed_payload_does_not_verify(charges: list[IssuedCharge]) -> None:
    async with httpx.AsyncClient(timeout=30) as client:
        signed = await payload(client, charges[0])
        jku = jws.extract_compact(signed).headers()["jku"]
        keys = KeySet.import_key_set((await client.get(jku)).json())
    head, body, signature = signed.split(b".")
    plain = base64.urlsafe_b64decode(body + b"=" * (-len(body) % 4))
    other = base64.urlsafe_b64encode(plain.replace(b"ATIVA", b"OUTRA")).rstrip(b"=")
    assert other != body
    with pytest.raises(Exception, match=r"(?i)signature"):
        jws.deserialize_compact(b".".join((head, other, signature)), keys, algorithms=["ES256"])


async def test_the_location_of_a_charge_paid_within_milliseconds_ends_as_concluida(
    system: System,
) -> None:
    async with new_merchant(system) as merchant:

        async def create_and_pay() -> str:
            charge = await merchant.sandbox.created()
            paid = await merchant.sandbox.pay(charge["charge_id"])
            assert paid.status == 200, paid
            return str(jsonFromBrcode(charge["pix"]["qr_code"])["26"]["25"])

        locations = await asyncio.gather(*(create_and_pay() for _ in range(100)))
    deadline = time.monotonic() + _REGISTERED_S
    async with httpx.AsyncClient(timeout=30) as client:
        for location in locations:
            while (status := await _status_at(client, location)) != "CONCLUIDA":
                assert time.monotonic() < deadline, status
                await asyncio.sleep(0.1)


async def _status_at(client: httpx.AsyncClient, location: str) -> str:
    """The status in the location's signed payload, or the body of its answer while it has no payload."""
    answer = await client.get(f"http://{location}")
    if answer.status_code != 200:
        return answer.text
    body = answer.content.split(b".")[1]
    return str(json.loads(base64.urlsafe_b64decode(body + b"=" * (-len(body) % 4)))["status"])


async def payload(client: httpx.AsyncClient, made: IssuedCharge) -> bytes:
    """The location's payload, once a worker has registered the charge, right after its creation."""
    deadline = time.monotonic() + _REGISTERED_S
    while True:
        answer = await client.get(f"http://{made.location}")
        if answer.status_code == 200:
            return answer.content
        assert time.monotonic() < deadline, answer.text
        await asyncio.sleep(0.1)
