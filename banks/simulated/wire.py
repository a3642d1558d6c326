"""The simulated bank over HTTP: Banco do Brasil's variant of API Pix v2, OAuth, locations.

Further deviations of the real bank can be switched on for tests: `quirks` holds any of "textoImagemQRcode" (instead of
pixCopiaECola), "put_200" (instead of 201) and "shape_a" (errors as {erros: [...]}).
"""

import asyncio
import hmac
import re
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from aiohttp import web
from msgspec import Struct

from banks.protocol import DESCRIPTION_CHARACTERS_MAX, RECEIVED_WIDTH_MAX, Cob, Location, NotFound, Rejected
from banks.simulated.bank import NOT_ACTIVE, PAGE, BookedCob, BookedPix, PlayedFault, SimulatedBank
from banks.simulated.cobvs import REMOVED
from banks.simulated.shown import shown_pix, shown_return
from banks.simulated.signing import JWKS_PATH, MEDIA_TYPE, PROBLEM_TYPE, Signer, payload, problem
from domain.documents import well_formed
from domain.instants import iso
from domain.money import PIX_CENTS_MAX, parse_amount, reais
from domain.pix.br_code import dynamic_br_code
from runtime.batching import Batcher
from runtime.postgres import DB_UNAVAILABLE

SLOW_S = 5.0
PAGES_MAX = 1_000
SCOPES: Final = frozenset(
    {
        "cob.read", "cob.write", "cobv.read", "cobv.write", "pix.read", "pix.write", "webhook.read", "webhook.write",
        "payloadlocation.read", "payloadlocation.write", "cobrancas.boletos-info", "cobrancas.boletos-requisicao",
    }
)  # fmt: skip

_AMOUNT = re.compile(r"[0-9]{1,10}\.[0-9]{2}")
_TXID = re.compile(r"[a-zA-Z0-9]{26,35}")
BODY_BYTES_MAX = 64 * 1024
_LIFETIME_S_MAX = 2**31 - 1
_HANG_S = 60.0
_BATCH = 200
_HANG_LOOK_S = 0.1
_HTML = "<html><body><h1>Sistema em manutenção</h1></body></html>"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Access(Struct, frozen=True, kw_only=True):
    """The one application registered at the bank."""

    client_id: str
    client_secret: str
    app_key: str
    app_key_param: str = "gw-dev-app-key"
    token_key: bytes
    """Tokens are signed, not stored, so they survive a restart of the bank."""
    token_life_s: int = 600


class Invalid(Exception):
    """A request the bank refuses; `kind` is the last part of the problem's type."""

    def __init__(self, kind: str, status: int, detail: str, *, of: str | None = None, value: str = "") -> None:
        super().__init__(kind)
        self.kind = kind
        self.status = status
        self.detail = detail
        self.violations = [{"razao": detail, "propriedade": of, "valor": value}] if of is not None else None


