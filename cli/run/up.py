"""`quita up`: everything on one machine, in the foreground, until Ctrl-C.

PostgreSQL and Valkey (unless DATABASE_URL and REDIS_URL name others), migrations, demo merchants, then the API, the
workers and the simulated bank as children. A second start in the same home keeps all data.
"""

import argparse
import asyncio
import contextlib
import os
import secrets
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from cli import running
from cli.answer import Commands
from cli.cells.upgrade import migrate_cells
from cli.run.cell_workers import CellWatch
from cli.run.child import CannotRun, Child, Port
from cli.run.serve import api_children, is_ready, locked, make_metrics_folder, reachable, serve_metrics
from cli.run.supervise import Supervisor, say
from runtime.limits.variables import whole_number
from runtime.local.embedded import EmbeddedPostgres, EmbeddedRedis
from runtime.local.files import write_private
from runtime.local.ports import port_is_free, remembered_port
from runtime.local.postgres_account import CannotStart
from runtime.production import is_loopback
from runtime.settings import Settings, read_settings

_READY_S_MAX = 60.0
_REACH_S_MAX = 5.0
_WORKER = (sys.executable, "-m", "workers")
_ROOT = Path(__file__).resolve().parents[2]

# Two approved merchants, and one that must still complete its registration.
_DEMO_MERCHANTS = (
    ("Padaria Aurora", True, "approved"),
    ("Oficina Boa Vista", True, "approved"),
    ("Livraria Ipê", False, "pending"),
)


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("up", help="run everything on this machine, until Ctrl-C")
    parser.set_defaults(run=up)


def up(_: argparse.Namespace) -> int:
    home = running.home()
    _make_home(home)
    with locked(home):
        supervisor = Supervisor(home / "logs")
        try:
            return _run(home, supervisor)
        except CannotStart as error:
            raise CannotRun(str(error)) from None
        finally:
            supervisor.stop()
            with contextlib.suppress(OSError):
                (home / "run.json").unlink(missing_ok=True)


def _run(home: Path, supervisor: Supervisor) -> int:
    (home / "dev.json").unlink(missing_ok=True)  # written again when the API answers
    env = _environment(home)
    host, number = env.get("HOST") or "127.0.0.1", _whole_number(env, "PORT", 8000)
    processes = _whole_number(env, "API_PROCESSES", 2)
    port = Port(host, number, processes)  # before all else, because a port in use is the likeliest fault
    own_bank = not _has_bank_url(env)
    workers = _worker_environments(env, _whole_number(env, "WORKER_PROCESSES", 1))
    env["METRICS_PORT"] = str(_metrics_port(env, home))
    owner_url = _start_servers(home, env, supervisor)
    if own_bank:
        env["BANK_PORT"] = str(_bank_port(env, home))
        env["BANK_URL"] = f"http://127.0.0.1:{env['BANK_PORT']}"
    settings = _settings(env)
    merchants, staff = asyncio.run(_migrate_and_seed(settings, owner_url, home))
    supervisor.drain_s = settings.watching.drain_s
    if supervisor.stopping:
        return 0
    serve_metrics(supervisor, settings)

    # A process takes two seconds of a core to start: the other API processes start after the first is ready.
    first, *others = api_children(processes, port, env, supervisor.log("api"))
    supervisor.add(first)
    for worker_env in workers:
        supervisor.add(Child("worker", _WORKER, env=env | worker_env, log=supervisor.log("worker")))
    if own_bank:
        supervisor.add(_simulated_bank(env, settings, supervisor.log("bank")))

    ready_at = 0.0

    def write_state() -> None:
        state = _running_state(home, settings, owner_url, ready_at, supervisor.pids())
        try:
            write_private(home / "run.json", msgspec.json.encode(state))
        except OSError as error:  # a full disk must not end the supervisor; the next change writes the file again
            say(f"run.json cannot be written: {error.strerror}")

    def announce() -> None:
        nonlocal ready_at
        ready_at = time.time()
        for child in others:
            supervisor.add(child)
        supervisor.tend()
        details = {
            "base_url": settings.base_url,
            "app_url": settings.app_url,
            "docs_url": settings.docs_url,
            "bank_url": settings.bank_url,
            "merchants": merchants,
            "staff": staff,
        }
        write_private(home / "dev.json", msgspec.json.format(msgspec.json.encode(details)) + b"\n")
        _greet(settings, merchants)

    supervisor.on_tick(_cell_workers_tick(supervisor, CellWatch(settings), env, len(workers)))
    supervisor.on_change(write_state)
    supervisor.run(ready=lambda: is_ready(settings.host, settings.port), on_ready=announce, ready_s_max=_READY_S_MAX)
    say("stopping")
    return 0


