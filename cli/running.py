"""The addresses of the running system: `quita up` writes them to $QUITA_HOME/run.json, every other command reads them.

The environment (DATABASE_URL, DATABASE_OWNER_URL, DATABASE_REPORT_URL, REDIS_URL, BANK_URL, BASE_URL, SECRET_KEY) takes
precedence.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from cli.run.child import CannotRun
from runtime.cells.number import current_cell

if TYPE_CHECKING:
    from runtime.seal import SecretKeys
    from runtime.settings import Settings

_T = TypeVar("_T")

_ADDRESSES = ("database_url", "redis_url", "base_url", "app_url", "docs_url", "bank_url")


class Running(msgspec.Struct, kw_only=True):
    """The content of run.json; it holds passwords, hence mode 0600."""

    home: str = ""
    host: str = "127.0.0.1"
    port: int = 8000
    database_url: str = ""
    database_owner_url: str = ""
    database_report_url: str = ""
    """The owner's and the reports' address; both are DATABASE_URL unless given."""
    redis_url: str = ""
    base_url: str = ""
    app_url: str = ""
    docs_url: str = ""
    bank_url: str = ""
    metrics_port: int = 0
    """The port of /metrics for all processes, on `host`; 0 for none."""
    ready_at: float = 0.0
    """When the API first answered, in Unix seconds; 0 while it starts."""
    webhook_allow_private: bool = False
    webhook_nameservers: tuple[str, ...] = ()
    pids: dict[str, list[int]] = {}
    """Process ids by kind: supervisor, api, worker, bank, postgres, redis."""

    def need(self, name: str) -> str:
        """The address called `name`; CannotRun when neither the file nor the environment has it."""
        value = str(getattr(self, name))
        if not value:
            raise CannotRun(f"nothing runs in {home()}; start it with `quita up` or set {name.upper()}")
        return value


def home() -> Path:
    return Path(os.environ.get("QUITA_HOME") or ".quita").resolve()


def find() -> Running:
    try:
        running = msgspec.json.decode((home() / "run.json").read_bytes(), type=Running)
    except FileNotFoundError:
        running = Running()
    except (OSError, msgspec.MsgspecError) as error:
        raise CannotRun(f"{home() / 'run.json'} cannot be read: {error}") from None
    if os.environ.get("DATABASE_URL"):  # another database than the running system's
        running.database_owner_url = running.database_report_url = ""
    for name in _ADDRESSES:
        setattr(running, name, os.environ.get(name.upper()) or getattr(running, name))
    for name in ("database_owner_url", "database_report_url"):
        setattr(running, name, os.environ.get(name.upper()) or getattr(running, name) or running.database_url)
    return running


def webhook_rules() -> tuple[bool, tuple[str, ...]]:
    """Whether webhooks may go to private addresses, and the name servers asked for their hosts, as the running system
    applies them to deliveries; when nothing runs, those of the environment."""
    from runtime.limits.variables import nameservers, switch

    running = find()
    if running.pids:
        return running.webhook_allow_private, running.webhook_nameservers
    return from_environment(lambda env: (switch(env, "WEBHOOK_ALLOW_PRIVATE"), nameservers(env, "WEBHOOK_NAMESERVERS")))


def from_environment(read: Callable[[Mapping[str, str]], _T]) -> _T:
    """What `read` returns of the environment; CannotRun for a malformed variable."""
    try:
        return read(os.environ)
    except ValueError as error:
        raise CannotRun(str(error)) from None


def secret_key() -> "SecretKeys":
    """The keys in SECRET_KEY, else the key that `quita up` made."""
    from runtime.seal import read_keys

    text = os.environ.get("SECRET_KEY", "")
    if not text:
        try:
            text = (home() / "secret.key").read_text(encoding="ascii").strip()
        except FileNotFoundError:
            raise CannotRun(f"there is no secret.key in {home()}; run `quita up` or set SECRET_KEY") from None
    try:
        return read_keys(text)
    except ValueError as error:
        raise CannotRun(str(error)) from None


def settings() -> "Settings":
    """The settings of the running system's processes; when nothing runs, those of the environment."""
    from runtime.settings import read_settings

    running = find()
    # As for the service's processes: none gets the owner's address, and in production none starts with it.
    env = {name: value for name, value in os.environ.items() if name != "DATABASE_OWNER_URL"}
    for name in _ADDRESSES:
        if value := getattr(running, name):
            env[name.upper()] = value
    env["CELL"] = str(current_cell())  # that of --cell: the environment names the cell of a worker
    if running.pids:  # only `quita up` writes them, and it is for local work
        env.setdefault("QUITA_ENV", "local")
        env.setdefault("SECRET_KEY", (home() / "secret.key").read_text(encoding="ascii").strip())
    try:
        return read_settings(env)
    except ValueError as error:
        raise CannotRun(str(error)) from None
