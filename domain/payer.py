"""Rules for payers' data: the required form, texts that are mailed to payers, and masking."""

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
# Narrower than banks' own rules, because mail is sent to this address.
_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,64}"
_LABEL: Final = "[A-Za-z0-9-]{1,63}"
PAYER_ADDRESS: Final = rf"{_ATOM}(\.{_ATOM})*@{_LABEL}(\.{_LABEL})*"
"""An address that a message can be addressed to (RFC 5322, dot-atom)."""
MAIL_ADDRESS: Final = rf"{_ATOM}(\.{_ATOM})*@{_LABEL}(\.{_LABEL})+"
"""An address that can be reached: no mail server has a domain of one label."""
_MAIL_ADDRESS = re.compile(MAIL_ADDRESS)
# Text that mail programs turn into a link: a URL with its scheme, and a word with a dot before two letters.
_LINK = re.compile(r"://|\bwww\.|[^\W_]\.[^\W\d_]{2,}", re.IGNORECASE)


def folded(text: str) -> str:
    """Returns the text without accents and capitals, so that "joao" finds "João"."""
    return "".join(each for each in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(each))


def is_mail_address(text: str) -> bool:
    return len(text) <= EMAIL_MAX and _MAIL_ADDRESS.fullmatch(text) is not None


def without_link(text: str) -> None:
    """Raises ValueError for a text that holds a link, because the text is mailed in the platform's name."""
    if holds_link(text):
        raise ValueError


def holds_link(text: str) -> bool:
    """Whether a mail program would turn part of the text into a link. True also for "fim.Obrigado", which lacks the
    blank after the full stop."""
    return _LINK.search(text) is not None


class PayerView(Struct, frozen=True):
    """The way in which a reader sees a payer's data, whole or masked; the document is masked for every reader
    (domain/documents.py)."""

    whole: bool

    def name(self, text: str | None) -> str | None:
        """ "Maria da Silva" -> "M*** d*** S***": enough to tell two payers on a page apart."""
        return text if self.whole or not text else " ".join(f"{word[0]}***" for word in text.split())

    def email(self, text: str | None) -> str | None:
        """ "maria@loja.example" -> "m***@***": the domain is masked too, because a private domain names its holder."""
        return text if self.whole or not text else f"{text[0]}***@***"

    def phone(self, text: str | None) -> str | None:
        """ "+5511987654321" -> "***21"."""
        return text if self.whole or not text else f"***{text[-2:]}"


WHOLE: Final = PayerView(whole=True)
MASKED: Final = PayerView(whole=False)
