"""Banco do Brasil, API Pix v2: the standard of the Banco Central with the bank's own turns.

The turns: an application key in every query string, 200 where the standard says 201, errors in six shapes and
sometimes HTML, a list of received PIX over at most five days, and refusals of accents in texts.
What is not plainly yes or no is Unknown; after a PUT that was not plainly answered, GET by txid decides.
"""

import asyncio
import re
import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from msgspec import Struct

from banks.base import (
    MOST_DESCRIPTION_CHARACTERS,
    Cob,
    CobState,
    Done,
    Location,
    NotFound,
    ReceivedPix,
    Refused,
    Unknown,
)
from domain.br_code import ascii_fold
from domain.documents import well_formed
from domain.instants import SAO_PAULO
from domain.money import MOST_PIX_CENTS, parse_amount, reais

COB = ("cob.read", "cob.write")
PIX = ("pix.read",)
LOCATIONS = ("payloadlocation.read", "payloadlocation.write")
WEBHOOK = ("webhook.read", "webhook.write")
WINDOW = timedelta(days=5)
"""The widest interval GET /pix takes."""

_RENEW_EARLY_S = 60.0
_LIFETIME_S = 600.0  # of a token whose answer does not say
_PAGES_MOST = 1_000
_PER_PAGE = 100
_ANSWER_BYTES_MOST = 2 * 1024 * 1024
_AT_ONCE = 16  # locations asked for at the same time
_REMOVED: Final = "REMOVIDA_PELO_USUARIO_RECEBEDOR"
# Statuses that can carry the bank's no. 401, 403 and 429 are about us and not about the charge.
_NO: Final = frozenset({400, 404, 409, 410, 422})
_NOTHING_FOUND: Final = "4769515"  # "Nao ha informacoes para os dados informados", under 400 as well as 404
_UNSAFE = re.compile(r"[^A-Za-z0-9 .,/&-]+")

# The text of such an error may hold the URL, and so the application key: only its kind is told.
_GONE = (aiohttp.ClientError, OSError, TimeoutError, ValueError)


class _Devedor(Struct, frozen=True):
    cpf: str | None = None
    cnpj: str | None = None
    nome: str | None = None


class _Pix(Struct, frozen=True, rename="camel"):
    end_to_end_id: str
    valor: str
    horario: str
    txid: str | None = None
    pagador: _Devedor | None = None


class _Valor(Struct, frozen=True):
    original: str


class _Loc(Struct, frozen=True):
    id: int | None = None
    location: str | None = None


class _Cob(Struct, frozen=True):
    txid: str
    status: str
    valor: _Valor
    revisao: int = 0
    chave: str | None = None
    location: str | None = None
    loc: _Loc | None = None
    pix: list[_Pix] | None = None


class _Location(Struct, frozen=True):
    id: int
    location: str


class _Paging(Struct, frozen=True, rename="camel"):
    quantidade_de_paginas: int = 1


class _Parameters(Struct, frozen=True):
    paginacao: _Paging = _Paging()


class _Received(Struct, frozen=True):
    parametros: _Parameters = _Parameters()
    pix: list[_Pix] | None = None


class _Token(Struct, frozen=True):
    access_token: str
    expires_in: float = _LIFETIME_S


class _Heard(Struct, frozen=True):
    """An answer that arrived whole, whatever it says."""

    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        return self.status in (200, 201)


Answer = TypeVar("Answer")


