"""How often a process looks for reference cycles."""

import gc
from typing import Final

_NEW_OBJECTS: Final = 20_000


def look_for_cycles_rarely() -> None:
    """To be called once everything is imported: modules live as long as the process. Neither a request nor a delivery
    leaves cycles behind, but Python's usual threshold of 700 costs each request 9 us and each delivery 80 us."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 20, 20)
    gc.enable()