def _cell_workers_tick(
    supervisor: Supervisor, cells: CellWatch, env: dict[str, str], workers: int
) -> Callable[[], None]:
    """Returns the tick function that adds workers for each new cell of the directory, as many as home has."""
    shared = {name: value for name, value in env.items() if name != "WORKER_PORT"}

    def add_workers() -> None:
        for number in cells.new():
            for _ in range(workers):
                worker_env = shared | {"CELL": str(number)}
                supervisor.add(Child("worker", _WORKER, env=worker_env, log=supervisor.log("worker")))

    return add_workers


def _settings(env: dict[str, str]) -> Settings:
    try:
        return read_settings(env)
    except ValueError as error:
        raise CannotRun(str(error)) from None


def _has_bank_url(env: dict[str, str]) -> bool:
    """Whether BANK_URL names a bank; CannotRun when that bank is not on this machine."""
    if env.get("BANK_URL") and not is_loopback(env["BANK_URL"]):
        raise CannotRun("`quita up` is local work: for a bank elsewhere see docs/production.md (`quita serve`)")
    return bool(env.get("BANK_URL"))


def _running_state(
    home: Path, settings: Settings, owner_url: str, ready_at: float, pids: dict[str, list[int]]
) -> running.Running:
    return running.Running(
        home=str(home),
        host=settings.host,
        port=settings.port,
        ready_at=ready_at,
        database_url=settings.database_url,
        database_owner_url=owner_url,
        database_report_url=settings.database_report_url,
        redis_url=settings.redis_url,
        base_url=settings.base_url,
        app_url=settings.app_url,
        docs_url=settings.docs_url,
        bank_url=settings.bank_url,
        metrics_port=settings.watching.metrics_port or 0,
        webhook_allow_private=settings.webhook_allow_private,
        webhook_nameservers=settings.webhook_nameservers,
        pids=pids,
    )


def _start_servers(home: Path, env: dict[str, str], supervisor: Supervisor) -> str:
    """Starts PostgreSQL and Redis where `env` names none, and puts their addresses there. Returns the address for the
    owner of the tables, which no child process may know."""
    if not env.get("DATABASE_URL"):
        postgres = EmbeddedPostgres()
        supervisor.add_server(postgres)
        postgres.start(home, fsync=env.get("QUITA_FSYNC", "on") != "off")
        env["DATABASE_URL"], env["DATABASE_OWNER_URL"] = postgres.app_dsn, postgres.dsn
        env["DATABASE_REPORT_URL"] = postgres.report_dsn
    if not env.get("REDIS_URL"):
        redis = EmbeddedRedis()
        supervisor.add_server(redis)
        redis.start(home)
        env["REDIS_URL"] = redis.dsn
    return env.pop("DATABASE_OWNER_URL", "") or env["DATABASE_URL"]


def _make_home(home: Path) -> None:
    try:
        home.mkdir(mode=0o711, parents=True, exist_ok=True)
        (home / "logs").mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise CannotRun(f"QUITA_HOME cannot be used: {error}") from None


