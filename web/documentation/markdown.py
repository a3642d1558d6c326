"""The texts of docs/ as HTML: CommonMark with tables. HTML in a text is shown as text.

A link to another text of docs/ is written as it works in the repository, `(webhooks.md#the-feed)`, and becomes a link
to that text's page in the same language. Consecutive fences whose info ends with `tab` are one example in several
programming languages: radio buttons select the visible one, without scripts.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any, Final, cast

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from web.documentation.guides import ROOTS
from web.documentation.words import WORDS

_GUIDE_LINK = re.compile(r"([a-z_]+)\.md(#.*)?")


# The tab names of an example in several programming languages, by the fence's language.
_TAB_NAMES: Final = {"sh": "curl", "python": "Python", "javascript": "Node.js", "php": "PHP"}


class _GuideParser(MarkdownIt):
    root = "/docs"
    anchor_label = ""
    """What screen readers say of the link beside a heading; {} is the heading."""

    def normalizeLink(self, url: str) -> str:
        link = _GUIDE_LINK.fullmatch(url)
        return f"{self.root}/{link[1].replace('_', '-')}{link[2] or ''}" if link else super().normalizeLink(url)


def html_of(text: str, root: str = "/docs") -> str:
    """A text as HTML. `root` begins the addresses of the texts in this language."""
    return str(_parser(root).render(text))


def tabs(group: str, samples: Sequence[tuple[str, str]], what: str) -> str:
    """One example in several programming languages as HTML. `group` must be unique within the page; `what` names the
    example for screen readers."""
    buttons, blocks = [], []
    for number, (language, text) in enumerate(samples):
        name = f"{group}-{number}"
        checked = "" if number else " checked"
        buttons.append(
            f'<input type="radio" name="{group}" id="{name}" data-language="{language}"{checked}>'
            f'<label for="{name}">{language}</label>'
        )
        blocks.append(f'<pre tabindex="0" aria-label="{escape(what)}: {language}"><code>{escape(text)}</code></pre>')
    return f'<div class="tabs" role="group" aria-label="{escape(what)}">{"".join(buttons)}{"".join(blocks)}</div>\n'


def headings(text: str) -> list[tuple[str, str]]:
    """The id and text of each heading of the second level."""
    pairs = pairwise(_parser("/docs").parse(text))
    return [(str(each.attrs["id"]), _plain_text(inline)) for each, inline in pairs if each.tag == "h2" and each.attrs]


def _plain_text(inline: Token) -> str:
    return "".join(each.content for each in inline.children or () if each.type != "html_inline")


def _name_headings(state: StateCore) -> None:
    """Give headings the ids that links use: lowercase words joined by hyphens, numbered when an id is repeated."""
    seen: Counter[str] = Counter()
    for opening, inline in pairwise(state.tokens):
        if opening.type != "heading_open":
            continue
        plain = unicodedata.normalize("NFKD", inline.content).encode("ascii", "ignore").decode()
        name = "-".join(re.findall(r"[a-z0-9]+", plain.lower())) or "section"
        seen[name] += 1
        name = f"{name}-{seen[name] - 1}" if seen[name] > 1 else name
        opening.attrSet("id", name)
        if opening.tag != "h1" and inline.children is not None:
            label = escape(cast(_GuideParser, state.md).anchor_label.format(_plain_text(inline)))
            link = f'\u00a0<a class="anchor" href="#{name}" aria-label="{label}">#</a>'
            inline.children.append(Token("html_inline", "", 0, content=link))


def _shape_tables(state: StateCore) -> None:
    """Make an empty header a plain cell, and give other headers a scope. In all columns but the first, lines may break
    within `code` after _, /, @ and ?."""
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


def _group_tabs(state: StateCore) -> None:
    """Merge consecutive fences marked `tab` into one token."""
    grouped: list[Token] = []
    groups = 0
    for token in state.tokens:
        words = token.info.split()
        if token.type != "fence" or words[-1:] != ["tab"]:
            grouped.append(token)
            continue
        if not grouped or grouped[-1].type != "tabs":
            groups += 1
            grouped.append(Token("tabs", "", 0, meta={"group": f"example-{groups}", "samples": []}))
        grouped[-1].meta["samples"].append((_TAB_NAMES[words[0]], token.content.rstrip("\n")))
    state.tokens = grouped


def _render_tabs(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:
    meta: Mapping[str, Any] = tokens[at].meta
    return tabs(meta["group"], meta["samples"], meta["group"].replace("-", " "))


_PARSERS: MutableMapping[str, _GuideParser] = {}


def _parser(root: str) -> _GuideParser:
    """The parser whose links to other texts begin with `root`; there is one for each language."""
    if root not in _PARSERS:
        parser = _GuideParser("commonmark", {"html": False})
        parser.enable("table")
        parser.root = root
        parser.anchor_label = WORDS["link_to"][root == ROOTS["pt"]]
        for name, rule in (("name_headings", _name_headings), ("shape_tables", _shape_tables), ("tabs", _group_tabs)):
            parser.core.ruler.push(name, rule)
        # On a narrow screen tables and code scroll by themselves; the tabindex lets the keyboard scroll them too.
        parser.add_render_rule("table_open", lambda *_: '<div class="table" tabindex="0"><table>')
        parser.add_render_rule("table_close", lambda *_: "</table></div>")
        parser.add_render_rule("fence", _render_fence)
        parser.add_render_rule("tabs", _render_tabs)
        _PARSERS[root] = parser
    return _PARSERS[root]


def _render_fence(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:
    return f'<pre tabindex="0"><code>{escape(tokens[at].content.rstrip(chr(10)))}</code></pre>\n'
