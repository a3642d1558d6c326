"""What a process that serves does not do while it starts: each restart and each hand-over waits for its imports."""

import gc
import sys
from types import ModuleType
from typing import Final, cast

_UNUSED: Final = ("rich", "greenlet")
"""structlog takes them along where they happen to be installed, to draw tracebacks and to ask whose thread it is in; no
process of ours does either. Three megabytes."""


def import_lightly() -> None:
    """To be called before anything of the service is imported; look_for_cycles_rarely() ends it. Of 0.83 s of CPU until
    an API process is imported it saves 0.18."""
    modules = cast(dict[str, ModuleType | None], sys.modules)
    for name in _UNUSED:
        modules.setdefault(name, None)  # importing it fails, as where it is not installed
    gc.disable()  # what is imported stays: passes over it find nothing to free