def _environment(home: Path) -> dict[str, str]:
    """The children's environment: the caller's, with defaults for local work."""
    env = dict(os.environ)
    env["QUITA_HOME"] = str(home)
    env.setdefault("QUITA_ENV", "local")
    env.setdefault("WEBHOOK_ALLOW_PRIVATE", "1")
    env.setdefault("MAIL_CATCHER", "1")
    env.setdefault("STAFF_TOTP_REQUIRED", "0")
    env["PYTHONPATH"] = os.pathsep.join(part for part in (str(_ROOT), env.get("PYTHONPATH")) if part)
    env["PYTHONUNBUFFERED"] = "1"
    env["PROMETHEUS_MULTIPROC_DIR"] = make_metrics_folder(home)
    if not env.get("SECRET_KEY"):
        path = home / "secret.key"
        if not path.exists():
            write_private(path, secrets.token_hex(32).encode())
        env["SECRET_KEY"] = path.read_text(encoding="ascii").strip()
    return env


def _whole_number(env: dict[str, str], name: str, default: int) -> int:
    try:
        return whole_number(env, name, 1, 65_535) or default
    except ValueError as error:
        raise CannotRun(str(error)) from None


def _simulated_bank(env: dict[str, str], settings: Settings, log: Path) -> Child:
    callback = f"{settings.base_url}/bank/{settings.bank_callback_token}/boletos"
    # Anyone who reaches the simulated bank can make payments out of nothing: it listens on loopback only.
    bank_env = {**env, "BANK_BOLETO_WEBHOOK": callback, "HOST": "127.0.0.1"}
    return Child("bank", [sys.executable, "-m", "banks.simulated"], env=bank_env, log=log)


def _bank_port(env: dict[str, str], home: Path) -> int:
    if not env.get("BANK_PORT"):
        return remembered_port(home / "bank.port")
    port = _whole_number(env, "BANK_PORT", 0)
    if not port_is_free(port):
        raise CannotRun(f"port {port} is taken; set BANK_PORT to another")
    return port


def _metrics_port(env: dict[str, str], home: Path) -> int:
    return _whole_number(env, "METRICS_PORT", 0) if env.get("METRICS_PORT") else remembered_port(home / "metrics.port")


def _worker_environments(env: dict[str, str], workers: int) -> list[dict[str, str]]:
    """The variables that differ between workers: with WORKER_PORT, consecutive ports from there on."""
    if not env.get("WORKER_PORT"):
        return [{} for _ in range(workers)]
    first = _whole_number(env, "WORKER_PORT", 0)
    for port in range(first, first + workers):
        if port > 65_535 or not port_is_free(port):
            raise CannotRun(f"port {port} is taken; set WORKER_PORT to another, of which {workers} are free on end")
    return [{"WORKER_PORT": str(first + index)} for index in range(workers)]


