"""The payer's page printed by a real browser: the paper has everything needed to pay, and nothing is split."""

import base64
from pathlib import Path
from typing import Any

import pypdfium2
import pytest

from domain.boleto.codes import printed_line
from tests.integration.web.test_payer_page import CODE, Charge, base_url, charge, client
from tests.integration.web.test_payer_page_boletos import TERMS, Boleto, account_id, boleto
from tests.support.boletos import BR_CODE
from tests.support.browser import CHROMIUM
from tests.support.pages import Command, tab, until

__all__ = ["account_id", "base_url", "boleto", "charge", "client"]

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser on this machine")

# In inches, the unit of the browser's protocol.
PAPERS = {"A4": (8.27, 11.69), "Letter": (8.5, 11.0)}


async def print_sheets(command: Command, paper: str) -> list[str]:
    """The text of each sheet, its lines joined; text beyond the edge is not included."""
    width, height = PAPERS[paper]
    answer = await command("Page.printToPDF", paperWidth=width, paperHeight=height)
    with pypdfium2.PdfDocument(base64.b64decode(answer["data"])) as document:
        return [sheet.get_textpage().get_text_bounded().replace("\r\n", "") for sheet in document]


async def open_page(command: Command, evaluate: Any, address: str) -> None:
    await command("Page.navigate", url=address)
    await until(evaluate, "location.href + document.readyState", f"{address}complete")


@pytest.mark.parametrize("paper", PAPERS)
async def test_the_printed_page_has_the_whole_pix_code(
    base_url: str, charge: Charge, boleto: Boleto, tmp_path: Path, paper: str
) -> None:
    hybrid = await boleto(hybrid=True, terms=TERMS)
    assert hybrid.boleto is not None
    async with tab(tmp_path / "profile") as (command, evaluate):
        await open_page(command, evaluate, f"{base_url}/pagar/{await charge()}")
        assert CODE in "".join(await print_sheets(command, paper))
        # A bank may write hyphens in its location; in one of these codes a hyphen would end a line.
        for length in range(5, 9):
            code = CODE.replace("0a1b2c3d4e5f60718293a4b5c6d7e8f9", ("-" + "a" * length) * 20)
            await open_page(command, evaluate, f"{base_url}/pagar/{await charge(qr_code=code)}")
            assert code in "".join(await print_sheets(command, paper))
        await open_page(command, evaluate, f"{base_url}/pagar/{hybrid.public_id}")
        text = "".join(await print_sheets(command, paper))
        assert BR_CODE in text
        assert printed_line(hybrid.boleto.linha_digitavel) in text


@pytest.mark.parametrize("paper", PAPERS)
async def test_a_printed_code_is_on_one_sheet_with_its_label_and_no_sheet_has_the_last_line_alone(
    base_url: str, boleto: Boleto, tmp_path: Path, paper: str
) -> None:
    """Wherever the sheet ends: the part above the codes is made taller step by step."""
    hybrid = await boleto(hybrid=True)
    assert hybrid.boleto is not None
    line = printed_line(hybrid.boleto.linha_digitavel)
    ends = set()
    async with tab(tmp_path / "profile") as (command, evaluate):
        await open_page(command, evaluate, f"{base_url}/pagar/{hybrid.public_id}")
        for taller_px in range(0, 520, 20):
            await evaluate(f"document.querySelector('.bill').style.paddingBottom = '{taller_px}px'")
            sheets = await print_sheets(command, paper)
            ends.add(len(sheets))
            assert any("Linha digitável do boleto" in sheet and line in sheet for sheet in sheets), taller_px
            assert any("Pix copia e cola" in sheet and BR_CODE in sheet for sheet in sheets), taller_px
            assert sheets[-1].strip() != "Cobrança emitida pela Quita", taller_px
    assert ends == {1, 2}
