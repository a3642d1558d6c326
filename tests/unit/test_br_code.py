"""BR Codes: the examples of the central bank and of other libraries are parsed, and ours keep to the manual."""

from binascii import crc_hqx
from datetime import UTC, datetime, timedelta, timezone

import pytest
from brcode.utils.brcodeId import jsonFromBrcode

from domain.pix.br_code import ascii_fold, dynamic_br_code
from domain.pix.end_to_end import end_to_end_id
from tests.support.br_code_reader import parse_br_code

# reference/pix-and-boleto.md 1.6: the examples of the manual and of pix-api, then fixtures of other libraries.
PAYABLE = [
    (
        "00020126580014br.gov.bcb.pix0136123e4567-e12b-12d1-a456-4266554400005204000053039865802BR5"
        "913Fulano de Tal6008BRASILIA62070503***63041D3D"
    ),
    (
        "00020101021226700014br.gov.bcb.pix2548pix.example.com/8b3da2f39a4140d1a91abd93113bd4415204"
        "000053039865802BR5913Fulano de Tal6008BRASILIA62070503***630464E4"
    ),
    (
        "00020101021226700014br.gov.bcb.pix2548pix.example.com/8b3da2f39a4140d1a91abd93113bd4415204"
        "000053039865802BR5913Fulano de Tal6008BRASILIA62070503***80740014br.gov.bcb.pix2552pix.exa"
        "mple.com/rec/2353c790eefb11eaadc10242ac1200026304FB42"
    ),
    (
        "00020126580014br.gov.bcb.pix0136123e4567-e12b-12d1-a456-4266554400005204000053039865406100"
        ".505802BR5913Fulano de Tal6008BRASILIA62070503***80740014br.gov.bcb.pix2552pix.example.com"
        "/rec/2353c790eefb11eaadc10242ac12000263042875"
    ),
    (
        "00020101021226760014br.gov.bcb.pix2554pix.example.com/qr/v2/8b3da2f39a4140d1a91abd93113bd4"
        "415204000053039865802BR5913Fulano de Tal6008BRASILIA62070503***80800014br.gov.bcb.pix2558p"
        "ix.example.com/qr/v2/rec/94ed2badcbc04c15b0bb7fa35319489063047741"
    ),
    (
        "00020101021226810014br.gov.bcb.pix2559pix.example.com/qr/v2/cobv/1e6c54d3ec9449b7a7fc53b6b"
        "0f998e75204000053039865802BR5913Fulano de Tal6008BRASILIA62070503***80800014br.gov.bcb.pix"
        "2558pix.example.com/qr/v2/rec/3ffa640fa4f14080adccb949fa2dc0d06304A441"
    ),
    (
        "00020126360014br.gov.bcb.pix0114112223330001815204000053039865406480.505802BR5917Mello Tra"
        "nsportes6015Sao Jose do Rio62130509FAT009001630432F5"
    ),
    (
        "00020126580014BR.GOV.BCB.PIX013611111111-1111-1111-1111-11111111111152040000530398654040.0"
        "15802BR5925TESTE DO TESTE DO TESTEIE6009SAO PAULO6226052211111111111111111111116304642D"
    ),
    (
        "00020126580014BR.GOV.BCB.PIX013611111111-1111-1111-1111-11111111111152040000530398654040.0"
        "15802BR5925Teste do Teste do TesteIE6009SAO PAULO61081111111162160512NUgpnvaS87Ts6304760E"
    ),
    (
        "00020101021226850014br.gov.bcb.pix2563exemplodeurl.com.br/pix/v2/11111111-1111-1111-1111-1"
        "1111111111152040000530398654040.015802BR5925TESTE DE TESTE DO TESTEIE6014RIO DE JANEIRO620"
        "70503***6304CD52"
    ),
    (
        "00020126990014br.gov.bcb.pix2577qr-h.sandbox.pix.bcb.gov.br/rest/api/v2/cobv/9b95a87c10a84"
        "d65bcbf55a48a2e50c85204000053039865802BR5903Pix6008BRASILIA62070503***63048ECF"
    ),
    (
        "00020101021226940014br.gov.bcb.pix2572qr-h.sandbox.pix.bcb.gov.br/rest/api/v2/7b2d64c4eb74"
        "4a2d92a4dd5f8cfc4dfa5204000053039865802BR5913FULANO DE TAL6008BRASILIA62070503***80950014b"
        "r.gov.bcb.pix2573qr-h.sandbox.pix.bcb.gov.br/rest/api/rec/3d29b94249c54b3f8c533d729f59b5e5"
        "6304DBE0"
    ),
    (
        "00020101021226330014br.gov.bcb.pix0111123456789095204000053039865802BR5913Fulano de Tal600"
        "8BRASILIA62070503***63043CAC"
    ),
    (
        "00020101021226480014br.gov.bcb.pix2526pix.example.com/qr/v2/12345204000053039865802BR5913F"
        "ulano de Tal6008Brasilia62070503***6304FC66"
    ),
    # Its txid is not ***, which a dynamic code must not have. Such codes are in circulation: parsed, but never written.
    (
        "00020101021226820014br.gov.bcb.pix2560exemplodeurl.com/pix/v2/11111111-1111-1111-1111-1111"
        "1111111152040000530398654045.805802BR5925TESTE DO TESTE DO TESTEIE6014RIO DE JANEIRO622905"
        "251111111111111111111111111630449F9"
    ),
]  # fmt: skip
RECURRENCE_ONLY = (
    "00020126180014br.gov.bcb.pix5204000053039865802BR5913Fulano de Tal6008BRASILIA62070503***8"
    "0800014br.gov.bcb.pix2558pix.example.com/qr/v2/rec/2353c790eefb11eaadc10242ac120002630462C"
    "9"
)
WITH_SCHEME = (
    "00020126990014br.gov.bcb.pix2577https://qr-h.sandbox.pix.bcb.gov.br/rest/api/v2/ac8ab4efe7"
    "db4200885f5ab3c34725204000053039865802BR5903Pix6008BRASILIA62070503***63041043"
)
BROKEN_AFTER_62 = (
    "00020126360014BR.GOV.BCB.PIX0114+5511943214321520400005303986540566.665802BR5907EMPRESA60"
    "08BRASILIA62080503***6304170E"
)

