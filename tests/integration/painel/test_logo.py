"""A merchant's logo: only pixels of the uploaded file are stored, and payers see it wherever they see the charge."""

import io
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from commands.merchants.profile.logo import set_logo
from commands.merchants.profile.logo_pixels import read_logo
from domain.errors import Refused
from domain.merchants.logo import BYTES_MAX, HEIGHT_MAX, PREVIEW_SIZE, SENT_BYTES_MAX, WIDTH_MAX
from runtime.seal import Seal
from tests.support.counting import calls_made
from tests.support.dashboard import (
    Books,
    Person,
    Seen,
    a_merchant,
    colleague_in_browser,
    owner_in_browser,
    settings_with,
    staff_in_browser,
)
from tests.support.pages import serving
from tests.support.pictures import draw_logo, encode_picture

SETTINGS = settings_with(STAFF_TOTP_REQUIRED="0")
PAGE, FORM = "/painel/empresa", "/painel/empresa/logotipo"
_PATHS = re.compile(r"/logo/[0-9a-f]{35}(?:-previa)?\.png")


@pytest_asyncio.fixture(loop_scope="session")
async def shop(pool: Any) -> AsyncIterator[Any]:
    merchant = await a_merchant(pool)
    async with (
        serving(pool, lambda: datetime.now(UTC), SETTINGS) as address,
        owner_in_browser(address, merchant) as owner,
    ):
        yield owner, Books(pool, merchant.account_id, Seal(SETTINGS.secret_key)), address, merchant


async def upload(person: Person, file: bytes, *, on: str = PAGE, to: str = FORM) -> Seen:
    data = aiohttp.FormData((await person.opened(on)).hidden())
    data.add_field("logo", io.BytesIO(file), filename="../logo.svg", content_type="image/svg+xml")
    return await person.ask("POST", to, data=data)


async def fetch(person: Person, path: str) -> tuple[int, Any, bytes]:
    async with person.http.get(person.address + path) as answer:
        return answer.status, answer.headers, await answer.read()


def chunk_types(png: bytes) -> list[bytes]:
    at, found = 8, []
    while at < len(png):
        found.append(png[at + 4 : at + 8])
        at += 12 + int.from_bytes(png[at : at + 4], "big")
    return found


# What is stored of a file


def _png_with_metadata() -> bytes:
    said = PngInfo()
    said.add_text("Author", "Fulana de Tal")
    said.add_itxt("XML:com.adobe.xmp", "<x>Fulana</x>", zip=True)
    return draw_logo(pnginfo=said, exif=_exif(), icc_profile=b"\0" * 200) + b"<script>alert('Fulana')</script>"


def _exif() -> Image.Exif:
    exif = Image.Exif()
    exif[0x013B] = "Fulana de Tal"  # Artist
    exif[0x8825] = {1: "S", 2: (23.0, 33.0, 1.0)}  # where the picture was taken
    return exif


@pytest.mark.parametrize("file", [_png_with_metadata(), draw_logo("JPEG", exif=_exif(), comment=b"Fulana")])
def test_only_the_pixels_of_the_file_are_stored(file: bytes) -> None:
    assert b"Fulana" in file
    kept = read_logo(file)
    for png in (kept.image, kept.preview):
        assert set(chunk_types(png)) <= {b"IHDR", b"PLTE", b"IDAT", b"IEND"}
        assert png.endswith(b"IEND\xaeB`\x82")
        assert len(png) <= BYTES_MAX
        image = Image.open(io.BytesIO(png))
        assert image.mode in ("RGB", "P")
        assert image.info.keys() <= {"interlace"}


