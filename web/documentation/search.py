"""The documentation's search: every page and section with its words, in one list. The server filters the list by the
query of the address, and a small script filters it while the reader types; both fold and match alike.

Entries can be found by words of either language, because code and errors are in English and their readers may not speak
English.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct, structs

from domain.errors import Code
from web.documentation.guides import GUIDES, ROOTS, START, Language
from web.documentation.markdown import headings
from web.documentation.portuguese import say
from web.documentation.reference import Reference
from web.documentation.remedies import REMEDIES
from web.documentation.remedies_pt import REMEDIES_PT

_WORDS_MAX: Final = 1_500
"""Characters of a section that can be searched."""
ASKED_MAX: Final = 100
"""Characters of a query."""
# Equivalent words, folded: an entry with one word of a row is found by the row's other words too. Ordinals, because 2ª
# folds to 2a; and what merchants call by another name than the documentation does.
_EQUIVALENTS: Final = (
    ("1a", "primeira"), ("1o", "primeiro"), ("2a", "segunda"), ("2o", "segundo"), ("3a", "terceira"),
    ("3o", "terceiro"), ("4a", "quarta"), ("4o", "quarto"), ("5a", "quinta"), ("5o", "quinto"),
    ("devolucao", "devolucoes", "devolver", "estorno", "estornos", "estornar", "reembolso", "reembolsos", "reembolsar"),
    ("tarifa", "tarifas", "taxa", "taxas"),
    ("saque", "saques", "transferencia", "transferencias", "repasse", "repasses"),
    ("programada", "programadas", "recorrente", "recorrentes", "recorrencia", "mensalidade", "mensalidades",
     "assinatura", "assinaturas", "parcelas", "parcelamento", "carne"),
    ("desconto", "descontos", "abatimento"),
    ("comprovante", "comprovantes", "recibo", "recibos"),
    ("conciliacao", "cnab", "remessa", "retorno"),
    ("vencimento", "prorrogar", "prorrogacao"),
    ("expira", "expirada", "expirar", "expiracao", "validade"),
    ("sandbox", "homologacao", "homologation"),
    ("webhook", "webhooks", "callback", "callbacks", "notificacao", "notificacoes", "notification", "notifications"),
    ("tentativa", "tentativas", "reenviar", "reenvio"),
    ("assinatura", "assinar"), ("simulado", "simulada", "simular"),
    ("conferir", "confere", "verificar"),
    ("idempotencia", "idempotency", "duplicada", "duplicado", "duplicidade", "duplicate", "duplicates"),
    ("cursor", "paginacao", "pagination", "paging"),
    ("png", "imagem", "image"),
    ("withdrawal", "withdrawals", "payout", "payouts"),
    ("schedule", "schedules", "scheduled", "recurring", "subscription", "subscriptions", "installments"),
    ("reconciliation", "cnab"),
    ("payer", "payers", "customer", "customers"),
    ("due", "postpone", "extend"),
    ("expires", "expired", "expiry", "expiration"),
    ("fine", "penalty"),
    ("med", "chargeback", "chargebacks", "dispute", "disputes", "contestacao"),
    ("retry", "retries", "resend"),
)  # fmt: skip


class SearchEntry(Struct, frozen=True):
    """A page or section in the search. `within` is the title of its page; `words`, in lower case, are searched beside
    both titles; `same` are equivalents of words in the titles."""

    path: str
    title: str
    within: str
    words: str
    same: str = ""


class Listed(Struct, frozen=True):
    """An entry in the result of a query. `at` is its place in the whole list."""

    entry: SearchEntry
    at: int
    found: bool


class Index:
    """The entries of one language, folded once."""

    def __init__(self, all_entries: Sequence[SearchEntry]) -> None:
        self.entries = all_entries
        titles = [folded(f"{each.title} {each.within} {each.same}") for each in all_entries]
        self._folded = [
            (title, f"{title} {folded(each.words)}") for title, each in zip(titles, all_entries, strict=True)
        ]

    def listed(self, query: str) -> list[Listed]:
        """Every entry: first those with all words of the query in a title, then those with all words, then others."""
        query_words = folded(query).split()
        ranked = [(_rank(query_words, *both), place) for place, both in enumerate(self._folded)]
        ranked.sort(key=lambda each: (-each[0], each[1]))
        return [Listed(self.entries[place], place, rank > 0) for rank, place in ranked]


def folded(text: str) -> str:
    """The text in lower case, without accents, with ª and º as letters, because "2ª via" is also typed "2a via"."""
    return "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each)).lower()


def entries(read: Callable[[Language], Reference | None], language: Language, start: str) -> list[SearchEntry]:
    """The entries of the pages in `language`. `read` returns the reference, None in a process without one."""
    all_entries = [*_guide_entries(language, start), *_reference_entries(read, language), *_error_entries(language)]
    return [
        structs.replace(
            each,
            words=f"{each.words}{_equivalents(each.words)}",
            same=_equivalents(f"{each.title} {each.within}").strip(),
        )
        for each in all_entries
    ]


def _rank(query_words: Sequence[str], title: str, words: str) -> int:
    if not all(each in words for each in query_words):
        return 0
    return 2 if all(each in title for each in query_words) else 1


def _equivalents(text: str) -> str:
    present = set(re.findall(r"\w+", folded(text)))
    return "".join(
        f" {each}" for row in _EQUIVALENTS if present.intersection(row) for each in row if each not in present
    )


def _other_language(language: Language) -> Language:
    return "en" if language == "pt" else "pt"


def _guide_entries(language: Language, start: str) -> Iterator[SearchEntry]:
    for guide in GUIDES[language].values():
        path = start if guide.name == START else f"{ROOTS[language]}/{guide.name}"
        other = GUIDES[_other_language(language)][guide.name]
        # Code is removed before splitting at headings: a shell's line that begins with ## is no heading.
        prose = re.sub(r"^```.*?^```$", "", guide.text, flags=re.M | re.S)
        first, *parts = re.split(r"^## .*$", prose, flags=re.M)
        yield SearchEntry(path, guide.title, "", _searchable(f"{other.title} {first}"))
        of_both = zip(headings(guide.text), headings(other.text), parts, strict=True)
        for (name, title), (_, other_title), words in of_both:
            yield SearchEntry(f"{path}#{name}", title, guide.title, _searchable(f"{other_title} {words}"))


def _reference_entries(read: Callable[[Language], Reference | None], language: Language) -> Iterator[SearchEntry]:
    reference, other = read(language), read(_other_language(language))
    if reference is None or other is None:
        return
    root = ROOTS[language]
    for tag, (title, operations) in reference.tags.items():
        for each, other_operation in zip(operations, other.tags[tag][1], strict=True):
            words = " ".join(
                [each.path, each.notes, other_operation.summary, *(field.name for field in each.body_fields)]
            )
            yield SearchEntry(
                f"{root}/api/{tag}#{each.id}",
                f"{each.method} {each.path}",
                title,
                _searchable(f"{each.summary} {words}"),
            )
    for event, other_event in zip(reference.events, other.events, strict=True):
        words = _searchable(f"{event.when} {other_event.when}")
        yield SearchEntry(f"{root}/events#{event.kind}", event.kind, "Webhooks", words)


def _error_entries(language: Language) -> Iterator[SearchEntry]:
    for code in Code:
        words = _searchable(f"{code.status} {code.message} {say(code.message)} {REMEDIES[code]} {REMEDIES_PT[code]}")
        yield SearchEntry(f"{ROOTS[language]}/errors/{code.name}", code.name, str(code.status), words)


def _searchable(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"[`*|#\[\]]", " ", text)).strip().lower()[:_WORDS_MAX]