LOCATION = "pix.example.com/qr/v2/8b3da2f39a4140d1a91abd93113bd441"


def with_crc(text: str) -> str:
    """The text with its correct CRC, so that only its structure can be the reason for a refusal."""
    return f"{text}6304{crc_hqx(text.encode() + b'6304', 0xFFFF):04X}"


@pytest.mark.parametrize("text", PAYABLE)
def test_br_codes_of_other_banks_are_parsed_as_the_brcode_library_does(text: str) -> None:
    objects = parse_br_code(text)
    theirs = jsonFromBrcode(text)
    for path, value in theirs.items():
        if isinstance(value, dict):
            assert {key: objects[f"{path}-{key}"] for key in value} == value
        elif path != "62":
            assert objects[path] == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (RECURRENCE_ONLY, "key or a location"),
        (WITH_SCHEME, "object 26-25"),
        (BROKEN_AFTER_62, "object 30"),
        ("", "ASCII"),
        (PAYABLE[0].lower(), "CRC"),
        (PAYABLE[0][:-1], "CRC"),
        (PAYABLE[0] + "\n", "ASCII"),
        (with_crc(PAYABLE[0][:-8].replace("Fulano de Tal", "Fulano d\u00ea Tal")), "ASCII"),
        (with_crc(PAYABLE[0][:-8] + "99" * 200), "512"),
        (with_crc(PAYABLE[0][6:-8]), "first"),
        (with_crc(PAYABLE[0][:-8] + "6304AAAA" + "6110xx"), "63 last"),  # 61 swallows the CRC
        (with_crc(PAYABLE[0][:-8] + "6199"), "does not have"),
        (with_crc(PAYABLE[0][:-8] + "6100"), "does not have"),
        (with_crc(PAYABLE[0][:-8] + "6A01x"), "no id"),
        (with_crc(PAYABLE[0][:-8] + "5802BR"), "twice"),
        (with_crc(PAYABLE[0][:-8].replace("000201", "000202")), "object 00"),
        (with_crc(PAYABLE[1][:-8].replace("010212", "010213")), "object 01"),
        (with_crc(PAYABLE[0][:-8].replace("5303986", "5303840")), "object 53"),
        (with_crc(PAYABLE[0][:-8].replace("5802BR", "5802US")), "object 58"),
        (with_crc(PAYABLE[0][:-8].replace("52040000", "")), "object 52 is missing"),
        (with_crc(PAYABLE[0][:-8].replace("62070503***", "")), "object 62 is missing"),
        (with_crc(PAYABLE[0][:-8].replace("5913Fulano de Tal", "5926Fulano de Tal Fulano de Ta")), "object 59"),
        (with_crc(PAYABLE[0][:-8].replace("6008BRASILIA", "6016BRASILIABRASILIA")), "object 60"),
        (with_crc(PAYABLE[0][:-8].replace("5802BR", "54041,005802BR")), "object 54"),
        (with_crc(PAYABLE[0][:-8].replace("5802BR", "54051.0005802BR")), "object 54"),
        (with_crc(PAYABLE[0][:-8].replace("br.gov.bcb.pix", "br.gov.bcb.pox")), "0 templates"),
        (with_crc(PAYABLE[0][:-8] + PAYABLE[6][6:46].replace("2636", "2736")), "2 templates"),
        (
            with_crc(PAYABLE[0][:-8].replace("2658", "2663").replace("440000", "4400002501x")),
            "key or a location",
        ),
    ],
)
def test_a_br_code_that_no_payer_could_pay_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_br_code(text)


