"""Variables of the environment: each is read, or refused by its name. An empty variable counts as not set."""

from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

_SECONDS_MAX: Final = 3_653 * 86_400.0
"""The longest duration: ten years. Instants end with the year 9999."""


def floats(
    env: Mapping[str, str], name: str, default: tuple[float, ...], *, least: float = 0.0, most: float = _SECONDS_MAX
) -> tuple[float, ...]:
    """At least one number."""
    text = env.get(name)
    if not text:
        return default
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{name} must be numbers with commas between them, not {text!r}") from None
    if not all(least <= each <= most for each in numbers):
        raise ValueError(f"{name} must be from {least:g} to {most:g}, and is {text!r}")
    return numbers


def one_number(
    env: Mapping[str, str], name: str, default: float, *, least: float = 0.0, most: float = _SECONDS_MAX
) -> float:
    numbers = floats(env, name, (default,), least=least, most=most)
    if len(numbers) > 1:
        raise ValueError(f"{name} must be one number, not {env[name]!r}")
    return numbers[0]


def whole_number(env: Mapping[str, str], name: str, low: int, high: int) -> int | None:
    """The number, or None when it is not set; ValueError unless it is a whole number from `low` to `high`."""
    if not (text := env.get(name)):
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and low <= int(text) <= high):
        raise ValueError(f"{name} must be a whole number from {low} to {high}, not {text[:20]!r}")
    return int(text)


def whole_numbers(
    env: Mapping[str, str], fields: Iterable[str], bounds: Callable[[str], tuple[int, int]], *, prefix: str = ""
) -> dict[str, int]:
    """The fields of a struct that are set: each is the variable of its name in capitals, behind the prefix."""
    numbers = {field: whole_number(env, prefix + field.upper(), *bounds(field)) for field in fields}
    return {field: number for field, number in numbers.items() if number is not None}


def switch(env: Mapping[str, str], name: str, default: str = "0") -> bool:
    """Only 0 and 1 are taken: a `true` or `yes` that silently meant no would be found out too late."""
    text = env.get(name) or default
    if text not in ("0", "1"):
        raise ValueError(f"{name} must be 0 or 1, not {text[:20]!r}")
    return text == "1"


def web_address(env: Mapping[str, str], name: str, default: str) -> str:
    """The address, without the slash at its end."""
    text = env.get(name) or default
    if text and not _is_web_address(text):
        raise ValueError(f"{name} must be such as https://api.example.com, not {text[:80]!r}")
    return text.rstrip("/")


def redis_address(env: Mapping[str, str]) -> str:
    """REDIS_URL. No error quotes its password."""
    if not (text := env.get("REDIS_URL")):
        raise ValueError("REDIS_URL is not set")
    try:
        parts = urlsplit(text)
        hosts = [urlsplit(f"//{each}") for each in parts.netloc.rpartition("@")[2].split(",")]
        is_valid = all(each.hostname and each.port != 0 for each in hosts)
    except ValueError:
        is_valid = False
    if not is_valid or parts.scheme not in ("redis", "rediss", "redis+sentinel"):
        raise ValueError(
            "REDIS_URL must be such as redis://user:password@host:6379/0, or redis+sentinel://one:26379,two:26379/service/0;"
            " in a password / ? # and @ are written as %2F %3F %23 and %40"
        )
    return text


def nameservers(env: Mapping[str, str], name: str) -> tuple[str, ...]:
    """The name servers; none unless the variable is set."""
    servers = tuple(part.strip() for part in env.get(name, "").split(",") if part.strip())
    if not all(_is_nameserver(each) for each in servers):
        raise ValueError(
            f"{name} must be such as 10.0.0.2 or 10.0.0.2:5353, commas between them, not {env[name][:80]!r}"
        )
    return servers


def _is_nameserver(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        try:
            parts = urlsplit(f"//{text}")
            ip_address(parts.hostname or "")
            return parts.netloc == text and bool(parts.port)
        except ValueError:
            return False
    return True


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    is_plain = text.isascii() and text.isprintable() and not set(text) & set(' "<>\\#?')
    return has_host and is_plain and parts.scheme in ("http", "https")
