"""Reads a tagged PDF as a screen reader does: its structure in reading order, with the text of each element."""

import io
from typing import Any, NamedTuple

from pypdf import PdfReader
from pypdf.generic import ContentStream


class Element(NamedTuple):
    kind: str
    text: str
    alt: str
    drawn: bool
    """Whether the element contains shapes or an image."""


class Tagged(NamedTuple):
    """`elements` are in reading order. `unmarked` is content outside of any mark; `twice` are marks that two elements
    name or that occur twice in the content. `parents_agree`: the parent tree leads from the content back to the same
    elements."""

    elements: list[Element]
    unmarked: list[str]
    twice: list[int]
    parents_agree: bool


def read_tagged(file: bytes) -> Tagged:
    reader: Any = PdfReader(io.BytesIO(file), strict=True)
    page: Any = reader.pages[0]
    texts, drawn, unmarked, repeated = _marked_content(page, reader)
    root: Any = reader.trailer["/Root"]["/StructTreeRoot"]
    document: Any = root["/K"]
    assert document["/S"] == "/Document"
    numbers: Any = root["/ParentTree"]["/Nums"]
    assert (numbers[0], page["/StructParents"]) == (0, 0)
    elements, named, agree = [], [], True
    for at in document["/K"]:
        element: Any = at.get_object()
        assert element.raw_get("/P") == root.raw_get("/K")
        assert element.raw_get("/Pg") == page.indirect_reference
        marks = [int(mark) for mark in element["/K"]]
        named += marks
        agree &= all(numbers[1].get_object()[mark] == at for mark in marks)
        text = "".join(texts.get(mark, "") for mark in marks)
        alt = str(element.get("/Alt", ""))
        elements.append(Element(element["/S"], " ".join(text.split()), alt, not drawn.isdisjoint(marks)))
    twice = repeated + [mark for mark in set(named) if named.count(mark) > 1]
    assert set(named) == set(texts), "the structure names exactly the marks in the content"
    return Tagged(elements, unmarked, twice, agree)


def _marked_content(page: Any, reader: PdfReader) -> tuple[dict[int, str], set[int], list[str], list[int]]:
    texts: dict[int, str] = {}
    drawn: set[int] = set()
    unmarked, repeated = [], []
    marks: list[int | str] = []
    for operands, operator in ContentStream(page.get_contents(), reader).operations:
        within = next((mark for mark in marks if isinstance(mark, int)), None)
        match operator:
            case b"BDC" | b"BMC":
                number = operands[1].get("/MCID") if operator == b"BDC" else None
                if number is not None:
                    repeated += [int(number)] if number in texts else []
                    texts.setdefault(int(number), "")
                marks.append(operands[0] if number is None else int(number))
            case b"EMC":
                marks.pop()
            case b"Tj" | b"f" | b"f*" | b"S" | b"Do" if within is None and "/Artifact" not in marks:
                unmarked.append(f"{operator!r} {operands}")
            case b"Tj" if within is not None:
                shown = operands[0]
                texts[within] += shown if isinstance(shown, str) else bytes(shown).decode("cp1252")
            case b"f" | b"f*" | b"S" | b"Do" if within is not None:
                drawn.add(within)
    assert not marks
    return texts, drawn, unmarked, repeated
