"""Marked content of a form: each of its texts gets a number, by which the structure refers to it
(readmodels/documents/boleto_structure.py); everything else is marked as not to be read aloud."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from pypdf.generic import ContentStream, DictionaryObject, NameObject, NumberObject, TextStringObject

from readmodels.documents.content_stream import Box

_Operation = tuple[Any, bytes]
_CONSTRUCTED: Final = frozenset((b"re", b"m", b"l"))
_PAINTED: Final = frozenset((b"S", b"f", b"f*", b"B", b"n"))
_END: Final[_Operation] = ([], b"EMC")
_NOTHING_TO_READ: Final[_Operation] = ([NameObject("/Artifact")], b"BMC")


class _Part(NamedTuple):
    """Operations that belong together: a path, a text, or one operation that shows nothing. `at` is where a text
    begins."""

    operations: list[_Operation]
    shows: bool = False
    words: str = ""
    at: tuple[float, float] = (0.0, 0.0)


def mark_texts(page: Any, boxes: Mapping[str, Box], drawn: frozenset[str]) -> tuple[bytes, list[str]]:
    """The content of a page written by xhtml2pdf, with marks added, and the box of each mark's number. Blank texts, and
    texts in the boxes `drawn`, are marked as not to be read aloud."""
    marked: list[_Operation] = []
    said: list[str] = []
    for part in _parts(iter(ContentStream(page.get_contents(), page.pdf).operations)):
        if not part.shows:
            marked += part.operations
            continue
        box = _box_at(boxes, *part.at) if part.words.strip() else None
        if box is None or box in drawn:
            marked += [_NOTHING_TO_READ, *part.operations, _END]
        else:
            number = DictionaryObject({NameObject("/MCID"): NumberObject(len(said))})
            marked += [([NameObject("/P"), number], b"BDC"), *part.operations, _END]
            said.append(box)
    content = ContentStream(None, page.pdf)
    content.operations = marked
    return content.get_data(), said


def _parts(operations: Iterator[_Operation]) -> Iterator[_Part]:
    """Split the operations into parts. xhtml2pdf positions texts with `cm`, `Tm` and `Td` only, and rotates none."""
    place, saved = (0.0, 0.0), []
    for operands, operator in operations:
        match operator:
            case b"q":
                saved.append(place)
            case b"Q":
                place = saved.pop()
            case b"cm":
                place = _moved(place, operands)
            case b"BT":
                yield _text(operations, (operands, operator), place)
                continue
            case each if each in _CONSTRUCTED:
                yield _Part([(operands, operator), *_through(operations, _PAINTED)], shows=True)
                continue
        yield _Part([(operands, operator)])


def _text(operations: Iterator[_Operation], first: _Operation, at: tuple[float, float]) -> _Part:
    found, words = [first, *_through(operations, frozenset((b"ET",)))], ""
    for number, (operands, operator) in enumerate(found):
        if operator in (b"Tm", b"Td") and not words:
            at = _moved(at, operands)
        elif operator == b"Tj":
            words += str(operands[0])
            after = next(each for _, each in found[number + 1 :] if each in (b"Tj", b"T*", b"ET"))
            if after != b"Tj":  # a line ends with a blank, as ContentStream writes lines
                found[number] = ([TextStringObject(f"{operands[0]} ")], operator)
    return _Part(found, words != "", words, at)


def _through(operations: Iterator[_Operation], last: frozenset[bytes]) -> Iterator[_Operation]:
    for operation in operations:
        yield operation
        if operation[1] in last:
            return


def _moved(place: tuple[float, float], operands: Any) -> tuple[float, float]:
    assert [float(each) for each in operands[:-2]] in ([], [1, 0, 0, 1]), "xhtml2pdf turned a text"
    return place[0] + float(operands[-2]), place[1] + float(operands[-1])


def _box_at(boxes: Mapping[str, Box], x: float, y: float) -> str:
    """The smallest box that contains the point, because boxes may lie within others."""

    def holds(box: Box) -> bool:
        left, bottom, width, height = box.corners
        return left <= x <= left + width and bottom <= y <= bottom + height

    return min(
        (name for name, box in boxes.items() if holds(box)), key=lambda name: boxes[name].width * boxes[name].height
    )
