"""Boletos: barcode, linha digitavel, due factor, nosso numero, and the letters the bank accepts.

The rows are boletos of many banks: answers of live processors, golden cases of published libraries, and one real boleto
of Banco do Brasil. The check digits of the fields are compared with python-stdnum; the general check digit is compared
with the printed one.
"""

from datetime import date, timedelta

import pytest
from stdnum import luhn

from banks.banco_do_brasil.nosso_numero import CONTROL_MAX, free_field, number_at_bank, parse_number, printed_number
from banks.banco_do_brasil.text import fold_for_bank
from domain.boleto.codes import (
    FIRST_DUE,
    LAST_DUE,
    barcode,
    barcode_of_line,
    due_factor,
    field_check_digit,
    general_check_digit,
    line,
    printed_line,
)
from domain.money import BOLETO_CENTS_MAX

# Line, barcode, due date. These are due after the factor began again, on 2025-02-22.
NEW_ROUND = [
    ("20890050091000000274083050530506314930000143106", "20893149300001431060050010000002748305053050", "2026-06-30"),
    ("50990000010000000000000111976007714930000001000", "50997149300000010000000000000000000011197600", "2026-06-30"),
    ("50990000010000300000700003613619414900000010000", "50994149000000100000000000003000000000361361", "2026-06-27"),
    ("70790001182119344360908458010868410420000064539", "70794104200000645390001121193443600845801086", "2025-04-05"),
    ("00190000090114971860168524522114210000000102656", "00192100000001026560000001149718606852452211", "2025-02-22"),
    ("00190000090114971860168524522114810010000102656", "00198100100001026560000001149718606852452211", "2025-02-23"),
    ("00190000090114971860168524522114350000000102656", "00193500000001026560000001149718606852452211", "2036-02-05"),
    ("34191090082233452123845678900007510000000010000", "34195100000000100001090022334521234567890000", "2025-02-22"),
    ("34191090082233452123845678900007610020000010000", "34196100200000100001090022334521234567890000", "2025-02-24"),
    ("34191090082233452123845678900007216670000010000", "34192166700000100001090022334521234567890000", "2026-12-21"),
    ("34191090082233452123845678900007447890000010000", "34194478900000100001090022334521234567890000", "2035-07-09"),
    ("34191090082233452123845678900007199990000010000", "34191999900000100001090022334521234567890000", "2049-10-13"),
]
OLD_ROUND = [
    ("34191090082233452123845678900007199990000010000", "34191999900000100001090022334521234567890000", "2025-02-21"),
    ("34191090082233452123845678900007371950000010000", "34193719500000100001090022334521234567890000", "2017-06-19"),
    ("34191090082233460123845678900007472250000020000", "34194722500000200001090022334601234567890000", "2017-07-19"),
    ("34191090082233478123845678900007972560000030000", "34199725600000300001090022334781234567890000", "2017-08-19"),
    ("34191090082233528123845678900007271950000080008", "34192719500000800081090022335281234567890000", "2017-06-19"),
    ("34191380072233535123945678900007471950000090003", "34194719500000900031380022335351234567890000", "2017-06-19"),
    ("23791234059000000004353012345608169040000014150", "23791690400000141501234090000000045301234560", "2016-09-01"),
    ("23791234139000000004343012345609169050000029721", "23791690500000297211234190000000044301234560", "2016-09-02"),
    ("23791234054000000004814012345600968730000064939", "23799687300000649391234040000000041401234560", "2016-08-01"),
    ("00190000090123456700400000001172468890000123278", "00194688900001232780000001234567000000000117", "2016-08-17"),
    ("00190000090000000000000000000117773910000120000", "00197739100001200000000000000000000000000011", "2018-01-01"),
    ("75691427760101722780000000400010169740000030000", "75691697400000300001427701017227800000040001", "2016-11-10"),
    ("75691427760101722780000000970012572950000090000", "75695729500000900001427701017227800000097001", "2017-09-27"),
    ("03399123475670000000500041401019368730000064932", "03393687300000649329123456700000000004140101", "2016-08-01"),
    ("10491234566000010004400000000216869180000010000", "10498691800000100001234560000100040000000021", "2016-09-15"),
    ("10491234566000010004400000000992771150000080000", "10497711500000800001234560000100040000000099", "2017-03-31"),
    ("74891119270000210156605853051026779050000030000", "74897790500000300001119200002101560585305102", "2019-05-30"),
    ("04192103490123456000900045140415268730000064734", "04192687300000647342103401234560000004514041", "2016-08-01"),
    ("42297123465001234567900000414623368730000064539", "42293687300000645397123450012345670000041462", "2016-08-01"),
    ("70790001182119344360908458010785299630000271112", "70792996300002711120001121193443600845801078", "2025-01-16"),
    ("08591011074023156020800074601014487570000010500", "08594875700000105001011040231560200007460101", "2021-09-28"),
    ("46191110000000000000010286661011898750000025631", "46198987500000256311110000000000001028666101", "2024-10-20"),
    ("07790001161206444990808159365561790020000015130", "07797900200000151300001112064449900815936556", "2022-05-31"),
    ("00190000090114971860168524522114675860000102656", "00196758600001026560000001149718606852452211", "2018-07-15"),
    ("00190500954014481606906809350314337370000000100", "00193373700000001000500940144816060680935031", "2007-12-31"),
]
WITHOUT_DUE_DATE = (
    "00190000090114971860168524522114100000000102656",
    "00191000000001026560000001149718606852452211",
)
LINES_AND_BARCODES = [(row[0], row[1]) for row in NEW_ROUND + OLD_ROUND] + [WITHOUT_DUE_DATE]
CENTS = {
    **{code: int(text[37:]) for text, code in LINES_AND_BARCODES},
    # Some are written out, so that the slice above is not compared with itself.
    "20893149300001431060050010000002748305053050": 143106,
    "34192166700000100001090022334521234567890000": 10000,
    "00193373700000001000500940144816060680935031": 100,
    "34192719500000800081090022335281234567890000": 80008,
    "70792996300002711120001121193443600845801078": 271112,
}

