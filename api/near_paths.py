"""What a path that is not there was meant to be: said in the refusal, so that a slip of the pen costs no search."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

_PATH_MAX: Final = 120
"""Comparing costs time: nobody mistypes a longer one."""
_LIKE: Final = 0.75
_PARAMETER_LIKE: Final = 0.9
_VERSION: Final = "v1"
_PARAMETER: Final = re.compile(r"\{(\w+)(:\w+)?\}")


class NearPaths:
    """`templates` are the paths of the routes, parameters as `{charge_id:str}`."""

    def __init__(self, templates: Sequence[str]) -> None:
        paths = dict.fromkeys(_PARAMETER.sub(r"{\1}", each) for each in templates)
        self._known: dict[int, list[tuple[str, list[str]]]] = {}
        for path in paths:
            segments = _segments(path)
            self._known.setdefault(len(segments), []).append((path, segments))

    def hint(self, path: str) -> str | None:
        """The refusal's sentence with the path that is like it; None where none is."""
        if len(path) > _PATH_MAX:
            return None
        segments = _segments(path)
        if segments[:1] != [_VERSION]:
            segments = [_VERSION, *segments]
        known = self._known.get(len(segments), ())
        likeness, likest = max(((_likeness(segments, there), path) for path, there in known), default=(0.0, ""))
        return f"There is nothing at this path. Did you mean {likest}?" if likeness >= _LIKE else None


def _segments(path: str) -> list[str]:
    return [each for each in path.split("/") if each]


def _likeness(given: Sequence[str], known: Sequence[str]) -> float:
    """Of the segment that is least alike: one wrong word makes another path. 1.0 is the same; a parameter is like
    anything but what another path has there."""
    return min(
        (_PARAMETER_LIKE if there.startswith("{") else _alike(here, there))
        for here, there in zip(given, known, strict=True)
    )


def _alike(here: str, there: str) -> float:
    """0.0 for what is less alike than _LIKE, found by the lengths where they suffice: a scanner asks for thousands of
    paths that are nothing's slip."""
    if here == there:
        return 1.0
    if 2 * min(len(here), len(there)) < _LIKE * (len(here) + len(there)):
        return 0.0
    matcher = SequenceMatcher(None, here, there)
    return matcher.ratio() if matcher.quick_ratio() >= _LIKE else 0.0
