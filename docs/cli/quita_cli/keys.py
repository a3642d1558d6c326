"""The API's address and the credential, from the environment or as stored by `login`.

A secret is never an argument: a command line ends up in the shell's history and in the list of processes.
"""

import getpass
import json
import os
import sys
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

_WEBHOOK_SECRET = "QUITA_WEBHOOK_SECRET"  # noqa: S105 - the variable's name


class CannotRun(Exception):
    """One line for stderr, and exit code 1."""


class Keys(NamedTuple):
    url: str
    client_id: str
    client_secret: str


def find(profile: str) -> Keys:
    """Address and credential: QUITA_URL, QUITA_CLIENT_ID and QUITA_CLIENT_SECRET, else those stored in the profile."""
    stored = _stored().get(profile, {})
    given = {name: os.environ.get(f"QUITA_{name.upper()}") or stored.get(name, "") for name in Keys._fields}
    missing = [name for name, value in given.items() if not value]
    if missing:
        names = ", ".join(f"QUITA_{name.upper()}" for name in missing)
        raise CannotRun(f"no {names}, and nothing stored as {profile!r}: run `quita-cli login`")
    return Keys(given["url"].rstrip("/"), given["client_id"], given["client_secret"])


def ask(url: str | None) -> Keys:
    """Address and credential from the environment, else from the terminal; the secret is not shown while typed."""
    given = {name: os.environ.get(f"QUITA_{name.upper()}", "") for name in Keys._fields} | ({"url": url} if url else {})
    words = {"url": "Address of the API: ", "client_id": "client_id: ", "client_secret": "client_secret: "}
    missing = [name for name in Keys._fields if not given[name]]
    while missing:
        names = [f"QUITA_{name.upper()}" for name in missing]
        name = missing.pop(0)
        given[name] = (_secret if name == "client_secret" else _prompt)(words[name], names)
    return Keys(**given | {"url": given["url"].rstrip("/")})


def store(profile: str, keys: Keys) -> Path:
    """Stores a profile. The new file is created with mode 0600 and then replaces the old one, so that other users can
    read it at no moment."""
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
    """The endpoint's signing secret: QUITA_WEBHOOK_SECRET, else typed at the terminal."""
    return given_webhook_secret() or _signing_secret(
        _secret("Signing secret of your endpoint (whsec_...): ", [_WEBHOOK_SECRET]), "what was typed"
    )


def given_webhook_secret() -> str | None:
    """QUITA_WEBHOOK_SECRET, None when it is not set."""
    secret = os.environ.get(_WEBHOOK_SECRET, "").strip()
    return _signing_secret(secret, _WEBHOOK_SECRET) if secret else None


def _signing_secret(secret: str, source: str) -> str:
    """Checks a signing secret. The part after whsec_ must be base64, because the key of one of the two signatures is
    decoded from it. The message never shows the secret, since it may end up in the log of a CI."""
    if not secret.startswith("whsec_"):
        raise CannotRun(f"{source} is not a signing secret: a signing secret begins with whsec_")
    try:
        key = b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not key:
        raise CannotRun(
            f"{source} is not a signing secret: what follows whsec_ must be base64; copy the whole text that the "
            "dashboard showed"
        )
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


def _prompt(words: str, missing: Sequence[str]) -> str:
    """Asks at the terminal. `missing`: the variables that would have answered, for the error."""
    try:
        return input(words).strip()
    except EOFError:
        raise CannotRun(f"there is nobody to ask: set {', '.join(missing)}") from None


def _secret(words: str, missing: Sequence[str]) -> str:
    if not sys.stdin.isatty():
        return _prompt("", missing)
    try:
        return getpass.getpass(words).strip()
    except EOFError:
        raise CannotRun(f"there is nobody to ask: set {', '.join(missing)}") from None
