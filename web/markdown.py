"""The part of Markdown that docs/ is written in, as HTML: headings, paragraphs, lists, tables, fences, `code`, **bold**
and [links](address). Whatever else stands in a text is shown as it stands: nothing of it becomes HTML."""

import re
from html import escape

_INLINE = re.compile(
    r"`(?P<code>[^`]+)`|\*\*(?P<bold>[^*]+)\*\*|"
    r"\[(?P<text>[^\]]+)\]\((?P<to>[#/][^)\s]*|https://[^)\s]*)\)"
)
_HEADING = re.compile(r"(#{1,3}) (.+)")
_ITEM = re.compile(r"(?:(-)|[0-9]+\.) (.+)")
_FENCE = "```"


def html_of(text: str) -> str:
    """Every block of `text`. A fence that is never closed reaches to the end."""
    made: list[str] = []
    lines = text.splitlines()
    while lines:
        line = lines.pop(0)
        if line.startswith(_FENCE):
            end = lines.index(_FENCE) if _FENCE in lines else len(lines)
            code = escape("\n".join(lines[:end]))
            made.append(f'<pre tabindex="0"><code>{code}</code></pre>')
            del lines[: end + 1]
        elif heading := _HEADING.fullmatch(line):
            level = len(heading[1])
            made.append(f'<h{level} id="{_name(heading[2])}">{_inline(heading[2])}</h{level}>')
        elif line.startswith("|"):
            made.append(_table([line, *_while(lines, re.compile(r"\|.*"))]))
        elif item := _ITEM.fullmatch(line):
            kind = "ul" if item[1] else "ol"
            items = [line, *_while(lines, _ITEM)]
            made.append(f"<{kind}>{''.join(f'<li>{_inline(_item(each))}</li>' for each in items)}</{kind}>")
        elif line:
            made.append(f"<p>{_inline(line)}</p>")
    return "\n".join(made)


def _while(lines: list[str], fits: re.Pattern[str]) -> list[str]:
    """Take the lines off the front that fit."""
    taken = []
    while lines and fits.fullmatch(lines[0]):
        taken.append(lines.pop(0))
    return taken


def _item(line: str) -> str:
    found = _ITEM.fullmatch(line)
    assert found is not None
    return found[2]


def _table(lines: list[str]) -> str:
    """The first line heads the columns, the second only draws a rule."""
    head, *rows = [[_inline(cell.strip()) for cell in line.strip("|").split("|")] for line in (lines[0], *lines[2:])]
    columns = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="table"><table><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table></div>'


def _inline(text: str) -> str:
    made, at = [], 0
    for found in _INLINE.finditer(text):
        made.append(escape(text[at : found.start()]))
        at = found.end()
        if found["code"]:
            made.append(f"<code>{escape(found['code'])}</code>")
        elif found["bold"]:
            made.append(f"<strong>{escape(found['bold'])}</strong>")
        else:
            made.append(f'<a href="{escape(found["to"])}">{escape(found["text"])}</a>')
    return "".join([*made, escape(text[at:])])


def _name(heading: str) -> str:
    """How links name a heading: lowercase words joined by hyphens."""
    return "-".join(re.findall(r"[a-z0-9]+", heading.lower()))