async def _migrate_and_seed(settings: Settings, owner_url: str, home: Path) -> tuple[list[Any], dict[str, str]]:
    """Checks that both servers answer and migrates. Returns the demo merchants and the demo member of staff, which the
    first start creates."""
    import asyncpg
    from redis.exceptions import RedisError

    from runtime.postgres import connect
    from runtime.redis import open_redis
    from sql.migrate import migrate
    from sql.roles import CannotGrant

    try:
        async with asyncio.timeout(_REACH_S_MAX):
            await (await connect(owner_url)).close()
    except (OSError, TimeoutError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise CannotRun(f"PostgreSQL at DATABASE_URL cannot be reached: {_reason(error)}") from None
    try:
        redis = open_redis(settings.redis_url, blocking=False)
        async with asyncio.timeout(_REACH_S_MAX):
            await redis.ping()
        await redis.aclose(close_connection_pool=True)
    except (OSError, TimeoutError, ValueError, RedisError) as error:
        raise CannotRun(f"Redis at REDIS_URL cannot be reached: {_reason(error)}") from None
    try:
        for name in await migrate(owner_url, app_url=settings.database_url, report_url=settings.database_report_url):
            say(f"migrated {name}")
        await migrate_cells(owner_url, say)
    except (asyncpg.PostgresError, CannotGrant) as error:
        raise CannotRun(f"the database cannot be migrated: {_reason(error)}") from None
    conn = await connect(settings.database_url)
    try:
        merchants = await _demo_merchants(conn, home / "merchants.json")
        return merchants, await _demo_staff(conn, home / "staff.json")
    finally:
        await conn.close()


async def _demo_merchants(conn: Any, file: Path) -> list[Any]:
    """The demo merchants; `file` keeps their secrets, of which the database has only hashes."""
    from commands.merchants.merchants import create_merchant

    with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError):
        stored = msgspec.json.decode(file.read_bytes(), type=list[dict[str, Any]])  # noqa: ASYNC240 - nothing else runs
        ids = [merchant["account_id"] for merchant in stored]
        count = await conn.fetchval("SELECT count(*) FROM account WHERE account_id = ANY($1::uuid[])", ids)
        if count == len(_DEMO_MERCHANTS):
            return stored
    async with conn.transaction():
        created = [
            msgspec.to_builtins(await create_merchant(conn, name=name, address=address, kyc=kyc, now=datetime.now(UTC)))
            for name, address, kyc in _DEMO_MERCHANTS
        ]
        # Written before the commit: the count above detects a file without rows, but nothing rows without a file.
        write_private(file, msgspec.json.encode(created))
    return created


async def _demo_staff(conn: Any, file: Path) -> dict[str, str]:
    """A demo member of the platform's staff; `file` keeps the password."""
    from commands.people.staff import add_staff
    from runtime.passwords import hash_password

    with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError):
        stored = msgspec.json.decode(file.read_bytes(), type=dict[str, str])  # noqa: ASYNC240 - nothing else runs
        if await conn.fetchval("SELECT true FROM dashboard_user WHERE email = $1", stored["email"]):
            return stored
    created = {"email": f"equipe.{secrets.token_hex(3)}@example.com", "password": secrets.token_urlsafe(12)}
    async with conn.transaction():
        await add_staff(conn, created["email"], hash_password(created["password"]), role="admin", now=datetime.now(UTC))
        write_private(file, msgspec.json.encode(created))
    return created


def _greet(settings: Settings, merchants: list[Any]) -> None:
    first = merchants[0]
    credential = first["test"]
    say(f"""ready

  API        {settings.base_url}/v1
  pages      {settings.app_url}/pagar/<public_id>
  people     {settings.app_url}/painel, and {settings.app_url}/plataforma for the staff
  mail       {f"{settings.app_url}/correio" if settings.mail_catcher else "goes out"}
  docs       {settings.docs_url}
  bank       {settings.bank_url}
  metrics    http://{reachable(settings.host)}:{settings.watching.metrics_port}/metrics
  merchants  {settings.home / "dev.json"}

  Try ({first["name"]}, test mode):

    TOKEN=$(curl -s {settings.base_url}/v1/oauth/token -d grant_type=client_credentials \\
      -d client_id={credential["client_id"]} -d client_secret={credential["client_secret"]} \\
      | python3 -c 'import json, sys; print(json.load(sys.stdin)["access_token"])')
    curl -s {settings.base_url}/v1/charges/pix -H "Authorization: Bearer $TOKEN" \\
      -H "Idempotency-Key: first" -H "Content-Type: application/json" \\
      -d '{{"account_id": "{first["account_id"]}", "amount": "10.00"}}'

  Ctrl-C stops everything; the next start finds everything as it was.
""")


def _reason(error: BaseException) -> str:
    """The reason in one line, without the server's address, which may contain a password."""
    if isinstance(error, TimeoutError):
        return f"no answer in {_REACH_S_MAX:.0f} s"
    return " ".join(str(error).split())[:200] or type(error).__name__
