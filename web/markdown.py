"""The texts of docs/ as HTML: CommonMark with tables. HTML in a text is shown as text.

A link to another text of docs/ is written as it works in the repository, `(webhooks.md#the-feed)`, and leads to that
text's page.
"""

import re
from collections import Counter
from html import escape
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

_GUIDE = re.compile(r"([a-z_]+)\.md(#.*)?")


class _Guides(MarkdownIt):
    def normalizeLink(self, url: str) -> str:
        found = _GUIDE.fullmatch(url)
        return f"/docs/{found[1].replace('_', '-')}{found[2] or ''}" if found else super().normalizeLink(url)


def html_of(text: str) -> str:
    return str(_MARKDOWN.render(text))


def headings(text: str, *, level: int) -> list[tuple[str, str]]:
    """Id and words of each heading of that level."""
    pairs = pairwise(_MARKDOWN.parse(text))
    return [(str(each.attrs["id"]), _words(inline)) for each, inline in pairs if each.tag == f"h{level}" and each.attrs]


def _words(inline: Token) -> str:
    return "".join(each.content for each in inline.children or () if each.type != "html_inline")


def _name_headings(state: StateCore) -> None:
    """Ids as links name them: lowercase words joined by hyphens, numbered when they come again."""
    seen: Counter[str] = Counter()
    for opening, inline in pairwise(state.tokens):
        if opening.type != "heading_open":
            continue
        name = "-".join(re.findall(r"[a-z0-9]+", inline.content.lower())) or "section"
        seen[name] += 1
        name = f"{name}-{seen[name] - 1}" if seen[name] > 1 else name
        opening.attrSet("id", name)
        if opening.tag != "h1" and inline.children is not None:
            label = escape(_words(inline))
            link = f'\u00a0<a class="anchor" href="#{name}" aria-label="Link to “{label}”">#</a>'
            inline.children.append(Token("html_inline", "", 0, content=link))


def _shape_tables(state: StateCore) -> None:
    """An empty head is a cell, the others have a scope. Lines may end within the `code` of all columns but the first:
    after _, /, @ and ?."""
    column = 0
    for cell, inline, closing in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        if cell.type == "tr_open":
            column = 0
        elif cell.type == "th_open":
            if inline.content:
                cell.attrSet("scope", "col")
            else:
                cell.tag = closing.tag = "td"
        elif cell.type == "td_open":
            column += 1
            for code in inline.children or ():
                if code.type == "code_inline" and column > 1:
                    breakable = re.sub(r"(?<!/)[_/@?](?=\w)", r"\g<0><wbr>", escape(code.content))
                    code.type, code.content = "html_inline", f"<code>{breakable}</code>"


_MARKDOWN = _Guides("commonmark", {"html": False}).enable("table")
_MARKDOWN.core.ruler.push("name_headings", _name_headings)
_MARKDOWN.core.ruler.push("shape_tables", _shape_tables)
# A table scrolls by itself on a narrow screen, and so does code; both by keyboard too.
_MARKDOWN.add_render_rule("table_open", lambda *_: '<div class="table" tabindex="0"><table>')
_MARKDOWN.add_render_rule("table_close", lambda *_: "</table></div>")
_MARKDOWN.add_render_rule(
    "fence",
    lambda _, tokens, at, *__: f'<pre tabindex="0"><code>{escape(tokens[at].content.rstrip(chr(10)))}</code></pre>\n',
)