class BancoDoBrasil:
    """Over HTTP at `api_url` (".../pix/v2"), tokens from `oauth_url`; `tls` is for client certificates.

    `read_s` and `write_s` bound one request from connecting to the last byte.
    """

    def __init__(
        self,
        http: aiohttp.ClientSession,
        *,
        api_url: str,
        oauth_url: str,
        client_id: str,
        client_secret: str,
        app_key: str,
        now: Callable[[], datetime],
        app_key_param: str = "gw-dev-app-key",
        read_s: float = 20.0,
        write_s: float = 30.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._http = http
        self._api_url = api_url
        self._oauth_url = oauth_url
        self._basic = "Basic " + b64encode(f"{client_id}:{client_secret}".encode()).decode()
        self._app_key = {app_key_param: app_key}
        self._now = now
        self._read_s = read_s
        self._write_s = write_s
        self._tls: ssl.SSLContext | bool = True if tls is None else tls
        # By scope set, as the bank binds them: token and the loop time from which it is renewed.
        self._tokens: dict[tuple[str, ...], tuple[str, float]] = {}
        self._renewing: dict[tuple[str, ...], asyncio.Lock] = {
            scopes: asyncio.Lock() for scopes in (COB, PIX, LOCATIONS, WEBHOOK)
        }

    async def put_cob(self, cob: Cob) -> Done[CobState] | Refused | Unknown:
        body = self._cob_body(cob)
        heard = await self._ask("PUT", f"/cob/{cob.txid}", COB, limit_s=self._write_s, body=body)
        if isinstance(heard, _Heard) and heard.ok:
            put = _read(heard, _Cob)
            if put is not None and _same(put, cob) and (state := _state(put)) is not None:
                return Done(state)
        # A lost answer, or a no to a txid that an earlier, lost attempt has put there: the bank knows.
        refusal = _refusal(heard)
        found = await self._find(cob.txid)
        match found:
            case _Cob():
                if not _same(found, cob):
                    return refusal or Refused("TxidDeOutraCobranca", "The txid is another charge's.")
                state = _state(found)
                if state is None:
                    return Unknown("unreadable cob")
                if state.status == _REMOVED:
                    return refusal or Refused("CobOperacaoInvalida", "The charge was removed at the bank.")
                return Done(state)
            case NotFound():
                return refusal or _unknown(heard)
            case Unknown():
                return found

    async def get_cob(self, txid: str) -> CobState | NotFound | Unknown:
        found = await self._find(txid)
        if not isinstance(found, _Cob):
            return found
        return _state(found) or Unknown("unreadable cob")

    async def remove_cob(self, txid: str) -> Done[None] | NotFound | Refused | Unknown:
        body = {"status": _REMOVED}
        heard = await self._ask("PATCH", f"/cob/{txid}", COB, limit_s=self._write_s, body=body)
        if isinstance(heard, _Heard) and heard.ok:
            patched = _read(heard, _Cob)
            if patched is not None and patched.txid == txid and patched.status == _REMOVED:
                return Done(None)
        found = await self._find(txid)
        match found:
            case _Cob(status="REMOVIDA_PELO_USUARIO_RECEBEDOR" | "REMOVIDA_PELO_PSP"):
                return Done(None)
            case _Cob(status="CONCLUIDA"):
                return Refused("CobOperacaoInvalida", "The charge is paid.")
            case _Cob():
                return _unknown(heard)
            case _:
                return found

    async def create_locations(self, count: int) -> Done[list[Location]] | Refused | Unknown:
        room = asyncio.Semaphore(_AT_ONCE)

        async def one() -> Location | Refused | Unknown:
            async with room:
                return await self._create_location()

        answers = await asyncio.gather(*(one() for _ in range(count)))
        made = [answer for answer in answers if isinstance(answer, Location)]
        if made:
            return Done(made)
        (first, *_) = answers
        assert not isinstance(first, Location)
        return first

    async def received(self, since: datetime, until: datetime) -> Done[list[ReceivedPix]] | Unknown:
        found: list[ReceivedPix] = []
        while since < until:
            upto = min(until, since + WINDOW)
            part = await self._received_window(since, upto)
            if isinstance(part, Unknown):
                return part
            found += part
            since = upto
        return Done(found)

    async def register_callback(self, pix_key: str, url: str) -> Done[None] | Refused | Unknown:
        heard = await self._ask(
            "PUT",
            f"/webhook/{quote(pix_key, safe='')}",
            WEBHOOK,
            limit_s=self._write_s,
            body={"webhookUrl": url},
        )
        if isinstance(heard, _Heard) and heard.status in (200, 201, 204):
            return Done(None)
        return _refusal(heard) or _unknown(heard)

    async def _find(self, txid: str) -> _Cob | NotFound | Unknown:
        heard = await self._ask("GET", f"/cob/{txid}", COB, limit_s=self._read_s)
        if isinstance(heard, _Heard) and heard.ok:
            found = _read(heard, _Cob)
            return found if found is not None and found.txid == txid else Unknown("unreadable cob")
        # A gateway's 404 page is not the bank saying "no such charge".
        refusal = _refusal(heard)
        if refusal is None or not isinstance(heard, _Heard):
            return _unknown(heard)
        nothing = heard.status == 404 or refusal.code == _NOTHING_FOUND
        return NotFound() if nothing else _unknown(heard)

    async def _create_location(self) -> Location | Refused | Unknown:
        heard = await self._ask("POST", "/loc", LOCATIONS, limit_s=self._write_s, body={"tipoCob": "cob"})
        if isinstance(heard, _Heard) and heard.ok:
            made = _read(heard, _Location)
            if made is not None and 0 < len(made.location) <= 77 and "://" not in made.location:
                return Location(made.id, made.location)
            return Unknown("unreadable location")
        return _refusal(heard) or _unknown(heard)

    async def _received_window(self, since: datetime, until: datetime) -> list[ReceivedPix] | Unknown:
        found: list[ReceivedPix] = []
        for page in range(_PAGES_MOST):
            query = {
                "inicio": _rfc3339(since),
                "fim": _rfc3339(until),
                "paginacao.paginaAtual": str(page),
                "paginacao.itensPorPagina": str(_PER_PAGE),
            }
            heard = await self._ask("GET", "/pix", PIX, limit_s=self._read_s, query=query)
            answer = _read(heard, _Received) if isinstance(heard, _Heard) and heard.ok else None
            if answer is None:
                return _unknown(heard)
            for each in answer.pix or ():
                if each.txid is None:
                    continue  # paid to the key by hand, for no charge
                received = _received(each)
                if received is None:
                    return Unknown("unreadable pix")
                found.append(received)
            if page + 1 >= answer.parametros.paginacao.quantidade_de_paginas:
                return found
        return Unknown("too many pages")

    def _cob_body(self, cob: Cob) -> dict[str, Any]:
        # The bank counts from the moment it registers: an order that waited leaves the payer less.
        left_s = int((cob.created_at + timedelta(seconds=cob.expires_in_s) - self._now()).total_seconds())
        body: dict[str, Any] = {
            "calendario": {"expiracao": max(left_s, 1)},
            "valor": {"original": reais(cob.amount_cents)},
            "chave": cob.pix_key,
            "loc": {"id": cob.location_id},
        }
        text = safe_text(cob.description or "", MOST_DESCRIPTION_CHARACTERS)
        if text:
            body["solicitacaoPagador"] = text
        name = safe_text(cob.payer_name or "", 200)
        if name and cob.payer_document is not None:
            kind = "cpf" if len(cob.payer_document) == 11 else "cnpj"
            body["devedor"] = {kind: cob.payer_document, "nome": name}
        return body

    async def _ask(
        self,
        method: str,
        path: str,
        scopes: tuple[str, ...],
        *,
        limit_s: float,
        body: object = None,
        query: Mapping[str, str] | None = None,
    ) -> _Heard | Unknown:
        """One request, repeated once with a new token after a 401. Nothing else is ever repeated here."""
        heard: _Heard | Unknown = Unknown("never asked")
        for _ in range(2):
            token = await self._token(scopes)
            if isinstance(token, Unknown):
                return token
            heard = await self._request(
                method,
                self._api_url + path,
                limit_s=limit_s,
                params={**self._app_key, **(query or {})},
                headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
                data=None if body is None else msgspec.json.encode(body),
            )
            if not isinstance(heard, _Heard) or heard.status != 401:
                return heard
            if self._tokens.get(scopes, ("", 0.0))[0] == token:
                del self._tokens[scopes]
        return heard

    async def _token(self, scopes: tuple[str, ...]) -> str | Unknown:
        """A token with these scopes; one request at a time renews it for everybody."""
        clock = asyncio.get_running_loop().time
        async with self._renewing[scopes]:
            token, renew_at = self._tokens.get(scopes, ("", 0.0))
            if token and clock() < renew_at:
                return token
            asked_at = clock()
            heard = await self._request(
                "POST",
                self._oauth_url,
                limit_s=self._read_s,
                headers={"Authorization": self._basic},
                data={"grant_type": "client_credentials", "scope": " ".join(scopes)},
            )
            issued = _read(heard, _Token) if isinstance(heard, _Heard) and heard.ok else None
            if issued is None:
                return Unknown(f"token: {_unknown(heard).detail}")
            self._tokens[scopes] = (issued.access_token, asked_at + issued.expires_in - _RENEW_EARLY_S)
            return issued.access_token

    async def _request(self, method: str, url: str, *, limit_s: float, **given: Any) -> _Heard | Unknown:
        try:
            async with self._http.request(
                method,
                url,
                timeout=aiohttp.ClientTimeout(total=limit_s),
                ssl=self._tls,
                allow_redirects=False,
                **given,
            ) as response:
                body = bytearray()
                async for chunk in response.content.iter_any():
                    body += chunk
                    if len(body) > _ANSWER_BYTES_MOST:
                        return Unknown("answer too large")
                return _Heard(response.status, bytes(body))
        except _GONE as gone:
            return Unknown(type(gone).__name__)


def safe_text(text: str, most: int) -> str:
    """What the bank takes anywhere: letters without accents, digits and a few signs; may be empty."""
    folded = ascii_fold(text, len(text) * 4 + 1, otherwise=" ")
    return " ".join(_UNSAFE.sub(" ", folded).split())[:most].rstrip()


def _rfc3339(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _read(heard: _Heard, shape: type[Answer]) -> Answer | None:
    try:
        return msgspec.json.decode(heard.body, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _unknown(heard: _Heard | Unknown) -> Unknown:
    return heard if isinstance(heard, Unknown) else Unknown(f"HTTP {heard.status}")


def _refusal(heard: _Heard | Unknown) -> Refused | None:
    """The bank's own no, in any of its shapes; None for everything that is not one.

    G `{type, title, detail, violacoes}` (RFC 7807), A `{erros: [{codigo, mensagem}]}`. The gateway's shapes
    C, D and E and HTML say something about the request's way, not about the charge.
    """
    if not isinstance(heard, _Heard) or heard.status not in _NO:
        return None
    said = _read(heard, dict[str, Any])
    if said is None:
        return None
    kind = said.get("type")
    if isinstance(kind, str) and "/error/" in kind:
        reasons = [
            str(each["razao"])
            for each in said.get("violacoes") or ()
            if isinstance(each, dict) and isinstance(each.get("razao"), str)
        ]
        message = "; ".join(reasons) or str(said.get("detail") or said.get("title") or "")
        return Refused(kind.rpartition("/")[2][:60], message[:300])
    errors = said.get("erros")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict) and errors[0].get("codigo"):
        return Refused(str(errors[0]["codigo"])[:60], str(errors[0].get("mensagem") or "")[:300])
    return None


def _same(found: _Cob, cob: Cob) -> bool:
    """Is this the charge we asked for? Its lifetime may differ: the bank counts from its own moment."""
    location_id = found.loc.id if found.loc is not None else None
    return (
        found.txid == cob.txid
        and _cents(found.valor.original) == cob.amount_cents
        and found.chave in (None, cob.pix_key)
        and location_id in (None, cob.location_id)
    )


def _state(cob: _Cob) -> CobState | None:
    received = [_received(each, cob.txid) for each in cob.pix or ()]
    cents = _cents(cob.valor.original)
    if cents is None or None in received:
        return None
    return CobState(
        txid=cob.txid,
        status=cob.status,
        revisao=cob.revisao,
        amount_cents=cents,
        pix_key=cob.chave,
        location=cob.location or (cob.loc.location if cob.loc is not None else None),
        received=[each for each in received if each is not None],
    )


def _received(pix: _Pix, txid: str | None = None) -> ReceivedPix | None:
    cents, paid_at = _cents(pix.valor), _instant(pix.horario)
    txid = pix.txid or txid
    if cents is None or paid_at is None or txid is None or not pix.end_to_end_id.isalnum():
        return None
    payer = pix.pagador or _Devedor()
    document = payer.cpf or payer.cnpj
    return ReceivedPix(
        end_to_end_id=pix.end_to_end_id,
        txid=txid.strip(),
        amount_cents=cents,
        paid_at=paid_at,
        payer_name=payer.nome,
        payer_document=document if document and well_formed(document, letters=True) else None,
    )


def _cents(text: str) -> int | None:
    try:
        return parse_amount(text, most_cents=MOST_PIX_CENTS)
    except ValueError:
        return None


def _instant(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=SAO_PAULO)  # the bank thinks in Brasilia's time
