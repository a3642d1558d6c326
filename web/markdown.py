"""The part of Markdown that docs/ is written in, as HTML: headings, paragraphs, lists, tables, fences, `code`,
**bold**, *stress* and [links](address). Whatever else stands in a text is shown as it stands: nothing of it becomes
HTML.

A link to another text of docs/ is written as it works in the repository, `(webhooks.md#the-feed)`, and leads to that
text's page.
"""

import re
from html import escape

_INLINE = re.compile(
    r"`(?P<code>[^`]+)`|\*\*(?P<bold>[^*]+)\*\*|\*(?P<stress>[^*\s][^*]*)\*|"
    r"\[(?P<text>[^\]]+)\]\((?:(?P<to>[#/][^)\s]*|https?://[^)\s]*)|(?P<file>[a-z_]+)\.md(?P<part>#[a-z0-9-]+)?)\)"
)
_HEADING = re.compile(r"(#{1,3}) (.+)")
_ITEM = re.compile(r"(?:(-)|[0-9]+\.) (.+)")
_MORE_OF_ITEM = re.compile(r" {2,}\S.*")
_FENCE = "```"
_OPENING = re.compile(r"```[\w-]*")
_BEGINS = re.compile(r"#{1,3} |- |[0-9]+\. |\||```")
"""How a line begins that is no part of the paragraph before it."""


def html_of(text: str) -> str:
    """Every block of `text`. A fence that is never closed reaches to the end."""
    made: list[str] = []
    names = _Names()
    lines = text.splitlines()
    while lines:
        line = lines.pop(0)
        if _OPENING.fullmatch(line):
            end = lines.index(_FENCE) if _FENCE in lines else len(lines)
            code = escape("\n".join(lines[:end]))
            made.append(f'<pre tabindex="0"><code>{code}</code></pre>')
            del lines[: end + 1]
        elif heading := _HEADING.fullmatch(line):
            made.append(_heading(len(heading[1]), heading[2], names))
        elif line.startswith("|"):
            made.append(_table([line, *_while(lines, re.compile(r"\|.*"))]))
        elif item := _ITEM.fullmatch(line):
            kind = "ul" if item[1] else "ol"
            items = _items(line, lines)
            made.append(f"<{kind}>{''.join(f'<li>{_inline(each)}</li>' for each in items)}</{kind}>")
        elif line:
            rest = []
            while lines and lines[0] and not _BEGINS.match(lines[0]):
                rest.append(lines.pop(0))
            made.append(f"<p>{_inline(' '.join([line, *rest]))}</p>")
    return "\n".join(made)


def headings(text: str, *, level: int) -> list[tuple[str, str]]:
    """Name and words of each heading of that level."""
    found: list[tuple[str, str]] = []
    names = _Names()
    fenced = False
    for line in text.splitlines():
        if line.startswith(_FENCE):
            fenced = not fenced
        elif not fenced and (heading := _HEADING.fullmatch(line)):
            name = names.of(heading[2])
            if len(heading[1]) == level:
                found.append((name, re.sub(r"[`*]", "", heading[2])))
    return found


class _Names:
    """How links name the headings of a page: lowercase words joined by hyphens, numbered when they come again."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def of(self, heading: str) -> str:
        name = "-".join(re.findall(r"[a-z0-9]+", heading.lower())) or "section"
        again = self._seen[name] = self._seen.get(name, -1) + 1
        return f"{name}-{again}" if again else name


def _heading(level: int, words: str, names: _Names) -> str:
    name = names.of(words)
    if level == 1:
        return f'<h1 id="{name}">{_inline(words)}</h1>'
    link = f'<a class="anchor" href="#{name}" aria-label="Link to “{escape(words)}”">#</a>'
    return f'<h{level} id="{name}">{_inline(words)}\u00a0{link}</h{level}>'


def _items(line: str, lines: list[str]) -> list[str]:
    """The words of the items of a list that begins with `line`; taken off the front of `lines`."""
    items: list[str] = []
    while True:
        found = _ITEM.fullmatch(line)
        assert found is not None
        items.append(" ".join([found[2], *(each.strip() for each in _while(lines, _MORE_OF_ITEM))]))
        if not lines or not _ITEM.fullmatch(lines[0]):
            return items
        line = lines.pop(0)


def _while(lines: list[str], fits: re.Pattern[str]) -> list[str]:
    """Take the lines off the front that fit."""
    taken = []
    while lines and fits.fullmatch(lines[0]):
        taken.append(lines.pop(0))
    return taken


def _table(lines: list[str]) -> str:
    """The first line heads the columns, the second only draws a rule."""
    head, *rows = [[_inline(cell.strip()) for cell in _cells(line)] for line in (lines[0], *lines[2:])]
    columns = "".join(f'<th scope="col">{cell}</th>' if cell else "<td></td>" for cell in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{_breakable(cell) if column else cell}</td>' for column, cell in enumerate(row))}</tr>"
        for row in rows
    )
    table = f"<table><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table>"
    # It scrolls by itself on a narrow screen, by keyboard too.
    return f'<div class="table" tabindex="0">{table}</div>'


def _breakable(cell: str) -> str:
    """Lines may end within the long words of `code`, after _, /, @ and ?: a narrow column cuts nothing else."""
    return re.sub(r"<code>[^<]*</code>", lambda code: re.sub(r"(?<![</])[_/@?](?=\w)", r"\g<0><wbr>", code[0]), cell)


def _cells(line: str) -> list[str]:
    """A bar within `code` is no border."""
    return re.findall(r"((?:`[^`]*`|[^|`])*)\|", line.removeprefix("|").removesuffix("|") + "|")


def _inline(text: str) -> str:
    made, at = [], 0
    for found in _INLINE.finditer(text):
        made.append(escape(text[at : found.start()]))
        at = found.end()
        if found["code"]:
            made.append(f"<code>{escape(found['code'])}</code>")
        elif found["bold"]:
            made.append(f"<strong>{escape(found['bold'])}</strong>")
        elif found["stress"]:
            made.append(f"<em>{escape(found['stress'])}</em>")
        else:
            to = found["to"] or f"/docs/{found['file'].replace('_', '-')}{found['part'] or ''}"
            made.append(f'<a href="{escape(to)}">{escape(found["text"])}</a>')
    return "".join([*made, escape(text[at:])])
