"""Settings that are whole numbers within bounds: each a field of a struct, and a variable of its name in capitals."""

from collections.abc import Callable, Iterable, Mapping


def read_numbers(
    env: Mapping[str, str], fields: Iterable[str], bounds: Callable[[str], tuple[int, int]], *, prefix: str = ""
) -> dict[str, int]:
    """Of those that are set. Raises as `read_number`."""
    found = {field: read_number(env, prefix + field.upper(), *bounds(field)) for field in fields}
    return {field: number for field, number in found.items() if number is not None}


def read_number(env: Mapping[str, str], name: str, low: int, high: int) -> int | None:
    """None unless it is set; ValueError names the variable that is no whole number from `low` to `high`."""
    if not (text := env.get(name)):
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 9 and low <= int(text) <= high):
        raise ValueError(f"{name} must be a whole number from {low} to {high}, not {text!r}")
    return int(text)
