"""Marked content of a form: each of its texts gets a number, by which the structure refers to it
(readmodels/documents/boleto_structure.py); everything else is marked as not to be read aloud."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from pypdf.generic import ContentStream, DictionaryObject, NameObject, NumberObject, TextStringObject

from readmodels.documents.content_stream import Box

_Operation = tuple[Any, bytes]
_PATH_OPERATORS: Final = frozenset((b"re", b"m", b"l"))
_PAINTING_OPERATORS: Final = frozenset((b"S", b"f", b"f*", b"B", b"n"))
_END_MARK: Final[_Operation] = ([], b"EMC")
_BEGIN_ARTIFACT: Final[_Operation] = ([NameObject("/Artifact")], b"BMC")


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
    marked_boxes: list[str] = []
    for part in _split_parts(iter(ContentStream(page.get_contents(), page.pdf).operations)):
        if not part.shows:
            marked += part.operations
            continue
        box = _box_at(boxes, *part.at) if part.words.strip() else None
        if box is None or box in drawn:
            marked += [_BEGIN_ARTIFACT, *part.operations, _END_MARK]
        else:
            number = DictionaryObject({NameObject("/MCID"): NumberObject(len(marked_boxes))})
            marked += [([NameObject("/P"), number], b"BDC"), *part.operations, _END_MARK]
            marked_boxes.append(box)
    content = ContentStream(None, page.pdf)
    content.operations = marked
    return content.get_data(), marked_boxes


def _split_parts(operations: Iterator[_Operation]) -> Iterator[_Part]:
    """Split the operations into parts. xhtml2pdf positions texts with `cm`, `Tm` and `Td` only, and rotates none."""
    place, saved = (0.0, 0.0), []
    for operands, operator in operations:
        match operator:
            case b"q":
                saved.append(place)
            case b"Q":
                place = saved.pop()
            case b"cm":
                place = _translated(place, operands)
            case b"BT":
                yield _text_part(operations, (operands, operator), place)
                continue
            case each if each in _PATH_OPERATORS:
                yield _Part([(operands, operator), *_take_through(operations, _PAINTING_OPERATORS)], shows=True)
                continue
        yield _Part([(operands, operator)])


def _text_part(operations: Iterator[_Operation], first: _Operation, at: tuple[float, float]) -> _Part:
    text_operations, words = [first, *_take_through(operations, frozenset((b"ET",)))], ""
    for number, (operands, operator) in enumerate(text_operations):
        if operator in (b"Tm", b"Td") and not words:
            at = _translated(at, operands)
        elif operator == b"Tj":
            words += str(operands[0])
            next_operator = next(each for _, each in text_operations[number + 1 :] if each in (b"Tj", b"T*", b"ET"))
            if next_operator != b"Tj":  # a line ends with a blank, as ContentStream writes lines
                text_operations[number] = ([TextStringObject(f"{operands[0]} ")], operator)
    return _Part(text_operations, words != "", words, at)


def _take_through(operations: Iterator[_Operation], last: frozenset[bytes]) -> Iterator[_Operation]:
    for operation in operations:
        yield operation
        if operation[1] in last:
            return


def _translated(place: tuple[float, float], operands: Any) -> tuple[float, float]:
    assert [float(each) for each in operands[:-2]] in ([], [1, 0, 0, 1]), "xhtml2pdf turned a text"
    return place[0] + float(operands[-2]), place[1] + float(operands[-1])


def _box_at(boxes: Mapping[str, Box], x: float, y: float) -> str:
    """The smallest box that contains the point, because boxes may lie within others."""

    def contains(box: Box) -> bool:
        left, bottom, width, height = box.corners
        return left <= x <= left + width and bottom <= y <= bottom + height

    return min(
        (name for name, box in boxes.items() if contains(box)), key=lambda name: boxes[name].width * boxes[name].height
    )
