"""The daily work of merchants' programs, for locust: `locust -f bench/locustfile.py` against a running system.

Merchants come from the `dev.json` of a running `make up`, or from the command line for any other host; everything
happens in test mode, with test credentials. The users of a merchant share one token and renew it before it expires.

Each of the four classes is one kind of program; without a name on the command line all of them run. Tags pick tasks:
pix, boleto, lookup, list, feed, refund. `--quita-shape steady|ramp|spike` varies the number of users (`-u`) over the
run time (`-t`); without it locust's own behaviour applies.
"""

import itertools
import json
import os
import random
import secrets
import time
from argparse import Namespace
from collections import deque
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import gevent
import gevent.lock
from locust import FastHttpUser, LoadTestShape, User, between, constant_throughput, events, tag, task
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment

_RENEW_EARLY_S = 120.0
_KEPT_MAX = 500
_BOLETOS = "/v1/charges/boleto"
_RUN_S = 300.0  # the run time of a shape without -t
_USERS = 50  # the users of a shape without -u


def add_options(parser: LocustArgumentParser) -> None:
    parser.add_argument("--quita-dev", metavar="FILE", help="a dev.json ($QUITA_HOME/dev.json, else .quita/dev.json)")
    parser.add_argument("--quita-client-id", metavar="ID", help="a test credential, instead of dev.json")
    parser.add_argument("--quita-client-secret", metavar="SECRET", env_var="QUITA_CLIENT_SECRET", is_secret=True)
    parser.add_argument("--quita-account", metavar="ACCOUNT_ID", help="whose credential that is")
    parser.add_argument("--quita-shape", choices=["", *SHAPES], default="", help="how the number of users moves")
    parser.add_argument(
        "--quita-per-user",
        type=float,
        default=0.0,
        metavar="N",
        help="requests a second of each user (0: as people do)",
    )


def prepare(environment: Environment, **_: Any) -> None:
    options = environment.parsed_options
    assert options is not None
    dev = _read_dev(options)
    environment.host = environment.host or options.host or dev.get("base_url")
    for user_class in environment.user_classes:
        if options.quita_per_user:
            # Locust keeps this rate even when answers are slow.
            user_class.wait_time = constant_throughput(options.quita_per_user)
    chosen, left_out = set(options.tags or ()), set(options.exclude_tags or ())
    # Locust would also run user classes that the tags leave without tasks, and fail.
    environment.user_classes = [each for each in environment.user_classes if _has_task(each, chosen, left_out)]
    if options.quita_shape:
        environment.shape_class = SHAPES[options.quita_shape]()  # type: ignore[no-untyped-call]
        environment.shape_class.runner = environment.runner
    _merchants.clear()
    _merchants.extend(_merchants_of(options, dev))
    # The event loop's cached time is from before the imports, and the run time counts from it: on a busy machine, a run
    # of a few seconds ended before it began.
    gevent.get_hub().loop.update_now()


def _has_task(user_class: type[User], chosen: set[str], left_out: set[str]) -> bool:
    tags = [set(getattr(each, "locust_tag_set", ())) for each in user_class.tasks]
    return any((not chosen or chosen & of_task) and not left_out & of_task for of_task in tags)


class Merchant(NamedTuple):
    account_id: str
    client_id: str
    client_secret: str


_merchants: list[Merchant] = []
_tokens: dict[str, tuple[str, float]] = {}
_renewing = gevent.lock.BoundedSemaphore()
_numbers = itertools.count()


def _read_dev(options: Namespace) -> dict[str, Any]:
    """The dev.json; empty when a credential is named instead."""
    if options.quita_client_id:
        return {}
    dev_file = options.quita_dev
    path = Path(dev_file or Path(os.environ.get("QUITA_HOME") or ".quita") / "dev.json")
    try:
        dev: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SystemExit(
            f"locust: {path} cannot be read ({type(error).__name__}). Start the system with `make up`, name its file "
            "with --quita-dev, or a credential with --quita-client-id, --quita-client-secret and --quita-account."
        ) from None
    return dev


