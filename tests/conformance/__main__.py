"""Write docs/conformance.md: python -m tests.conformance."""

from tests.conformance.page import PAGE, page

PAGE.write_text(page(), encoding="utf-8")
