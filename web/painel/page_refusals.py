"""Why a page does not do what it was asked for, where that is no fault of the form."""

from collections.abc import Mapping

from litestar.exceptions import PermissionDeniedException


class ForeignForm(PermissionDeniedException):
    """A form that was not shown to this browser in this session."""


class StepUpNeeded(Exception):
    """The password has to be given again (web/painel/auth/step_up.py) for `action`, with its `facts` by what they are
    called; `enrol`: a second factor has to be set up."""

    def __init__(self, action: str = "", facts: Mapping[str, str] | None = None, *, enrol: bool = False) -> None:
        super().__init__()
        self.action = action
        self.facts = facts or {}
        self.enrol = enrol


class StillNew(Exception):
    """One of the staff is neither first nor second of two yet (domain/merchants/staff.py)."""
