"""Documents of people and companies: CPF (11 digits) and CNPJ (14), bare, without dots, bars or dashes."""

import re

from stdnum.br import cnpj, cpf

_PUNCTUATION = re.compile(r"[.\-/ ]")
_DIGITS = re.compile(r"[0-9]{11}|[0-9]{14}")
# Only the twelve characters of the base may be letters; the check digits stay digits (IN RFB 2.229/2024).
_DIGITS_OR_LETTERS = re.compile(r"[0-9]{11}|[0-9A-Z]{12}[0-9]{2}")


def without_marks(number: str) -> str:
    """Returns a number as it is stored: without dots, dashes, bars and blanks, as people write 123.456.789-09."""
    return _PUNCTUATION.sub("", number)


def well_formed(document: str, *, letters: bool) -> bool:
    """Whether the text has the shape of a CPF or CNPJ; `letters` also accepts the CNPJ with letters of July 2026.

    Only the shape is checked, which is all that the sandbox requires. Lower case, masks, blanks and digits of other
    scripts are refused.
    """
    return (_DIGITS_OR_LETTERS if letters else _DIGITS).fullmatch(document) is not None


def check_digits_hold(document: str) -> bool:
    """Whether the check digits are right, which production requires on top of `well_formed`.

    False for a text of another shape. Also False for one repeated digit: 111.111.111-11 passes the arithmetic of the
    Receita Federal, but the Receita never issues such numbers.
    """
    if not well_formed(document, letters=True) or document == document[0] * len(document):
        return False
    # well_formed comes first: stdnum accepts masks, lower case and digits of other scripts, which we refuse.
    return cpf.is_valid(document) if len(document) == 11 else cnpj.is_valid(document)


def masked(document: str) -> str:
    """Returns the document masked for readers other than its owner.

    CPF 12345678909 -> "***.456.789-**", the form that the payer's own bank shows on PIX receipts.
    CNPJ 12345678000195 -> "12.***.***/0001-**": the branch stays visible, because it distinguishes two receipts.
    """
    assert well_formed(document, letters=True), "only a document that was checked on its way in is masked"
    if len(document) == 11:
        return f"***.{document[3:6]}.{document[6:9]}-**"
    return f"{document[:2]}.***.***/{document[8:12]}-**"