def _merchants_of(options: Namespace, dev: dict[str, Any]) -> list[Merchant]:
    if options.quita_client_id:
        if not options.quita_client_secret or not options.quita_account:
            raise SystemExit("locust: --quita-client-id needs --quita-client-secret and --quita-account as well.")
        return [Merchant(options.quita_account, options.quita_client_id, options.quita_client_secret)]
    complete = dev["merchants"][:2]  # the third has no address yet: its boletos are refused
    return [Merchant(each["account_id"], each["test"]["client_id"], each["test"]["client_secret"]) for each in complete]


class _Program(FastHttpUser):
    """The base of all programs: a token, requests that count unexpected answers as failures, the charges it made."""

    abstract = True
    wait_time = between(0.5, 2.0)
    network_timeout = 30.0
    connection_timeout = 10.0

    def on_start(self) -> None:
        self.merchant = _merchants[next(_numbers) % len(_merchants)]
        self.series = secrets.token_hex(6)
        self.made: deque[str] = deque(maxlen=_KEPT_MAX)
        self.paid: deque[str] = deque(maxlen=_KEPT_MAX)
        self.boletos: set[str] = set()
        self.listed: deque[str] = deque(maxlen=_KEPT_MAX)
        self.sequence = 0

    # The steps that tasks are made of

    def issue_pix(self) -> None:
        self._create("/v1/charges/pix", "issue PIX", {
            "account_id": self.merchant.account_id, "external_id": f"order-{self.series}", "amount": "149.90",
            "description": "Pedido da loja", "expires_in": 3600,
            "payer": {"name": "Maria da Silva", "document": "52998224725"},
        })  # fmt: skip

    def issue_boleto(self, kind: str) -> None:
        due = datetime.now(UTC).date() + timedelta(days=random.randint(5, 40))
        self._create(_BOLETOS, f"issue {kind}", {
            "tipo": kind, "valorCents": "249.90", "dataVencimento": due.isoformat(),
            "external_id": f"order-{self.series}",
            "pagador": {
                "nome": "Maria da Silva", "documento": "52998224725", "tipoPessoa": "PESSOA_FISICA", "cep": "01310100",
                "logradouro": "Avenida Paulista", "numero": "1578", "cidade": "Sao Paulo", "uf": "SP",
            },
        })  # fmt: skip

    def look_up(self) -> None:
        charge_ids = self.made or self.listed
        if not charge_ids:
            return self.list_charges()
        charge_id = random.choice(charge_ids)
        with self.ask("GET", f"/v1/charges/{charge_id}", "look up", 200) as answer:
            if answer.status_code == 200 and _charge_id(answer.content) != charge_id:
                answer.failure("another charge")
        return None

    def pay(self) -> None:
        if not self.made:
            return
        charge_id = self.made.pop()
        with self.ask("POST", f"/v1/charges/{charge_id}/simulate-payment", "simulate payment", 200) as answer:
            if answer.status_code == 200:
                if b'"status":"paid"' not in answer.content:
                    answer.failure("not paid")
                if charge_id not in self.boletos:  # a refund of a boleto needs a key to send it to
                    self.paid.append(charge_id)

    def cancel(self) -> None:
        if self.made:
            with self.ask("POST", f"/v1/charges/{self.made.pop()}/cancel", "cancel", 200):
                pass

    def refund(self) -> None:
        if not self.paid:
            self.issue_pix()
            self.pay()
        if not self.paid:
            return
        path = f"/v1/charges/{self.paid.popleft()}/refunds"
        with self.ask("POST", path, "refund", 201, key=f"{self.series}-{next(_numbers)}", json={"amount": "10.00"}):
            pass

    def list_charges(self) -> None:
        status = random.choice(("pending", "paid"))
        with self.ask("GET", f"/v1/charges?status={status}&limit=25", "list charges", 200) as answer:
            if answer.status_code == 200:
                self.listed.extend(each["charge_id"] for each in json.loads(answer.content)["data"])

    def list_payments(self) -> None:
        with self.ask("GET", "/v1/payments?limit=25", "list payments", 200):
            pass

    def poll_feed(self) -> None:
        with self.ask("GET", f"/v1/events?after_sequence={self.sequence}&limit=100", "feed", 200) as answer:
            if answer.status_code != 200:
                return
            page = json.loads(answer.content)["data"]
            numbers = [event["sequence"] for event in page]
            if numbers and numbers != list(range(self.sequence + 1, self.sequence + 1 + len(numbers))):
                answer.failure(f"the feed has a gap after {self.sequence}")
            self.sequence = numbers[-1] if numbers else self.sequence

    def ask(self, method: str, path: str, name: str, expected: int, *, key: str | None = None, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {self._token()}"} | ({"Idempotency-Key": key} if key else {})
        return _CheckedResponse(
            self.client.request(method, path, name=name, catch_response=True, headers=headers, **options), expected
        )

    def _create(self, path: str, name: str, body: dict[str, Any]) -> None:
        with self.ask("POST", path, name, 201, key=f"{self.series}-{next(_numbers)}", json=body) as answer:
            if answer.status_code == 201:
                self.made.append(_charge_id(answer.content))
                if path == _BOLETOS:
                    self.boletos.add(self.made[-1])

    def _token(self) -> str:
        with _renewing:
            token, renew_at = _tokens.get(self.merchant.client_id, ("", 0.0))
            if time.monotonic() < renew_at:
                return token
            body = {
                "grant_type": "client_credentials", "client_id": self.merchant.client_id,
                "client_secret": self.merchant.client_secret,
            }  # fmt: skip
            answer = self.client.request("POST", "/v1/oauth/token", name="token", json=body)
            if answer.status_code != 200:
                return ""  # counted as a failure; the next request asks again
            issued = json.loads(answer.content)
            renew_at = time.monotonic() + issued["expires_in"] - _RENEW_EARLY_S
            _tokens[self.merchant.client_id] = (issued["access_token"], renew_at)
            return str(issued["access_token"])


class PixMerchant(_Program):
    """A shop that sells by PIX: issues charges, looks whether they were paid, cancels some, refunds a few."""

    weight = 4

    @tag("pix")
    @task(10)
    def issue(self) -> None:
        self.issue_pix()

    @tag("lookup")
    @task(6)
    def look(self) -> None:
        self.look_up()

    @tag("pix")
    @task(4)
    def be_paid(self) -> None:
        self.pay()

    @tag("pix")
    @task(1)
    def call_off(self) -> None:
        self.cancel()

    @tag("refund")
    @task(1)
    def give_back(self) -> None:
        self.refund()


class BoletoMerchant(_Program):
    """A school that sends boletos, plain and hybrid, and follows the feed."""

    weight = 1

    @tag("boleto")
    @task(4)
    def issue_plain(self) -> None:
        self.issue_boleto("boleto")

    @tag("boleto")
    @task(4)
    def issue_hybrid(self) -> None:
        self.issue_boleto("boleto_hibrido")

    @tag("lookup")
    @task(4)
    def look(self) -> None:
        self.look_up()

    @tag("boleto")
    @task(1)
    def be_paid(self) -> None:
        self.pay()

    @tag("feed")
    @task(2)
    def follow(self) -> None:
        self.poll_feed()


class Reader(_Program):
    """An accounting program: lists charges, looks them up, reads balance and ledger. It changes nothing."""

    weight = 2

    @tag("list")
    @task(4)
    def charges(self) -> None:
        self.list_charges()

    @tag("lookup")
    @task(8)
    def look(self) -> None:
        self.look_up()

    @tag("list")
    @task(2)
    def payments(self) -> None:
        self.list_payments()

    @tag("feed")
    @task(3)
    def follow(self) -> None:
        self.poll_feed()

    @tag("list")
    @task(1)
    def books(self) -> None:
        for path in ("balance", "ledger?limit=25"):
            with self.ask("GET", f"/v1/accounts/{self.merchant.account_id}/{path}", path.partition("?")[0], 200):
                pass


class MixedMerchant(_Program):
    """A mix: of 100 requests 50 issue PIX, 4 boletos, 25 look up, 10 list, 5 poll the feed, 5 pay, 1 refunds."""

    weight = 3

    @tag("pix")
    @task(50)
    def issue(self) -> None:
        self.issue_pix()

    @tag("boleto")
    @task(4)
    def issue_slow(self) -> None:
        self.issue_boleto(random.choice(("boleto", "boleto_hibrido")))

    @tag("lookup")
    @task(25)
    def look(self) -> None:
        self.look_up()

    @tag("list")
    @task(10)
    def charges(self) -> None:
        self.list_charges()

    @tag("feed")
    @task(5)
    def follow(self) -> None:
        self.poll_feed()

    @tag("pix")
    @task(5)
    def be_paid(self) -> None:
        self.pay()

    @tag("refund")
    @task(1)
    def give_back(self) -> None:
        self.refund()


class _Shape(LoadTestShape):
    """Varies the number of users over the run time; `-u` is the maximum."""

    abstract = True  # as in all shapes: locust would use the first shape it finds, but --quita-shape chooses
    use_common_options = True
    moves: ClassVar[tuple[tuple[float, float], ...]]
    """Points (share of the run time, share of the users), with straight lines between them."""

    def tick(self) -> tuple[int, float] | None:
        assert self.runner is not None
        options = self.runner.environment.parsed_options
        assert options is not None
        users, run_s = options.num_users or _USERS, float(options.run_time or _RUN_S)
        at = float(self.get_run_time()) / run_s  # type: ignore[no-untyped-call]
        if at >= 1:
            return None
        for (begun, low), (ended, high) in itertools.pairwise(self.moves):
            if at < ended:
                share = low + (high - low) * (at - begun) / (ended - begun)
                return max(round(users * share), 1), float(users)
        return users, float(users)


class Steady(_Shape):
    """All users during the whole run."""

    abstract = True
    moves = ((0.0, 1.0), (1.0, 1.0))


class Ramp(_Shape):
    """A rising number of users for four fifths of the time, then all users."""

    abstract = True
    moves = ((0.0, 0.0), (0.8, 1.0), (1.0, 1.0))


class Spike(_Shape):
    """A fifth of the users, then all of them for a fifth of the time, then a fifth again."""

    abstract = True
    moves = ((0.0, 0.2), (0.4, 0.2), (0.401, 1.0), (0.6, 1.0), (0.601, 0.2), (1.0, 0.2))


SHAPES = {"steady": Steady, "ramp": Ramp, "spike": Spike}


class _CheckedResponse:
    """A response that counts as a failure unless it has the expected status."""

    def __init__(self, response: Any, expected: int) -> None:
        self._response = response
        self._expected = expected

    def __enter__(self) -> Any:
        answer = self._response.__enter__()
        if answer.status_code != self._expected:
            answer.failure(f"{answer.status_code} {bytes(answer.content or b'')[:150]!r}")
        return answer

    def __exit__(self, *error: Any) -> Any:
        return self._response.__exit__(*error)


def _charge_id(body: bytes) -> str:
    # A charge begins with its charge_id. Decoding the whole answer, with its QR image, would cost too much here.
    prefix = b'{"charge_id":"'
    return body[len(prefix) : len(prefix) + 36].decode() if body.startswith(prefix) else ""


events.init_command_line_parser.add_listener(add_options)  # type: ignore[no-untyped-call]
events.init.add_listener(prepare)  # type: ignore[no-untyped-call]
