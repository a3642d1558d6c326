"""Writes the long table of conformance to build/conformance.md: python -m tests.conformance."""

from tests.conformance.page import ROOT, TABLE, page

TABLE.parent.mkdir(exist_ok=True)
TABLE.write_text(page(), encoding="utf-8")
print(TABLE.relative_to(ROOT))