def test_transparency_becomes_white_and_empty_margins_are_cropped() -> None:
    kept = read_logo(draw_logo(size=(900, 300)))
    image = Image.open(io.BytesIO(kept.image)).convert("RGB")
    assert image.size == (kept.width, kept.height)
    assert image.width == WIDTH_MAX
    assert image.getpixel((0, 0)) == (255, 255, 255)  # beside the disc
    edges = [image.getpixel((x, kept.height // 2)) for x in (0, kept.width - 1)]
    assert (255, 255, 255) not in edges
    assert Image.open(io.BytesIO(kept.preview)).size == PREVIEW_SIZE


def test_a_picture_of_many_colours_is_reduced_to_the_size_limits() -> None:
    noise = Image.effect_noise((800, 500), 100).convert("RGB")
    noise.putpixel((0, 0), (0, 0, 0))
    kept = read_logo(encode_picture(noise))
    assert len(kept.image) <= BYTES_MAX
    assert len(kept.preview) <= BYTES_MAX
    assert 100 <= kept.width <= WIDTH_MAX
    assert kept.height <= HEIGHT_MAX


def test_a_photo_is_turned_upright_by_its_exif_orientation() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned
    kept = read_logo(draw_logo("JPEG", size=(900, 300), exif=exif))
    assert kept.height > kept.width


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"])
def test_every_kind_of_png_and_jpeg_is_read(mode: str) -> None:
    image = Image.open(io.BytesIO(draw_logo())).convert("RGBA")
    paper = Image.new("RGBA", image.size, "white")
    paper.alpha_composite(image)
    file = encode_picture(paper.convert("RGB").convert(mode), "JPEG" if mode == "CMYK" else "PNG")
    kept = read_logo(file)
    assert kept.width == WIDTH_MAX


def _of_many_scans(times: int) -> bytes:
    """A progressive JPEG whose last scan is repeated; each scan costs a pass over the picture."""
    jpeg = draw_logo("JPEG", progressive=True)
    return jpeg[:-2] + jpeg[jpeg.rindex(b"\xff\xda") : -2] * times + jpeg[-2:]


def _of_many_profiles(times: int) -> bytes:
    png = draw_logo(icc_profile=b"\0" * 1_000_000)
    at = png.index(b"iCCP") - 4
    profile = png[at : at + 12 + int.from_bytes(png[at : at + 4], "big")]
    return png[:at] + profile * times + png[at + len(profile) :]


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "kind"),
        (b"GIF89a" + b"\0" * 60, "kind"),
        (encode_picture(Image.new("RGB", (40, 40), "red"), "WEBP"), "kind"),
        (encode_picture(Image.new("RGB", (40, 40), "red"), "BMP"), "kind"),
        (encode_picture(Image.new("I;16", (40, 40), 9), "PNG"), "kind"),
        (draw_logo()[:-400], "kind"),
        (_of_many_scans(200), "kind"),
        (_of_many_profiles(2), "kind"),
        (b"", "kind"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * (SENT_BYTES_MAX + 1), "bytes"),
        (encode_picture(Image.new("L", (4_001, 900))), "size"),
        (encode_picture(Image.new("1", (2_100, 2_000))), "size"),
        (encode_picture(Image.new("L", (15, 400))), "size"),
        (encode_picture(Image.new("L", (3_000, 20))), "size"),
        (encode_picture(Image.new("RGB", (90, 90), "#fcfcfc")), "blank"),
        (encode_picture(Image.new("RGBA", (90, 90), (255, 255, 255, 120))), "blank"),
        (encode_picture(Image.new("RGBA", (90, 90), (9, 9, 9, 0))), "blank"),
    ],
)
def test_a_file_that_cannot_be_a_logo_is_refused_with_the_reason(file: bytes, why: str) -> None:
    with pytest.raises(Refused) as refused:
        read_logo(file)
    assert refused.value.fields == {"logo": why}


def test_a_decompression_bomb_is_refused_without_decoding_a_pixel() -> None:
    """19 kB that would become 400 MB: only its header is read."""
    bomb = encode_picture(Image.new("1", (20_000, 20_000)))
    assert len(bomb) < 100_000

    def refuse() -> None:
        with pytest.raises(Refused, match="VALIDATION"):
            read_logo(bomb)

    assert calls_made(refuse) < 3_000


@given(st.binary(max_size=200), st.integers(0, 1_200), st.integers(0, 60), st.booleans())
def test_a_corrupted_file_is_read_or_refused_and_raises_no_other_error(
    junk: bytes, at: int, dropped: int, jpeg: bool
) -> None:
    whole = draw_logo("JPEG" if jpeg else "PNG", size=(120, 60))
    why = None
    try:
        read_logo(whole[:at] + junk + whole[at + dropped :])
    except Refused as refused:
        why = (refused.fields or {})["logo"]
    assert why in (None, "kind", "size", "blank")


# Who sees the logo


async def test_payers_see_the_logo_before_and_after_payment_and_in_the_preview_of_the_link(shop: Any) -> None:
    owner, books, *_ = shop
    doc = await books.charge()
    path = f"/pagar/{doc.public_id}"
    assert "/logo/" not in (await owner.opened(path)).html
    answer = await upload(owner, draw_logo())
    assert (answer.status, answer.where) == (303, f"{PAGE}?feito=logotipo")
    for paid in (False, True):
        if paid:
            await books.paid(doc)
        html = (await owner.opened(path)).html
        preview, shown = dict.fromkeys(_PATHS.findall(html))
        assert f'content="{SETTINGS.app_url}{preview}"' in html
        assert re.search(rf'<img src="{shown}" width="\d+" height="\d+" alt="">', html), (
            "width and height reserve its space"
        )
    for name, size in ((shown, (WIDTH_MAX, 100)), (preview, PREVIEW_SIZE)):
        status, headers, png = await fetch(owner, name)
        assert (status, headers["content-type"]) == (200, "image/png")
        assert headers["cache-control"] == "public, max-age=31536000, immutable"
        assert headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert headers["x-content-type-options"] == "nosniff"
        assert Image.open(io.BytesIO(png)).width == size[0]