def test_a_change_of_any_character_is_detected() -> None:
    text = PAYABLE[1]
    for at, was in enumerate(text):
        for other in {"0", "9", "A", "z", "*"} - {was}:
            with pytest.raises(ValueError, match=r"CRC|object|id"):
                parse_br_code(text[:at] + other + text[at + 1 :])


def test_the_br_code_of_a_charge_has_the_objects_and_the_order_of_the_manual() -> None:
    text = dynamic_br_code(location=LOCATION, amount_cents=12345, name="Fulano de Tal", city="BRASILIA")
    assert text[:-4] == (
        "000201" "010212" "2676" "0014br.gov.bcb.pix" f"2554{LOCATION}"
        "52040000" "5303986" "5406123.45" "5802BR" "5913Fulano de Tal" "6008BRASILIA" "62070503***" "6304"
    )  # fmt: skip
    assert text[-4:] == f"{crc_hqx(text[:-4].encode(), 0xFFFF):04X}"


def test_the_crc_equals_the_manuals_example() -> None:
    assert crc_hqx(b"123456789", 0xFFFF) == 0x29B1
    assert parse_br_code(PAYABLE[0])["63"] == "1D3D"


def test_the_longest_location_and_the_largest_amount_fit_in_220_characters() -> None:
    text = dynamic_br_code(location="x" * 77, amount_cents=999_999_999_999, name="N" * 40, city="C" * 40)
    assert len(text) == 220
    objects = parse_br_code(text)
    assert (objects["26-25"], objects["54"], objects["59"], objects["60"]) == (
        "x" * 77, "9999999999.99", "N" * 25, "C" * 15,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("location", "cents"),
    [
        ("", 1),
        ("x" * 78, 1),
        ("https://pix.example.com/1", 1),
        (LOCATION, 0),
        (LOCATION, -1),
        (LOCATION, 10**12),
    ],
)
def test_no_br_code_is_written_for_an_invalid_location_or_amount(location: str, cents: int) -> None:
    with pytest.raises(AssertionError):
        dynamic_br_code(location=location, amount_cents=cents, name="Loja", city="Recife")


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Jo\u00e3o A\u00e7a\u00ed & Filhos", "Joao Acai & Filhos"),
        ("S\u00e3o Jos\u00e9 do Rio Preto", "Sao Jose do Rio Preto"),
        ("  a \t\n b  ", "a b"),
        ("A\u2013B\u00a0C", "A B C"),
        ("\u00aa\u00ba\ufb01", "aofi"),
        ("\U0001f355 Pizza", "Pizza"),
        ("Stra\u00dfe", "Strae"),
        ("a\x00b\x7fc\ud800d", "a b c d"),
        ("abcdefghijklmnopqrstuvwx  yz", "abcdefghijklmnopqrstuvwx"),  # the cut leaves a blank at the end
        ("\u6771\u4eac", "RECEBEDOR"),
        ("", "RECEBEDOR"),
    ],
)
def test_names_are_folded_to_the_ascii_that_payers_banks_accept(text: str, folded: str) -> None:
    assert ascii_fold(text, 25, otherwise="RECEBEDOR") == folded


def test_an_end_to_end_id_contains_the_ispb_and_the_minute_in_utc() -> None:
    at = datetime(2026, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-3)))
    assert end_to_end_id("00000000", at, "abcDEF12345") == "E00000000202701010259abcDEF12345"
    assert len(end_to_end_id("60701190", datetime(2026, 1, 2, tzinfo=UTC), "0" * 11)) == 32


@pytest.mark.parametrize(
    ("ispb", "at", "tail"),
    [
        ("1", datetime(2026, 1, 2, tzinfo=UTC), "0" * 11),
        ("12345678", datetime(2026, 1, 2, tzinfo=UTC).replace(tzinfo=None), "0" * 11),
        ("12345678", datetime(2026, 1, 2, tzinfo=UTC), "-" * 11),
    ],
)
def test_no_end_to_end_id_is_made_from_invalid_parts(ispb: str, at: datetime, tail: str) -> None:
    with pytest.raises(AssertionError):
        end_to_end_id(ispb, at, tail)
