"""Addresses by postal code (CEP), from a service that the operator configures (CEP_URL); off without it.

A convenience of forms: people type an address that the service does not know or does not return in time. Only the eight
digits are sent out.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

import aiohttp
import msgspec
from msgspec import Struct

ANSWER_S: Final = 2.0
_AT_ONCE: Final = 8
_BYTES_MAX: Final = 16_384
_KEPT_MAX: Final = 5_000
_KEPT_S: Final = 86_400.0
_LENGTH_MAX: Final = 200


class PostalAddress(Struct, frozen=True):
    """The address of a postal code. Fields may be empty: a small town's single code has no street."""

    street: str
    district: str
    city: str
    state: str


class PostalServiceAway(Exception):
    """The service did not answer in time, or not in a known form."""


class _Answer(Struct, frozen=True):
    """The answer of a service, with the field names of ViaCEP and of BrasilAPI; ViaCEP sets `erro` for an unknown
    code."""

    erro: Any = None
    logradouro: str | None = None
    street: str | None = None
    bairro: str | None = None
    neighborhood: str | None = None
    localidade: str | None = None
    city: str | None = None
    uf: str | None = None
    state: str | None = None


class PostalCodes:
    """The client of the postal code service, with a cache. `url` contains `{cep}` in place of the eight digits."""

    def __init__(self, url: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.on = bool(url)
        self._url = url
        self._clock = clock
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._kept: dict[str, tuple[float, PostalAddress | None]] = {}
        self._http: aiohttp.ClientSession | None = None

    async def find(self, digits: str) -> PostalAddress | None:
        """The address of a code, or None for an unknown code. Raises PostalServiceAway."""
        until, known = self._kept.get(digits, (0.0, None))
        if until > self._clock():
            return known
        if self._room.locked():
            raise PostalServiceAway
        async with self._room:
            found = await self._ask(digits)
        if len(self._kept) >= _KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[digits] = (self._clock() + _KEPT_S, found)
        return found

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    async def _ask(self, digits: str) -> PostalAddress | None:
        if self._http is None:
            self._http = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=ANSWER_S), cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
            )
        try:
            async with self._http.get(self._url.replace("{cep}", digits), allow_redirects=False) as answer:
                if answer.status == 404:
                    return None
                if answer.status != 200:
                    raise PostalServiceAway
                given = msgspec.json.decode(await _read(answer), type=_Answer)
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError, UnicodeDecodeError):
            raise PostalServiceAway from None
        return _address(given)


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for part in answer.content.iter_any():
        body += part
        if len(body) > _BYTES_MAX:
            raise PostalServiceAway
    return bytes(body)


def _address(given: _Answer) -> PostalAddress | None:
    if given.erro:
        return None
    street, district, city, state = (
        next((_text(each) for each in names if each), "")
        for names in (
            (given.logradouro, given.street),
            (given.bairro, given.neighborhood),
            (given.localidade, given.city),
            (given.uf, given.state),
        )
    )
    if not city or len(state) != 2:
        raise PostalServiceAway
    return PostalAddress(street, district, city, state.upper())


def _text(given: str) -> str:
    """The text on one line and of bounded length, because it fills a form field that is sent back."""
    return " ".join(given.split())[:_LENGTH_MAX]
