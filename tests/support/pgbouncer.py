"""PgBouncer in transaction mode in front of a PostgreSQL of the tests, where it is installed."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from runtime.local.ports import free_port, port_is_free

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def pgbouncer(url: str, home: Path, **settings: str) -> Iterator[str]:
    """Yields `url` through a PgBouncer that has fewer sessions than connections, so that transactions change sessions
    often."""
    assert PROGRAM is not None
    parts, port = urlsplit(url), free_port()
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o755)
    home.parent.chmod(0o755)
    (home / "users").write_text(f'"{parts.username}" "{parts.password}"\n', encoding="ascii")
    config = {
        "listen_addr": "127.0.0.1",
        "listen_port": str(port),
        "unix_socket_dir": "",
        "auth_type": "scram-sha-256",
        "auth_file": str(home / "users"),
        "pool_mode": "transaction",
        "default_pool_size": "4",
        "max_client_conn": "200",
        **settings,
    }
    lines = [f"{name} = {value}\n" for name, value in config.items()]
    databases = f"[databases]\n* = host={parts.hostname} port={parts.port}\n[pgbouncer]\n"
    (home / "pgbouncer.ini").write_text(databases + "".join(lines), encoding="ascii")
    root = ("-u", "nobody") if os.geteuid() == 0 else ()  # PgBouncer refuses to run as root
    with (home / "pgbouncer.log").open("ab") as log:
        process = subprocess.Popen([PROGRAM, *root, str(home / "pgbouncer.ini")], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while port_is_free(port):
            assert process.poll() is None, (home / "pgbouncer.log").read_text(encoding="utf-8")
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield urlunsplit(parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{port}"))
    finally:
        process.terminate()
        process.wait(60)
