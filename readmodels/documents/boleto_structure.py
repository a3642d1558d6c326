"""The logical structure of a boleto for screen readers: the kind and order of its boxes (ISO 32000-1, 14.7 and 14.8).

A form has the whole structure: of its own texts, and of the texts each boleto writes into its boxes later. The latter
are referred to by the number of their box, so a boleto adds to the structure only the logo's alternative text.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pypdf import PdfWriter
from pypdf.generic import (
    ArrayObject,
    BooleanObject,
    DictionaryObject,
    FloatObject,
    IndirectObject,
    NameObject,
    NumberObject,
    TextStringObject,
)

from readmodels.documents.content_stream import Box

# fmt: off
READING: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("P",      ("test",)),
    ("H1",     ("recibo_title",)),
    ("Span",   ("logo",)),
    ("P",      ("mark", "mark_text")),
    ("P",      ("recibo_mark",)),
    ("P",      ("recibo_beneficiary",)),
    ("P",      ("recibo_payer",)),
    ("P",      ("recibo_amount",)),
    ("P",      ("recibo_due", "recibo_grace")),
    ("P",      ("recibo_line",)),
    ("H2",     ("pix_title",)),
    ("P",      ("pix_amount",)),
    ("Figure", ("qr",)),
    ("P",      ("pix_how",)),
    ("P",      ("pix_copy",)),
    ("P",      ("text",)),
    ("P",      ("how",)),
    ("P",      ("recibo_bank", "recibo_code")),
    ("P",      ("recibo_nosso_numero",)),
    ("P",      ("recibo_seu_numero",)),
    ("P",      ("recibo_document_date",)),
    ("P",      ("recibo_processing_date",)),
    ("P",      ("recibo_agency",)),
    ("P",      ("recibo_authentication",)),
    ("H1",     ("ficha_authentication",)),
    ("P",      ("ficha_bank", "ficha_code")),
    ("P",      ("ficha_line",)),
    ("P",      ("ficha_place", "ficha_anywhere")),
    ("P",      ("ficha_due", "ficha_grace")),
    ("P",      ("ficha_beneficiary",)),
    ("P",      ("ficha_agency",)),
    ("P",      ("ficha_document_date",)),
    ("P",      ("ficha_seu_numero",)),
    ("P",      ("ficha_especie_doc",)),
    ("P",      ("ficha_aceite",)),
    ("P",      ("ficha_processing_date",)),
    ("P",      ("ficha_nosso_numero",)),
    ("P",      ("ficha_bank_use",)),
    ("P",      ("ficha_carteira",)),
    ("P",      ("ficha_currency",)),
    ("P",      ("ficha_quantity",)),
    ("P",      ("ficha_unit",)),
    ("P",      ("ficha_amount",)),
    ("P",      ("ficha_instructions",)),
    ("P",      ("ficha_discount",)),
    ("P",      ("ficha_deductions",)),
    ("P",      ("ficha_fine",)),
    ("P",      ("ficha_additions",)),
    ("P",      ("ficha_charged",)),
    ("P",      ("ficha_payer",)),
    ("P",      ("ficha_drawer",)),
    ("Figure", ("bars",)),
)
"""Kind and boxes of each element, in reading order; boxes that a form does not have are skipped."""
FIGURES: Final = {
    "qr":   "QR Code Pix. O mesmo código está escrito em Pix copia e cola.",
    "bars": "Código de barras. O mesmo número está na linha digitável.",
}
# fmt: on
DRAWN: Final = frozenset(("recibo_rule", "ficha_rule", "cut", "scissors", "watermark", "pix", "how_frame"))
"""Boxes that are not read aloud: lines, frames, the watermark and the mark where to cut."""
PRINTED: Final = frozenset((
    "test", "recibo_title", "recibo_authentication", "pix_title", "pix_how", "how", "ficha_authentication",
    "ficha_place", "ficha_anywhere", "ficha_bank_use", "ficha_quantity", "ficha_unit", "ficha_discount",
    "ficha_deductions", "ficha_fine", "ficha_additions", "ficha_charged", "ficha_drawer",
))  # fmt: skip
"""Boxes whose text belongs to the form; each boleto writes into all others."""


def filled_boxes(boxes: Mapping[str, Box]) -> list[str]:
    """The form's boxes that a boleto writes into."""
    return [name for _, names in READING for name in names if name in boxes and name not in PRINTED]


