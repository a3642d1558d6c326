"""The words around the documentation's texts, in both languages."""

from typing import Final

from domain.events import EventKind
from web.documentation.guides import Language

# fmt: off
WORDS: Final[dict[str, tuple[str, str]]] = {
    "documentation": ("documentation",     "documentação"),
    "whole_title":   ("Quita documentation", "Documentação da Quita"),
    "description":   ("PIX charges and boletos in Brazil by API: issue, be paid, be told by webhook, refund.",
                      "Cobranças por Pix e boleto pela API: emita, receba, seja avisado por webhook, devolva."),
    "skip":          ("Skip to the text",  "Ir para o texto"),
    "menu":          ("Menu",              "Menu"),
    "nav":           ("Documentation",     "Documentação"),
    "start":         ("Start",             "Começo"),
    "quick_start":   ("Quick start",       "Primeiros passos"),
    "guides":        ("Guides",            "Guias"),
    "reference":     ("Reference",         "Referência"),
    "in_english":    ("",                  " (em inglês)"),
    "all_operations": ("All operations",   "Todas as operações"),
    "schemas":       ("Schemas",           "Esquemas"),
    "events":        ("Events",            "Eventos"),
    "errors":        ("Errors",            "Erros"),
    "document":      ("OpenAPI document",  "Documento OpenAPI"),
    "search":        ("Search",            "Buscar"),
    "here":          ("On this page",      "Nesta página"),
    "other":         ("Português",         "English"),
    "copy":          ("Copy",              "Copiar"),
    "copied":        ("Copied",            "Copiado"),
    "selected":      ("Selected",          "Selecionado"),
    "language":      ("Language of the example", "Linguagem do exemplo"),
    "all_errors":    ("All errors",        "Todos os erros"),
    "errors_form":   ("Every refusal has one form. Branch on error.code; error.message is for people and may change.",
                      "Toda recusa tem uma forma. Decida por error.code; error.message é para pessoas e pode mudar."),
    "errors_token":  ("The token endpoint alone answers as RFC 6749, section 5.2 says.",
                      "Só o endpoint de token responde como diz a RFC 6749, seção 5.2."),
    "code":          ("Code",              "Código"),
    "repeat":        ("Repeat?",           "Repetir?"),
    "repeat_long":   ("Repeat the request?", "Repetir a requisição?"),
    "repeat_yes":    ("Yes: the same request may succeed later.", "Sim: a mesma requisição pode dar certo depois."),
    "repeat_no":     ("No: the same request will be refused again.", "Não: a mesma requisição será recusada de novo."),
    "yes":           ("yes, later",        "sim, depois"),
    "no":            ("no",                "não"),
    "status":        ("HTTP status",       "Status HTTP"),
    "remedy":        ("What to do",        "O que fazer"),
    "given_by":      ("Who answers it",    "Quem responde assim"),
    "events_intro":  ("Each kind of event, when it happens, and its body: the same bytes in the webhook and, with "
                      "type, sequence and created_at, in the feed. Fields may be added. An endpoint receives the kinds "
                      "marked “always”, the others when they are chosen for it in the dashboard; the feed has all.",
                      "Cada tipo de evento, quando acontece e o seu corpo: os mesmos bytes no webhook e, com type, "
                      "sequence e created_at, no feed. Campos novos podem aparecer. Um endereço recebe os tipos "
                      "marcados “sempre”, e os outros quando são escolhidos para ele no painel; o feed tem todos."),
    "kind":          ("Kind",              "Tipo"),
    "when":          ("When",              "Quando"),
    "received":      ("Received",          "Recebido"),
    "always":        ("always",            "sempre"),
    "chosen":        ("when chosen",       "se escolhido"),
    "fields_of":     ("Fields and their meaning", "Campos e significado"),
    "search_intro":  ("Every page and section. Type to find what holds all your words.",
                      "Todas as páginas e seções. Digite para achar o que tem todas as suas palavras."),
    "search_field":  ("What are you looking for?", "O que você procura?"),
    "found":         ("{n} found",         "{n} encontrados"),
}
EVENTS_PT: Final[dict[EventKind, str]] = {
    EventKind.PAYMENT_RECEIVED:        "Uma cobrança foi paga.",
    EventKind.CHARGE_CANCELLED:        "Uma cobrança foi cancelada: não pode mais ser paga.",
    EventKind.CHARGE_EXPIRED:          "O prazo de uma cobrança acabou antes de ela ser paga.",
    EventKind.CHARGE_DUE_DATE_CHANGED: "O vencimento de um boleto mudou.",
    EventKind.CHARGE_FAILED:           "Uma cobrança não pôde ser emitida, de vez.",
    EventKind.CHARGE_REFUNDED:         "Uma cobrança foi devolvida por inteiro.",
    EventKind.REFUND_SUCCEEDED:        "Uma devolução, do pagamento inteiro ou de parte, chegou ao pagador.",
    EventKind.REFUND_FAILED:           "Uma devolução falhou: o dinheiro está de volta ao saldo.",
    EventKind.PAYMENT_ANOMALY: (
        "Chegou dinheiro que não bate com a cobrança: em dobro, depois do fim, ou outro valor."
    ),
    EventKind.WITHDRAWAL_SUCCEEDED:    "Um saque chegou à chave Pix da conta.",
    EventKind.WITHDRAWAL_FAILED:       "Um saque falhou: o dinheiro está de volta ao saldo.",
}
# fmt: on


def words_of(language: Language) -> dict[str, str]:
    return {name: both[language == "pt"] for name, both in WORDS.items()}
