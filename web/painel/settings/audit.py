"""The audit log: actions of the account's people or, in the staff's section, of staff."""

from readmodels.dashboard.audit import audit_page
from readmodels.page import ListFilters, TimePosition
from web.painel.list_page import ListPage

LIST = ListPage(
    name="audit",
    path="/auditoria",
    filters=ListFilters,
    fetch=lambda request: audit_page,
    position=TimePosition,
    at=lambda entry: TimePosition(entry.at, entry.id),
)