def add_structure(
    writer: PdfWriter,
    page: Any,
    boxes: Mapping[str, Box],
    printed: Sequence[str],
    filled: Mapping[str, int],
    figures: Mapping[str, str],
) -> IndirectObject:
    """Add the structure to the page; returns the logo's element.

    `printed` lists the box of each mark of the form's own texts, by number; `filled` has the number of each box that a
    boleto writes into; `figures` has the alternative text of the boxes with a drawing instead of text.
    """
    tree, document, elements = DictionaryObject(), DictionaryObject(), ArrayObject()
    tree_ref, document_ref = writer._add_object(tree), writer._add_object(document)
    parents: dict[int, IndirectObject] = {}
    logo = None
    for kind, names in READING:
        marks = [mark for name in names for mark in _marks_of(name, printed, filled)]
        if not marks:
            continue
        alternative_text = figures.get(names[0])
        element = _dictionary(
            S=NameObject("/P" if kind == "Figure" and alternative_text is None else f"/{kind}"),
            P=document_ref,
            Pg=page.indirect_reference,
            K=ArrayObject(map(NumberObject, marks)),
        )
        if alternative_text is not None:
            as_figure(element, boxes[names[0]], TextStringObject(alternative_text))
        element_ref = writer._add_object(element)
        elements.append(element_ref)
        parents |= dict.fromkeys(marks, element_ref)
        if names == ("logo",):
            logo = element_ref
    assert parents.keys() == set(range(len(printed) + len(filled))), "every mark is somewhere in what is read"
    assert logo is not None, "each form has room for one"
    document.update(_dictionary(S=NameObject("/Document"), P=tree_ref, K=elements))
    parent_array = ArrayObject(parents[mark] for mark in sorted(parents))
    tree.update(
        _dictionary(
            Type=NameObject("/StructTreeRoot"),
            K=document_ref,
            ParentTree=_dictionary(Nums=ArrayObject([NumberObject(0), parent_array])),
            ParentTreeNextKey=NumberObject(1),
        )
    )
    page.update(_dictionary(StructParents=NumberObject(0), Tabs=NameObject("/S")))
    writer.root_object.update(
        _dictionary(
            StructTreeRoot=tree_ref,
            MarkInfo=_dictionary(Marked=BooleanObject(True)),
            ViewerPreferences=_dictionary(DisplayDocTitle=BooleanObject(True)),
            Lang=TextStringObject("pt-BR"),
        )
    )
    return logo


def as_figure(element: Any, box: Box, alternative_text: Any) -> Any:
    """Turn the element into a figure in the box, with this alternative text."""
    left, bottom, width, height = box.corners
    bounds = ArrayObject(FloatObject(round(each, 2)) for each in (left, bottom, left + width, bottom + height))
    element.update(
        _dictionary(S=NameObject("/Figure"), Alt=alternative_text, A=_dictionary(O=NameObject("/Layout"), BBox=bounds))
    )
    return element


def _marks_of(name: str, printed: Sequence[str], filled: Mapping[str, int]) -> Iterator[int]:
    """The marks of a box: those of the form's own texts, then that of the boleto's text."""
    yield from (number for number, box in enumerate(printed) if box == name)
    if name in filled:
        yield filled[name]


def _dictionary(**entries: Any) -> DictionaryObject:
    return DictionaryObject({NameObject(f"/{name}"): value for name, value in entries.items()})