# Carteira 17: convenio (seven digits), control number, due date, cents, printed line.
CARTEIRA_17 = [
    ("3453481", 393, "2027-01-18", 332700, "00190.00009 03453.481008 00000.393173 1 16950000332700"),  # a real boleto
    ("3128557", 30000, "2026-12-31", 12345, "00190.00009 03128.557000 00030.000178 4 16770000012345"),
    ("3128557", 7, "2026-12-31", 12345, "00190.00009 03128.557000 00000.007179 1 16770000012345"),  # 11 -> 1
    ("3128557", 16, "2026-12-31", 12345, "00190.00009 03128.557000 00000.016170 1 16770000012345"),  # 10 -> 1
    ("3128557", 1, "2025-02-22", 100, "00190.00009 03128.557000 00000.001172 5 10000000000100"),
    (
        "3128557",
        CONTROL_MAX,
        "2049-10-13",
        BOLETO_CENTS_MAX,
        "00190.00009 03128.557992 99999.999172 7 99999999999999",
    ),
]
CARTEIRA_17_BARCODES = {
    ("3453481", 393): "00191169500003327000000003453481000000039317",
    ("3128557", 30000): "00194167700000123450000003128557000003000017",
    ("3128557", CONTROL_MAX): "00197999999999999990000003128557999999999917",
}

REFUSED_LINES = {
    "wrong general digit, accepted by lenient readers": "10491443385511900000200000000141325230000093423",
    "general digit altered": "00190000090114971860168524522114775860000102656",
    "wrong field digits": "12345123451234512121212345121212812345678901112",
    "check digit of field 1": "00190000080345348100800000393173116950000332700",
    "check digit of field 2": "00190000090345348100900000393173116950000332700",
    "check digit of field 3": "00190000090345348100800000393172116950000332700",
    "not in reais": "00180000000345348100800000393173816950000332700",
    "bill of a utility, 48 digits": "846100000005246100291102005460339004695895061080",
    "nothing": "",
    "a digit short": "0019000009011497186016852452211467586000010265",
    "as printed": "00190.00009 03453.481008 00000.393173 1 16950000332700",
    "blank at the end": "00190000090345348100800000393173116950000332700 ",
    "line feed at the end": "00190000090345348100800000393173116950000332700\n",
    "digits of another script": "\u0660\u0660" + "190000090345348100800000393173116950000332700",
    "a sign for a digit": "+0190000090345348100800000393173116950000332700",
    "zero as general digit": "00190000090345348100800000393173016950000332700",
}
REFUSED_BARCODES = {
    "general digit altered": "00192169500003327000000003453481000000039317",
    "zero as general digit": "00190169500003327000000003453481000000039317",
    "not in reais": "00188169500003327000000003453481000000039317",
    "nothing": "",
    "a digit short": "0019116950000332700000000345348100000003931",
    "a digit too many": "001911695000033270000000034534810000000393170",
    "line feed at the end": "00191169500003327000000003453481000000039317\n",
    "digits of another script": "\uff10\uff10191169500003327000000003453481000000039317",
}


