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
_CALLS_AT_ONCE_MAX: Final = 8
_BYTES_MAX: Final = 16_384
_CACHE_MAX: Final = 5_000
_CACHE_S: Final = 86_400.0
_FIELD_CHARS_MAX: Final = 200


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
        self._room = asyncio.Semaphore(_CALLS_AT_ONCE_MAX)
        self._cache: dict[str, tuple[float, PostalAddress | None]] = {}
        self._http: aiohttp.ClientSession | None = None

    async def find(self, digits: str) -> PostalAddress | None:
        """The address of a code, or None for an unknown code. Raises PostalServiceAway."""
        valid_until, cached = self._cache.get(digits, (0.0, None))
        if valid_until > self._clock():
            return cached
        if self._room.locked():
            raise PostalServiceAway
        async with self._room:
            address = await self._fetch(digits)
        if len(self._cache) >= _CACHE_MAX:
            del self._cache[next(iter(self._cache))]
        self._cache[digits] = (self._clock() + _CACHE_S, address)
        return address

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    async def _fetch(self, digits: str) -> PostalAddress | None:
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
                decoded = msgspec.json.decode(await _read_body(answer), type=_Answer)
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError, UnicodeDecodeError):
            raise PostalServiceAway from None
        return _address_from_answer(decoded)


async def _read_body(answer: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for part in answer.content.iter_any():
        body += part
        if len(body) > _BYTES_MAX:
            raise PostalServiceAway
    return bytes(body)


def _address_from_answer(answer: _Answer) -> PostalAddress | None:
    if answer.erro:
        return None
    street, district, city, state = (
        next((_one_line(each) for each in candidates if each), "")
        for candidates in (
            (answer.logradouro, answer.street),
            (answer.bairro, answer.neighborhood),
            (answer.localidade, answer.city),
            (answer.uf, answer.state),
        )
    )
    if not city or len(state) != 2:
        raise PostalServiceAway
    return PostalAddress(street, district, city, state.upper())


def _one_line(text: str) -> str:
    """The text on one line and of bounded length, because it fills a form field that is sent back."""
    return " ".join(text.split())[:_FIELD_CHARS_MAX]
