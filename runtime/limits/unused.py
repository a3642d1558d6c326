"""Packages that a library takes along when they happen to be installed, and that no process of ours uses."""

import sys
from types import ModuleType
from typing import Final, cast

_UNUSED: Final = ("rich", "greenlet")
"""structlog draws tracebacks with the one, and asks the other whose thread it is in."""


def leave_out_unused() -> None:
    """To be called before anything of the service is imported: three megabytes and a fifth of a second of its start."""
    modules = cast(dict[str, ModuleType | None], sys.modules)
    for name in _UNUSED:
        modules.setdefault(name, None)  # importing it fails, as where it is not installed
