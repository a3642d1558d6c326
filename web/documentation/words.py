"""The labels and short texts of the documentation's pages, in both languages."""

from typing import Final

from markupsafe import Markup

from web.documentation.guides import Language

# fmt: off
WORDS: Final[dict[str, tuple[str, str]]] = {
    "documentation": ("documentation",     "documentação"),
    "whole_title":   ("Quita documentation", "Documentação da Quita"),
    "description":   ("PIX charges and boletos in Brazil by API: issue, get paid, receive webhooks, refund.",
                      "Cobranças por Pix e boleto pela API: emita, receba, seja avisado por webhook, devolva."),
    "skip":          ("Skip to the text",  "Ir para o texto"),
    "menu":          ("Menu",              "Menu"),
    "nav":           ("Documentation",     "Documentação"),
    "start":         ("Start",             "Começo"),
    "quick_start":   ("Quick start",       "Primeiros passos"),
    "guides":        ("Guides",            "Guias"),
    "reference":     ("Reference",         "Referência"),
    "api":           ("API reference",     "Referência da API"),
    "api_intro": (
        Markup('All paths are under <code>{base_url}</code>. Bodies are JSON in UTF-8, at most 256 KiB. Every answer '
               'carries <code>X-Request-Id</code>; every refusal has <a href="/docs/errors">one form</a>. Fields may '
               'be added at any time: ignore those you do not know. The same as a document for programs: '
               '<a href="/v1/openapi.json">OpenAPI 3.1</a>.'),
        Markup('Todos os caminhos ficam em <code>{base_url}</code>. Os corpos são JSON em UTF-8, de no máximo 256 KiB. '
               'Toda resposta traz <code>X-Request-Id</code>; toda recusa tem <a href="/docs/pt/errors">uma só '
               'forma</a>. Campos novos podem aparecer a qualquer momento: ignore os que você não conhece. O mesmo '
               'como documento para programas: OpenAPI 3.1 <a href="/docs/pt/openapi.json">em português</a> ou '
               '<a href="/v1/openapi.json">em inglês</a>.'),
    ),
    "api_token": (
        Markup('Send <code>Authorization: Bearer &lt;access token&gt;</code>, which '
               '<a href="/docs/api/authentication#issueToken">the token endpoint</a> gives. The credential decides '
               'the mode: there is no parameter for test or production.'),
        Markup('Envie <code>Authorization: Bearer &lt;token de acesso&gt;</code>, dado pelo '
               '<a href="/docs/pt/api/authentication#issueToken">endpoint de token</a>. A credencial decide o modo: '
               'não há parâmetro de teste ou produção.'),
    ),
    "link_to":       ("Link to {}",        "Link para {}"),
    "scope":         ("Scope",             "Escopo"),
    "or":            ("or",                "ou"),
    "example_of":    ("Example of {}",     "Exemplo: {}"),
    "answer_example": ("Example of the answer", "Exemplo da resposta"),
    "answer_of":     ("Answer of {}",      "Resposta: {}"),
    "path":          ("In the path",       "No caminho"),
    "query":         ("Query parameters",  "Parâmetros de consulta"),
    "header":        ("Headers",           "Cabeçalhos"),
    "body":          ("Body",              "Corpo"),
    "body_optional": ("It may be left out.", "Pode ficar de fora."),
    "answers":       ("Answers",           "Respostas"),
    "meaning":       ("Meaning",           "Significado"),
    "field":         ("Name",              "Nome"),
    "type":          ("Type",              "Tipo"),
    "what":          ("What it is",        "O que é"),
    "required":      ("required",          "obrigatório"),
    "array_of":      ("array of {}",       "lista de {}"),
    "or_null":       ("or null",           "ou null"),
    "matches":       ("matches {}",        "da forma {}"),
    "one_of":        ("One of",            "Um destes:"),
    "schemas_intro": ("What bodies and answers are made of. A field marked required is always there in an answer, and "
                      "must be there in a body.",
                      "Como são formados os corpos e as respostas. Um campo marcado como obrigatório está sempre na "
                      "resposta e tem de estar no corpo."),
    "message":       ("",                  "O que a API responde (em inglês)"),
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
    "all_errors":    ("All errors",        "Todos os erros"),
    "errors_form":   ("Every refusal has one form. Branch on error.code; error.message is for people and may change.",
                      "Toda recusa tem a mesma forma. Decida por error.code; error.message é para pessoas e pode "
                      "mudar."),
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
    "none_found":    ("Nothing found for “{q}”. Fewer words find more.",
                      "Nada encontrado para “{q}”. Menos palavras encontram mais."),
}
# fmt: on


def words_of(language: Language) -> dict[str, str]:
    return {name: both[language == "pt"] for name, both in WORDS.items()}
