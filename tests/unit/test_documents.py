"""CPF and CNPJ: shape, check digits and mask, compared with python-stdnum and with the examples of four libraries."""

import random

import pytest
from stdnum.br import cnpj, cpf

from domain.documents import check_digits_hold, masked, well_formed

CPFS = ["39053344705", "12345678909", "52998224725"]
CNPJS = ["11444777000161", "00000000000191", "16727230000197", "33000167000101", "12345678000195"]
CNPJS_WITH_LETTERS = ["12ABC34501DE35", "Q0SLFMBD7VX439"]
WRONG_CHECK_DIGITS = ["12345678900", "12ABC34501DE36", "11444777000162"]
MISSHAPEN = [
    *(
        "",
        "1234567890",
        "123456789012",
        "1144477700016",
        "114447770001611",
        "390.533.447-05",
        "11.444.777/0001-61",
    ),
    *(" 39053344705", "39053344705 ", "39053344705\n", "3905334470a", "12abc34501de35", "12ABC34501DEA5"),
    *("3905334470\u0665", "\uff13" * 11, "1144477700016\u00b9", "12\u00c1BC34501DE3"),
]


@pytest.mark.parametrize("document", CPFS + CNPJS)
def test_issued_cpfs_and_cnpjs_are_accepted(document: str) -> None:
    assert well_formed(document, letters=False)
    assert well_formed(document, letters=True)
    assert check_digits_hold(document)


@pytest.mark.parametrize("document", CNPJS_WITH_LETTERS)
def test_a_cnpj_with_letters_is_well_formed_only_where_letters_are_allowed(document: str) -> None:
    assert well_formed(document, letters=True)
    assert not well_formed(document, letters=False)
    assert check_digits_hold(document)


@pytest.mark.parametrize("document", WRONG_CHECK_DIGITS)
def test_wrong_check_digits_are_refused_though_the_shape_is_right(document: str) -> None:
    assert well_formed(document, letters=True)
    assert not check_digits_hold(document)


@pytest.mark.parametrize("length", [11, 14])
@pytest.mark.parametrize("digit", "0123456789")
def test_a_document_of_one_repeated_digit_is_refused(digit: str, length: int) -> None:
    assert not check_digits_hold(digit * length)


@pytest.mark.parametrize("document", MISSHAPEN)
def test_text_of_another_shape_has_neither_the_form_nor_valid_check_digits(document: str) -> None:
    assert not well_formed(document, letters=False)
    assert not well_formed(document, letters=True)
    assert not check_digits_hold(document)


def test_python_stdnum_accepts_the_same_check_digits() -> None:
    rnd = random.Random(39053344705)
    for _ in range(20):
        bases = [
            ("".join(rnd.choices("0123456789", k=9)), cpf.is_valid),
            ("".join(rnd.choices("0123456789", k=12)), cnpj.is_valid),
            ("".join(rnd.choices("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=12)), cnpj.is_valid),
        ]
        for base, judge in bases:
            accepted = [pair for pair in range(100) if check_digits_hold(f"{base}{pair:02}")]
            assert accepted == [pair for pair in range(100) if judge(f"{base}{pair:02}")]
            assert len(accepted) == 1


def test_a_mask_hides_the_digits_that_identify_a_person() -> None:
    assert masked("12345678909") == "***.456.789-**"
    assert masked("12345678000195") == "12.***.***/0001-**"
    assert masked("12ABC34501DE35") == "12.***.***/01DE-**"


def test_a_malformed_document_is_not_masked() -> None:
    with pytest.raises(AssertionError):
        masked("123")