@web.middleware
async def books_may_be_away(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer 503 while PostgreSQL is unavailable; the request may have been performed all the same."""
    try:
        return await handler(request)
    except DB_UNAVAILABLE:
        body = problem("ServicoIndisponivel", 503, "Indisponível", "Tente novamente.")
        return web.Response(body=body, status=503, content_type=PROBLEM_TYPE)


class Wire:
    """The handlers of API Pix, and the fault they simulate (`fault`, one of FAULTS)."""

    def __init__(
        self,
        bank: SimulatedBank,
        signer: Signer,
        access: Access,
        *,
        quirks: frozenset[str] = frozenset(),
        slow_s: float = SLOW_S,
    ) -> None:
        self.bank = bank
        self.fault = "up"
        self.pages_max = PAGES_MAX
        """The most pages of received PIX; an interval with more is refused."""
        self._signer = signer
        self._access = access
        self._quirks = quirks
        self._slow_s = slow_s
        self.delay_s: float | None = None
        """The requested delay for `slow`; None for the default."""
        # Batching turns hundreds of requests a second into a few statements: this bank must not be the bottleneck of a
        # bench.
        self._puts = Batcher(bank.put_cobs, lanes=2, batch_max=_BATCH)
        self._looks = Batcher(bank.booked_cobs, lanes=2, batch_max=_BATCH)
        self._places = Batcher(self._make_places, lanes=2, batch_max=_BATCH)
        self._epoch = 0
        self.app_key_param = access.app_key_param

    def play(self, played: PlayedFault) -> None:
        """Simulate this fault from now on."""
        self.fault = played.fault
        self.delay_s = None if played.delay_ms is None else played.delay_ms / 1_000

    def forget_tokens(self) -> None:
        """Invalidate all tokens issued so far."""
        self._epoch += 1

    def routes(self) -> list[web.RouteDef]:
        api = self.admitted
        return [
            web.post("/oauth/token", self.faulty(self.token)),
            web.put("/pix/v2/cob/{txid}", api(self.put_cob, "cob.write")),
            web.patch("/pix/v2/cob/{txid}", api(self.patch_cob, "cob.write")),
            web.get("/pix/v2/cob/{txid}", api(self.get_cob, "cob.read")),
            web.post("/pix/v2/loc", api(self.post_location, "payloadlocation.write")),
            web.get("/pix/v2/pix", api(self.list_pix, "pix.read")),
            web.get("/pix/v2/pix/{e2eid}", api(self.get_pix, "pix.read")),
            web.put("/pix/v2/webhook/{key}", api(self.put_webhook, "webhook.write")),
            web.get("/pix/v2/webhook/{key}", api(self.get_webhook, "webhook.read")),
            web.get(JWKS_PATH, self.faulty(self.jwks)),
            web.get("/pix/v2/{token}", self.faulty(self.location)),
        ]

    # Authentication

    def faulty(self, handle: Handler) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            fault = self.fault
            if fault == "down":
                _cut(request)
            if fault == "slow":
                # Read the body first, so that the request is performed even if the caller disconnects meanwhile.
                await request.read()
                await asyncio.sleep(self._slow_s if self.delay_s is None else self.delay_s)
            if fault == "timeout_before" and _changes(request):
                await _hang(request)
            if fault == "error500" and not _asks_token(request):
                return self._problem(Invalid("ErroInternoDoServidor", 500, "Erro inesperado."))
            if fault == "html" and not _asks_token(request):
                return web.Response(text=_HTML, content_type="text/html")
            try:
                response = await handle(request)
            except Invalid as invalid:
                response = self._problem(invalid)
            # Reads are answered, so that a caller whose answer was lost can find out what happened.
            if fault == "lost_reply" and _changes(request):
                _cut(request)
            if fault == "cut" and _changes(request):
                await _break_off(request, response)
            return response

        return answer

    def admitted(self, handle: Handler, scope: str) -> Handler:
        async def admitted(request: web.Request) -> web.StreamResponse:
            granted = self._granted(request)
            if granted is None:
                return _unauthorized()
            key = request.query.get(self._access.app_key_param, "")
            if not hmac.compare_digest(key.encode(), self._access.app_key.encode()):
                return web.json_response(
                    {"detail": "AppKey invalida.", "userHelp": "Informe a chave da aplicacao."}, status=403
                )
            if scope not in granted:
                raise Invalid("AcessoNegado", 403, f"O token não tem o escopo {scope}.")
            return await handle(request)

        return self.faulty(admitted)

    def _problem(self, invalid: Invalid) -> web.Response:
        if "shape_a" in self._quirks:
            error = {"codigo": "4874000", "versao": "1", "mensagem": invalid.detail, "ocorrencia": "-"}
            return web.json_response({"erros": [error]}, status=invalid.status)
        body = problem(invalid.kind, invalid.status, invalid.kind, invalid.detail, invalid.violations)
        return web.Response(body=body, status=invalid.status, content_type=PROBLEM_TYPE)

    # OAuth

    async def token(self, request: web.Request) -> web.Response:
        if request.content_type != "application/x-www-form-urlencoded":
            return _oauth_error("invalid_request", "form encoding is needed")
        form = await request.post()
        if form.get("grant_type") != "client_credentials":
            return _oauth_error("unsupported_grant_type", "client_credentials is needed")
        if not self._known(request.headers.get("Authorization", "")):
            return _unauthorized()
        asked = str(form.get("scope", "")).split()
        if not asked or not SCOPES.issuperset(asked):
            return _oauth_error("invalid_scope", "the application does not hold these scopes")
        life_s = self._access.token_life_s
        token = self._issue(asked, int(self.bank.now().timestamp()) + life_s)
        shown = {
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": life_s,
            "scope": " ".join(asked),
        }
        return web.json_response(shown, status=201)

    def _known(self, authorization: str) -> bool:
        kind, _, given = authorization.partition(" ")
        try:
            pair = b64decode(given, validate=True)
        except NotBase64:
            return False
        wanted = f"{self._access.client_id}:{self._access.client_secret}".encode()
        return kind.lower() == "basic" and hmac.compare_digest(pair, wanted)

    def _issue(self, scopes: list[str], until: int) -> str:
        said = urlsafe_b64encode(f"{until} {' '.join(scopes)}".encode())
        return (said + b"." + self._mac(said)).decode()

    def _mac(self, said: bytes) -> bytes:
        return hmac.new(self._access.token_key, b"%d." % self._epoch + said, "sha256").hexdigest().encode()

    def _granted(self, request: web.Request) -> frozenset[str] | None:
        """Return the scopes of a valid bearer token, else None."""
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        said, _, mac = token.encode("utf-8", "surrogateescape").partition(b".")
        if kind.lower() != "bearer" or not hmac.compare_digest(mac, self._mac(said)):
            return None
        until, *scopes = urlsafe_b64decode(said).decode().split()
        return frozenset(scopes) if self.bank.now().timestamp() < int(until) else None

    # Charges

    async def put_cob(self, request: web.Request) -> web.Response:
        body = await asked_json(request)
        if self.fault == "refuse":
            raise Invalid("CobOperacaoInvalida", 400, "Recusada a pedido.", of="cob")
        cob = _cob(request.match_info["txid"], body, now=self.bank.now())
        put = await self._puts.submit(cob)
        if put is NOT_ACTIVE:
            raise Invalid(NOT_ACTIVE.code, 400, NOT_ACTIVE.message, of="cob.status")
        if isinstance(put, Rejected):
            raise Invalid(put.code, 400, put.message, of="cob.loc.id", value=str(cob.location_id))
        put_now = await self._booked(cob.txid)
        return web.json_response(self.shown(put_now), status=200 if "put_200" in self._quirks else 201)

    async def patch_cob(self, request: web.Request) -> web.Response:
        body = await asked_json(request)
        txid = request.match_info["txid"]
        if list(body) == ["calendario"]:
            revised = await self.bank.revise(txid, _lifetime_s(body))
        elif body == {"status": REMOVED}:
            revised = await self.bank.remove_cob(txid)
        else:
            detail = "Só a remoção ou outra expiração é aceita, sozinha."
            raise Invalid("CobOperacaoInvalida", 400, detail, of="cob.status")
        if isinstance(revised, NotFound):
            raise _not_found()
        if isinstance(revised, Rejected):
            raise Invalid(revised.code, 400, revised.message, of="cob.status")
        return web.json_response(self.shown(await self._booked(txid)))

    async def get_cob(self, request: web.Request) -> web.Response:
        cob = await self._booked(request.match_info["txid"])
        return web.json_response(self.shown(cob) | await self.received_of(cob))

    async def received_of(self, cob: BookedCob) -> dict[str, Any]:
        """Return the charge's payments as `pix`, which is left out if there are none."""
        pix = await self.bank.pix_of(cob.txid)
        return {"pix": await self._shown(pix)} if pix else {}

    async def _booked(self, txid: str) -> BookedCob:
        cob = await self._looks.submit(txid)
        if cob is None or cob.due_on is not None:
            raise _not_found()
        return cob

    def shown(self, cob: BookedCob) -> dict[str, Any]:
        code = dynamic_br_code(location=cob.location, amount_cents=cob.amount_cents, name="RECEBEDOR", city="BRASILIA")
        shown: dict[str, Any] = {
            "calendario": {"criacao": iso(cob.created_at), "expiracao": cob.expires_in_s},
            "txid": cob.txid,
            "revisao": cob.revisao,
            "loc": {"id": cob.location_id, "location": cob.location, "tipoCob": "cob"},
            "location": cob.location,
            "status": cob.status,
            "valor": {"original": reais(cob.amount_cents)},
            "chave": cob.pix_key,
            "textoImagemQRcode" if "textoImagemQRcode" in self._quirks else "pixCopiaECola": code,
        }
        if cob.description is not None:
            shown["solicitacaoPagador"] = cob.description
        payer = self.bank.payer(cob)
        if payer is not None and payer.document is not None:
            shown["devedor"] = {
                "cpf" if len(payer.document) == 11 else "cnpj": payer.document,
                "nome": payer.name,
            }
        return shown

    # Locations

    async def post_location(self, request: web.Request) -> web.Response:
        kind = (await asked_json(request)).get("tipoCob")
        if kind not in ("cob", "cobv"):
            raise Invalid("PayloadLocationOperacaoInvalida", 400, "Só cob e cobv são aceitos.", of="tipoCob")
        location = await self._places.submit(None)
        shown = {"id": location.location_id, "location": location.location, "tipoCob": kind}
        return web.json_response({**shown, "criacao": iso(self.bank.now())}, status=201)

    async def _make_places(self, asked: Sequence[None]) -> list[Location]:
        return (await self.bank.create_locations(len(asked))).value

    async def jwks(self, request: web.Request) -> web.Response:
        return web.Response(body=self._signer.jwks, content_type="application/json")

    async def location(self, request: web.Request) -> web.Response:
        cob = await self.bank.booked_at(request.match_info["token"])
        if cob is None:
            raise Invalid("CobPayloadNaoEncontrado", 404, "Não há cobrança nesta location.")
        signed = self._signer.sign(payload(cob, now=self.bank.now()))
        return web.Response(body=signed, content_type=MEDIA_TYPE)

    # Received

    async def list_pix(self, request: web.Request) -> web.Response:
        since, until = asked_interval(request)
        page, per_page = asked_page(request)
        if (txid := request.query.get("txid")) is not None:
            of_txid = [pix for pix in await self.bank.pix_of(txid) if since <= pix.paid_at <= until]
            rows, total = of_txid[page * per_page : (page + 1) * per_page], len(of_txid)
        else:
            returned = request.query.get("devolucaoPresente") == "true"
            rows, total = await self.bank.pix_page(since, until, page=page, per_page=per_page, returned=returned)
        if total > per_page * self.pages_max:
            raise Invalid("PixConsultaInvalida", 400, "Há Pix demais no intervalo.", of="fim")
        paging = shown_paging(page, per_page, total)
        shown: dict[str, Any] = {"parametros": {"inicio": iso(since), "fim": iso(until), "paginacao": paging}}
        if rows:  # the real bank leaves out an empty list
            shown["pix"] = await self._shown(rows)
        return web.json_response(shown)

    async def get_pix(self, request: web.Request) -> web.Response:
        pix = await self.bank.booked_pix(request.match_info["e2eid"])
        if pix is None:
            raise Invalid("PixNaoEncontrado", 404, "O Pix não foi encontrado.")
        (shown,) = await self._shown([pix])
        return web.json_response(shown)

    async def _shown(self, pix: Sequence[BookedPix]) -> list[dict[str, Any]]:
        returns: dict[str, list[dict[str, Any]]] = {}
        for each in await self.bank.transfers.returns_of([each.end_to_end_id for each in pix]):
            returns.setdefault(each.end_to_end_id, []).append(shown_return(self.bank.transfers, each))
        return [shown_pix(each, returns.get(each.end_to_end_id, ())) for each in pix]

    # Callbacks

    async def put_webhook(self, request: web.Request) -> web.Response:
        body = await asked_json(request)
        url = body.get("webhookUrl")
        if not isinstance(url, str) or not url.startswith(("https://", "http://")) or len(url) > 2048:
            raise Invalid("WebhookOperacaoInvalida", 400, "A URL não é aceita.", of="webhookUrl")
        await self.bank.register_callback(request.match_info["key"], url)
        return web.json_response({"webhookUrl": url})

    async def get_webhook(self, request: web.Request) -> web.Response:
        callback = await self.bank.callback(request.match_info["key"])
        if callback is None:
            raise Invalid("WebhookNaoEncontrado", 404, "Não há webhook para a chave.")
        shown = {"webhookUrl": callback.url, "chave": callback.pix_key, "criacao": iso(callback.created_at)}
        return web.json_response(shown)


def _cob(txid: str, body: dict[str, Any], *, now: datetime) -> Cob:
    """Read the cob of a PUT; Invalid names the first property that breaks a rule of the standard."""
    if _TXID.fullmatch(txid) is None:
        raise Invalid("CobOperacaoInvalida", 400, "O txid não respeita o schema.", of="txid", value=txid[:40])
    amount = _object(body, "valor").get("original")
    amount_cents = asked_cents(amount)
    if amount_cents is None:
        raise _schema("cob.valor.original", amount)
    lifetime_s = _lifetime_s(body)
    key = body.get("chave")
    if not isinstance(key, str) or not 0 < len(key) <= 77:
        raise _schema("cob.chave", key)
    location_id = _object(body, "loc").get("id")
    if type(location_id) is not int or not 0 < location_id < 2**63:
        raise _schema("cob.loc.id", location_id)
    text = body.get("solicitacaoPagador")
    if text is not None and not is_plain_text(text):
        raise _schema("cob.solicitacaoPagador", text)
    payer = _object(body, "devedor")
    document = payer.get("cpf") or payer.get("cnpj")
    name = payer.get("nome")
    if payer and not (isinstance(document, str) and well_formed(document, letters=True) and isinstance(name, str)):
        raise _schema("cob.devedor", document)
    return Cob(
        txid=txid,
        amount_cents=amount_cents,
        created_at=now,
        expires_in_s=lifetime_s,
        location_id=location_id,
        pix_key=key,
        description=text,
        payer_name=name,
        payer_document=document,
    )


def _lifetime_s(body: dict[str, Any]) -> int:
    lifetime_s = _object(body, "calendario").get("expiracao", 86_400)
    if type(lifetime_s) is not int or not 0 < lifetime_s <= _LIFETIME_S_MAX:
        raise _schema("cob.calendario.expiracao", lifetime_s)
    return lifetime_s


async def asked_json(request: web.Request) -> dict[str, Any]:
    if request.content_type != "application/json":
        raise Invalid("RequisicaoInvalida", 400, "O conteúdo deve ser application/json.")
    body = await request.read()
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise Invalid("RequisicaoInvalida", 400, "O conteúdo não é JSON.") from None


def asked_cents(given: object) -> int | None:
    """Read an amount, or a percentage in hundredths; None if it breaks the schema."""
    if not isinstance(given, str) or _AMOUNT.fullmatch(given) is None:
        return None
    try:
        return parse_amount(given, cents_max=PIX_CENTS_MAX)
    except ValueError:
        return None


def is_plain_text(given: object) -> bool:
    """Whether this is a text as the schemas of a charge and of sent money ask."""
    return isinstance(given, str) and len(given) <= DESCRIPTION_CHARACTERS_MAX and given.isascii() and "\0" not in given


def _object(body: dict[str, Any], name: str) -> dict[str, Any]:
    found = body.get(name, {})
    if not isinstance(found, dict):
        raise _schema(f"cob.{name}", found)
    return found


def asked_interval(request: web.Request) -> tuple[datetime, datetime]:
    """Read the interval of a list, from `inicio` to `fim`."""
    since, until = _instant(request, "inicio"), _instant(request, "fim")
    if not timedelta() <= until - since <= RECEIVED_WIDTH_MAX:
        raise Invalid("PixConsultaInvalida", 400, "O intervalo vai até 5 dias.", of="fim")
    return since, until


def asked_page(request: web.Request) -> tuple[int, int]:
    """Read the page (from 0) and the number of items per page."""
    page = _number(request, "paginacao.paginaAtual", 0, maximum=1_000_000)
    return page, _number(request, "paginacao.itensPorPagina", PAGE, maximum=PAGE) or PAGE


def shown_paging(page: int, per_page: int, total: int) -> dict[str, int]:
    return {
        "paginaAtual": page,
        "itensPorPagina": per_page,
        "quantidadeDePaginas": -(-total // per_page),
        "quantidadeTotalDeItens": total,
    }


def _instant(request: web.Request, name: str) -> datetime:
    try:
        at = datetime.fromisoformat(request.query.get(name, ""))
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise Invalid("PixConsultaInvalida", 400, "Não é um instante RFC 3339.", of=name)
    return at


def _number(request: web.Request, name: str, default: int, *, maximum: int) -> int:
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 9 and int(text) <= maximum):
        raise Invalid("PixConsultaInvalida", 400, "Não é um número aceito.", of=name, value=text[:40])
    return int(text)


def _schema(of: str, value: object) -> Invalid:
    return Invalid("CobOperacaoInvalida", 400, "O campo não respeita o schema.", of=of, value=str(value)[:100])


def _not_found() -> Invalid:
    return Invalid("CobNaoEncontrado", 404, "A cobrança não foi encontrada.")


def _unauthorized() -> web.Response:
    message = "Bad Credentials"
    body = {"statusCode": 401, "error": "Unauthorized", "message": message, "attributes": {"error": message}}
    return web.json_response(body, status=401)


def _oauth_error(error: str, description: str) -> web.Response:
    return web.json_response({"error": error, "error_description": description}, status=400)


def _asks_token(request: web.Request) -> bool:
    return request.path == "/oauth/token"


def _changes(request: web.Request) -> bool:
    """Whether the request changes something under an id of the caller's, which can be read if the answer is lost; a new
    location has no such id."""
    return request.method in ("PUT", "PATCH") or (request.method == "POST" and request.path.startswith("/cobrancas/"))


async def _hang(request: web.Request) -> None:
    """Answer nothing until the caller disconnects."""
    for _ in range(int(_HANG_S / _HANG_LOOK_S)):
        if request.transport is None or request.transport.is_closing():
            break
        await asyncio.sleep(_HANG_LOOK_S)
    _cut(request)


async def _break_off(request: web.Request, response: web.StreamResponse) -> None:
    """Send half of an answer, with the Content-Length of the whole."""
    assert isinstance(response, web.Response)
    body = response.body if isinstance(response.body, bytes) else b""
    broken = web.StreamResponse(status=response.status, headers={"Content-Type": response.content_type})
    broken.content_length = len(body)
    await broken.prepare(request)
    await broken.write(body[: len(body) // 2])
    _cut(request)


def _cut(request: web.Request) -> None:
    """Close the connection without an answer, as when the bank is down."""
    if request.transport is not None:
        request.transport.abort()
    raise web.HTTPServiceUnavailable
