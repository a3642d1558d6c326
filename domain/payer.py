"""What is required of a payer's data, of what is written to payers, and what of it is masked."""

import re
import unicodedata
from typing import Final

from msgspec import Struct

# fmt: off
STATES: Final = frozenset((
    "AC", "AL", "AP", "AM", "BA", "CE", "DF", "ES", "GO", "MA", "MT", "MS", "MG", "PA", "PB", "PR", "PE", "PI", "RJ",
    "RN", "RS", "RO", "RR", "SC", "SP", "SE", "TO",
))
# fmt: on
NAME_MAX: Final = 200
NUMBER_MAX: Final = 20
PHONE_MAX: Final = 32
EMAIL_MAX: Final = 254
# Narrower than what a bank accepts: mail is sent to this address.
_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,64}"
_LABEL: Final = "[A-Za-z0-9-]{1,63}"
PAYER_ADDRESS: Final = rf"{_ATOM}(\.{_ATOM})*@{_LABEL}(\.{_LABEL})*"
"""What a message can be written to (RFC 5322, dot-atom)."""
MAIL_ADDRESS: Final = rf"{_ATOM}(\.{_ATOM})*@{_LABEL}(\.{_LABEL})+"
"""What can be reached: a domain of one label is no mail server's."""
_MAIL_ADDRESS = re.compile(MAIL_ADDRESS)
# What mail programs make a link of by themselves: an address with its scheme, and a word with a dot before two letters.
_LINK = re.compile(r"://|\bwww\.|[^\W_]\.[^\W\d_]{2,}", re.IGNORECASE)


def folded(text: str) -> str:
    """Without accents and capitals: "João" is found by "joao"."""
    return "".join(each for each in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(each))


def is_mail_address(text: str) -> bool:
    return len(text) <= EMAIL_MAX and _MAIL_ADDRESS.fullmatch(text) is not None


def without_link(text: str) -> None:
    """Raises ValueError for a text that holds one: it is mailed in the platform's name."""
    if holds_link(text):
        raise ValueError


def holds_link(text: str) -> bool:
    """Whether a mail program would make a link of some of it. Also "fim.Obrigado": a blank goes after a full stop."""
    return _LINK.search(text) is not None


class PayerView(Struct, frozen=True):
    """A payer's data as one reader sees them; the document is masked for everybody (domain/documents.py)."""

    whole: bool

    def name(self, text: str | None) -> str | None:
        """ "Maria da Silva" -> "M*** d*** S***": enough to tell two payers of a page apart."""
        return text if self.whole or not text else " ".join(f"{word[0]}***" for word in text.split())

    def email(self, text: str | None) -> str | None:
        """ "maria@loja.example" -> "m***@***": a domain of one's own names its holder."""
        return text if self.whole or not text else f"{text[0]}***@***"

    def phone(self, text: str | None) -> str | None:
        """ "+5511987654321" -> "***21"."""
        return text if self.whole or not text else f"***{text[-2:]}"


WHOLE: Final = PayerView(whole=True)
MASKED: Final = PayerView(whole=False)
