"""Exceptions by which a page refuses a request for a reason other than what was typed into the form."""

from collections.abc import Mapping

from litestar.exceptions import PermissionDeniedException


class ForeignForm(PermissionDeniedException):
    """A form that was not shown to this browser in this session."""


class StepUpNeeded(Exception):
    """The person has to give the password again (web/painel/auth/step_up.py) to confirm `action` with its `facts`, by
    label. `enrol`: the person has to set up a second factor first."""

    def __init__(self, action: str = "", facts: Mapping[str, str] | None = None, *, enrol: bool = False) -> None:
        super().__init__()
        self.action = action
        self.facts = facts or {}
        self.enrol = enrol


class StillNew(Exception):
    """The member of staff is too new to take part in a decision that takes two (domain/merchants/staff.py)."""