async def test_another_logo_has_another_url_and_the_old_url_answers_404(shop: Any) -> None:
    owner, books, *_ = shop
    path = f"/pagar/{(await books.charge()).public_id}"

    async def shown() -> str:
        return str(_PATHS.findall((await owner.opened(path)).html)[-1])

    one = draw_logo()
    await upload(owner, one)
    first = await shown()
    await upload(owner, draw_logo())
    assert await shown() != first
    assert (await fetch(owner, first))[0] == 404
    await upload(owner, one)
    assert await shown() == first, "the URL follows from the content"
    assert await books.pool.fetchval("SELECT count(*) FROM merchant_logo WHERE account_id = $1", books.account_id) == 1


async def test_a_removed_logo_is_no_longer_shown_and_both_changes_are_audited(shop: Any) -> None:
    owner, books, *_ = shop
    path = f"/pagar/{(await books.charge()).public_id}"
    await upload(owner, draw_logo())
    assert "data:image/png" in (await owner.opened(PAGE)).html
    assert (await owner.post(f"{FORM}/remover", on=PAGE)).status == 303
    assert "/logo/" not in (await owner.opened(path)).html
    assert "Nenhum logotipo" not in (await owner.opened(PAGE)).text, "an owner is shown the form"
    log = (await owner.opened("/painel/auditoria")).text
    assert "Mudou o logotipo que os pagadores veem" in log
    assert "Removeu o logotipo" in log


async def test_the_logo_of_a_blocked_merchant_is_shown_nowhere(shop: Any) -> None:
    owner, books, *_ = shop
    path = f"/pagar/{(await books.charge()).public_id}"
    await upload(owner, draw_logo())
    names = _PATHS.findall((await owner.opened(path)).html)
    assert len(names) == 2
    await books.pool.execute("UPDATE account SET kyc = 'blocked' WHERE account_id = $1", books.account_id)
    assert "/logo/" not in (await owner.opened(path)).html
    assert [(await fetch(owner, name))[0] for name in names] == [404, 404]


async def test_unknown_logo_names_answer_404(shop: Any) -> None:
    owner, *_ = shop
    for name in ("0" * 35 + ".png", "x.png", "000" + "0" * 32, "%00.png", "0" * 35 + "-previa.svg", "é.png"):
        assert (await fetch(owner, f"/logo/{name}"))[0] == 404, name


@pytest.mark.parametrize(
    ("file", "said"), [(b"<svg/>", "não é uma imagem PNG ou JPEG"), (b"", "Escolha um arquivo")], ids=["svg", "none"]
)
async def test_a_refused_logo_is_explained_beside_the_field(shop: Any, file: bytes, said: str) -> None:
    owner, books, *_ = shop
    refused = await upload(owner, file)
    assert refused.status == 400
    assert said in refused.text
    assert 'id="w-logo"' in refused.html
    assert not await books.pool.fetchval("SELECT count(*) FROM merchant_logo WHERE account_id = $1", books.account_id)


async def test_an_upload_beyond_the_bound_is_refused_with_413(shop: Any) -> None:
    owner, *_ = shop
    assert (await upload(owner, b"\0" * (SENT_BYTES_MAX + 400_000))).status == 413


async def test_only_owners_may_set_or_remove_the_logo(shop: Any) -> None:
    _, books, address, merchant = shop
    for role in ("finance", "developer", "support"):
        async with colleague_in_browser(books.pool, address, merchant, role) as colleague:
            assert "Nenhum logotipo" in (await colleague.opened(PAGE)).text
            assert (await upload(colleague, draw_logo(), on="/painel/acesso")).status == 403
            assert (await colleague.post(f"{FORM}/remover")).status == 403


async def test_staff_may_set_and_remove_the_logo_and_the_accounts_audit_log_says_so(shop: Any) -> None:
    owner, books, address, _ = shop
    page = f"/plataforma/lojas/{books.account_id}"
    async with staff_in_browser(books.pool, address) as staff:
        assert (await upload(staff, draw_logo(), on=page, to=f"{page}/logotipo")).status == 303
        assert "data:image/png" in (await owner.opened(PAGE)).html
        wrong = await upload(staff, b"%PDF-1.7", on=page, to=f"{page}/logotipo")
        assert (wrong.status, "não é uma imagem" in wrong.text) == (400, True)
        assert (await staff.post(f"{page}/logotipo/remover", on=page)).status == 303
        assert "Removeu o logotipo" in (await staff.opened(page)).text
    assert "data:image/png" not in (await owner.opened(PAGE)).html
    log = (await owner.opened("/painel/auditoria")).text
    assert log.count("Plataforma") >= 2
    assert "Removeu o logotipo" in log


async def test_two_merchants_may_have_the_same_logo(shop: Any) -> None:
    owner, books, *_ = shop
    logo = draw_logo()
    await upload(owner, logo)
    other = await a_merchant(books.pool)
    async with books.pool.acquire() as conn:
        await set_logo(conn, other.account_id, read_logo(logo), now=datetime.now(UTC))
    name = _PATHS.findall((await owner.opened(f"/pagar/{(await books.charge()).public_id}")).html)[-1]
    await books.pool.execute("UPDATE account SET kyc = 'blocked' WHERE account_id = $1", other.account_id)
    assert (await fetch(owner, name))[0] == 200, "the other merchant's logo stays available"
