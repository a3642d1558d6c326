"""Where the API is and who asks: from the environment, or as `login` stored it.

A secret is never an argument: what stands on a command line is in the shell's history and in the list of processes.
"""

import getpass
import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple


class CannotRun(Exception):
    """One line for stderr, and exit code 1."""


class Keys(NamedTuple):
    url: str
    client_id: str
    client_secret: str


def find(profile: str) -> Keys:
    """QUITA_URL, QUITA_CLIENT_ID and QUITA_CLIENT_SECRET go before what is stored."""
    stored = _stored().get(profile, {})
    given = {name: os.environ.get(f"QUITA_{name.upper()}") or stored.get(name, "") for name in Keys._fields}
    missing = [name for name, value in given.items() if not value]
    if missing:
        names = ", ".join(f"QUITA_{name.upper()}" for name in missing)
        raise CannotRun(f"no {names}, and nothing stored as {profile!r}: run `quita-cli login`")
    return Keys(given["url"].rstrip("/"), given["client_id"], given["client_secret"])


def ask(url: str | None) -> Keys:
    """From the environment, else from whoever sits at the terminal; the secret is not shown while it is typed."""
    env = os.environ
    url = url or env.get("QUITA_URL") or _prompt("Address of the API: ")
    client_id = env.get("QUITA_CLIENT_ID") or _prompt("client_id: ")
    client_secret = env.get("QUITA_CLIENT_SECRET") or _secret("client_secret: ")
    return Keys(url.rstrip("/"), client_id, client_secret)


def store(profile: str, keys: Keys) -> Path:
    """Written whole beside the old file and put in its place: nobody else may read it at any moment."""
    path = _path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    profiles = _stored() | {profile: keys._asdict()}
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(profiles, file, indent=2)
    new.replace(path)
    return path


def webhook_secret() -> str:
    """The endpoint's, QUITA_WEBHOOK_SECRET or typed."""
    secret = os.environ.get("QUITA_WEBHOOK_SECRET") or _secret("Signing secret of your endpoint (whsec_...): ")
    if not secret.startswith("whsec_"):
        raise CannotRun("a signing secret begins with whsec_")
    return secret


def _stored() -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(_path().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise CannotRun(f"{_path()} cannot be read: remove it and run `quita-cli login`") from None
    return found


def _path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "quita" / "keys.json"


def _prompt(words: str) -> str:
    try:
        return input(words).strip()
    except EOFError:
        raise CannotRun("there is nobody to ask: set QUITA_URL, QUITA_CLIENT_ID and QUITA_CLIENT_SECRET") from None


def _secret(words: str) -> str:
    try:
        return getpass.getpass(words).strip() if sys.stdin.isatty() else _prompt("")
    except EOFError:
        raise CannotRun("there is nobody to ask: set the secret in the environment") from None
