"""Hints for the refusals of unknown paths and methods: the known path that resembles a mistyped one, and the request
to make in place of a method that a path does not support."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

_PATH_MAX: Final = 120
"""Longer paths get no hint: comparing costs time, and every path of ours is shorter."""
_LIKENESS_MIN: Final = 0.75
_PARAMETER_LIKENESS: Final = 0.9
_VERSION: Final = "v1"
_PARAMETER: Final = re.compile(r"\{(\w+)(:\w+)?\}")

# Requests that other APIs have, by method and path, each with the request that does the same here.
_HINTS: Final = tuple(
    (re.compile(asked), said)
    for asked, said in (
        ("POST /v1/charges", "A charge is created at /v1/charges/pix, /v1/charges/boleto or /v1/charges/dual."),
        ("DELETE /v1/charges/[^/]+", "POST /v1/charges/{charge_id}/cancel cancels a charge."),
        ("(PUT|PATCH) /v1/charges/[^/]+", "Of a charge the due date can be changed: PATCH /v1/charges/due-date."),
        ("DELETE /v1/withdrawals/[^/]+", "POST /v1/withdrawals/{withdrawal_id}/cancel cancels a withdrawal."),
        ("DELETE /v1/charge-schedules/[^/]+", "POST /v1/charge-schedules/{schedule_id}/cancel cancels a schedule."),
    )
)


def method_hint(method: str, path: str) -> str:
    """The hint for a method that the path does not support, with a leading blank; empty when there is none."""
    return next((f" {hint}" for pattern, hint in _HINTS if pattern.fullmatch(f"{method} {path[:_PATH_MAX]}")), "")


class NearPaths:
    """The known paths, to compare with. `templates` are the paths of the routes, parameters as `{charge_id:str}`."""

    def __init__(self, templates: Sequence[str]) -> None:
        paths = dict.fromkeys(_PARAMETER.sub(r"{\1}", each) for each in templates)
        self._paths_by_length: dict[int, list[tuple[str, list[str]]]] = {}
        for path in paths:
            segments = _segments(path)
            self._paths_by_length.setdefault(len(segments), []).append((path, segments))

    def hint(self, path: str) -> str | None:
        """The refusal's message, with the known path that resembles this one; None when no path does."""
        if len(path) > _PATH_MAX:
            return None
        segments = _segments(path)
        if segments[:1] != [_VERSION]:
            segments = [_VERSION, *segments]
        candidates = self._paths_by_length.get(len(segments), ())
        likeness, nearest = max(
            ((_path_likeness(segments, path_segments), path) for path, path_segments in candidates), default=(0.0, "")
        )
        return f"There is nothing at this path. Did you mean {nearest}?" if likeness >= _LIKENESS_MIN else None


def _segments(path: str) -> list[str]:
    return [each for each in path.split("/") if each]


def _path_likeness(given: Sequence[str], known: Sequence[str]) -> float:
    """The likeness of the least alike segment, since one wrong word makes another path; 1.0 means equal. A parameter
    matches any segment, at less than 1.0, so that a path with an equal fixed segment wins."""
    return min(
        (_PARAMETER_LIKENESS if known_segment.startswith("{") else _segment_likeness(given_segment, known_segment))
        for given_segment, known_segment in zip(given, known, strict=True)
    )


def _segment_likeness(given: str, known: str) -> float:
    """The likeness of two segments; 0.0 for less than _LIKENESS_MIN. Lengths that differ too much decide without a
    comparison: a scanner asks for thousands of paths that resemble none."""
    if given == known:
        return 1.0
    if 2 * min(len(given), len(known)) < _LIKENESS_MIN * (len(given) + len(known)):
        return 0.0
    matcher = SequenceMatcher(None, given, known)
    return matcher.ratio() if matcher.quick_ratio() >= _LIKENESS_MIN else 0.0