def without_marks(printed: str) -> str:
    return printed.replace(".", "").replace(" ", "")


@pytest.mark.parametrize(("text", "code"), LINES_AND_BARCODES)
def test_boletos_of_every_bank_convert_from_line_to_barcode_and_back(text: str, code: str) -> None:
    assert barcode_of_line(text) == code
    assert line(code) == text


@pytest.mark.parametrize(("text", "code"), LINES_AND_BARCODES)
def test_computed_check_digits_equal_the_printed_ones_of_every_bank(text: str, code: str) -> None:
    assert general_check_digit(code[:4] + code[5:]) == int(code[4]) == int(text[32])
    for field in (text[:10], text[10:21], text[21:32]):
        assert field_check_digit(field[:-1]) == int(field[-1]) == int(luhn.calc_check_digit(field[:-1]))


@pytest.mark.parametrize(("text", "code", "due"), NEW_ROUND)
def test_barcodes_of_due_dates_since_2025_02_22_are_built_digit_by_digit(text: str, code: str, due: str) -> None:
    built = barcode(bank=code[:3], free_field=code[19:], due=date.fromisoformat(due), amount_cents=CENTS[code])
    assert built == code


@pytest.mark.parametrize(("convenio", "control", "due", "cents", "printed"), CARTEIRA_17)
def test_boletos_of_carteira_17_are_built_from_convenio_and_control_number(
    convenio: str, control: int, due: str, cents: int, printed: str
) -> None:
    field = free_field(convenio, control, "17")
    built = barcode(bank="001", free_field=field, due=date.fromisoformat(due), amount_cents=cents)
    assert printed_line(line(built)) == printed
    assert barcode_of_line(without_marks(printed)) == built
    assert built == CARTEIRA_17_BARCODES.get((convenio, control), built)
    assert built[19:] == f"000000{number_at_bank(convenio, control)[3:]}17"


def test_a_boleto_due_before_the_factor_began_again_is_parsed_but_never_built() -> None:
    printed = "00190.00009 03128.557000 00000.001172 1 99990000000100"
    field = free_field("3128557", 1, "17")
    assert barcode_of_line(without_marks(printed))[5:] == f"99990000000100{field}"
    with pytest.raises(ValueError, match="2025-02-21"):
        barcode(bank="001", free_field=field, due=date(2025, 2, 21), amount_cents=100)


def test_a_line_is_printed_in_five_groups() -> None:
    text = "34191090082233452123845678900007371950000010000"
    assert printed_line(text) == "34191.09008 22334.521238 45678.900007 3 71950000010000"


@pytest.mark.parametrize("text", REFUSED_LINES.values(), ids=REFUSED_LINES)
def test_an_invalid_line_is_neither_parsed_nor_printed(text: str) -> None:
    with pytest.raises(ValueError, match=r"digit|reais"):
        barcode_of_line(text)
    with pytest.raises(ValueError, match=r"digit|reais"):
        printed_line(text)


@pytest.mark.parametrize("code", REFUSED_BARCODES.values(), ids=REFUSED_BARCODES)
def test_an_invalid_barcode_is_refused(code: str) -> None:
    with pytest.raises(ValueError, match=r"digit|reais"):
        line(code)


@pytest.mark.parametrize(
    ("due", "factor"),
    [
        ("2025-02-22", 1000),
        ("2025-02-24", 1002),
        ("2026-06-30", 1493),
        ("2026-12-21", 1667),
        ("2027-01-18", 1695),
        ("2035-07-09", 4789),
        ("2049-10-13", 9999),
    ],
)
def test_the_factor_began_again_on_22_february_2025(due: str, factor: int) -> None:
    assert due_factor(date.fromisoformat(due)) == factor


@pytest.mark.parametrize("due", [date.min, FIRST_DUE - timedelta(1), LAST_DUE + timedelta(1), date.max])
def test_no_barcode_is_built_for_a_due_date_outside_the_factors_range(due: date) -> None:
    with pytest.raises(ValueError, match=str(due)):
        due_factor(due)
    with pytest.raises(ValueError, match=str(due)):
        barcode(bank="001", free_field=free_field("3128557", 1, "17"), due=due, amount_cents=100)


def test_a_nosso_numero_has_20_digits_at_the_bank_and_is_printed_with_a_check_digit() -> None:
    assert number_at_bank("3128557", 30000) == "00031285570000030000"
    assert number_at_bank("3128557", CONTROL_MAX) == "00031285579999999999"
    assert number_at_bank("3453481", 393) == "00034534810000000393"
    assert parse_number("00034534810000000393") == ("3453481", 393)
    assert printed_number("00034534810000000393") == "34534810000000393-4"  # as on the real boleto


def test_a_check_digit_of_ten_is_printed_x() -> None:
    tens = [control for control in range(1, 40) if printed_number(number_at_bank("3128557", control)).endswith("-X")]
    assert tens == [9, 12, 26]  # as in pyboleto 0.3.1
    assert printed_number("00031285570000000009") == "31285570000000009-X"


@pytest.mark.parametrize(
    "number",
    [
        "",
        "34534810000000393",
        "00034534810000000000",
        "00004534810000000393",
        "10034534810000000393",
        "0003453481000000039",
        "000345348100000003930",
        "00034534810000000393\n",
        "0003453481000000039\u0663",
    ],
)
def test_a_number_outside_our_convenios_format_is_refused(number: str) -> None:
    with pytest.raises(ValueError, match="nosso numero"):
        parse_number(number)
    with pytest.raises(ValueError, match="nosso numero"):
        printed_number(number)


@pytest.mark.parametrize(
    ("convenio", "control", "carteira"),
    [
        ("312855", 1, "17"),
        ("31285570", 1, "17"),
        ("0312855", 1, "17"),
        ("312855a", 1, "17"),
        ("3128557", 0, "17"),
        ("3128557", -1, "17"),
        ("3128557", CONTROL_MAX + 1, "17"),
        ("3128557", 1, "7"),
        ("3128557", 1, "017"),
    ],
)
def test_a_free_field_is_never_built_from_invalid_parts(convenio: str, control: int, carteira: str) -> None:
    with pytest.raises(AssertionError):
        free_field(convenio, control, carteira)


@pytest.mark.parametrize("cents", [-1, 0, BOLETO_CENTS_MAX + 1])
def test_no_barcode_is_built_for_an_amount_it_cannot_carry(cents: int) -> None:
    with pytest.raises(AssertionError):
        barcode(bank="001", free_field=free_field("3128557", 1, "17"), due=date(2026, 12, 31), amount_cents=cents)


@pytest.mark.parametrize(
    ("text", "length_max", "folded"),
    [
        ("João da Silva", 60, "JOAO DA SILVA"),
        ("  Conceição \t Araújo\nMüller  ", 60, "CONCEICAO ARAUJO MULLER"),
        ("Rua São João, 123 – Apto. 4/B", 60, "RUA SAO JOAO, 123 - APTO. 4/B"),
        ("Irmãos Sá & Cia. Ltda.", 60, "IRMAOS SA & CIA. LTDA."),
        ("Sant'Ana do Livramento (RS)", 60, "SANT ANA DO LIVRAMENTO RS"),
        ("Avenida Nº 3, 2ª quadra", 60, "AVENIDA NO 3, 2A QUADRA"),
        ("NF-e 1/7", 25, "NF-E 1/7"),
        ("Sociedade Beneficente", 10, "SOCIEDADE"),
        ("Sociedade Beneficente", 11, "SOCIEDADE B"),
        ("Straße", 60, "STRASSE"),
        ("Straße", 5, "STRAS"),
        ("Ma\u00adria da Pe\u200dnha", 60, "MARIA DA PENHA"),
        ("a\u0303b\u0301", 60, "AB"),
        ("１２３", 60, "123"),
        ("preço: R$ 10", 60, "PRECO R 10"),
        ("emoji 😀 here", 60, "EMOJI HERE"),
        ("nul\x00and\ud800half", 60, "NUL AND HALF"),
        ("株式会社", 60, ""),
        ("", 60, ""),
    ],
)
def test_text_is_folded_to_the_letters_the_bank_accepts(text: str, length_max: int, folded: str) -> None:
    assert fold_for_bank(text, length_max) == folded
