"""nginx, where it is installed, with the configuration that compose.yaml mounts and the certificates that it needs."""

import datetime as dt
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runtime.local.ports import free_port, port_is_free

PROGRAM = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
TEMPLATE = Path(__file__).parents[2] / "docs" / "operations" / "nginx.conf.template"
HOST, BANK_HOST = "localhost", "bank.localhost"
BANK_NAME = "Banco de Teste"


class Proxy(NamedTuple):
    http: int
    https: int
    tls: Path
    """The folder of certificates. `ca.pem` signed the server's; `bank.pem`, with `bank.key`, is the bank's, and
    `other.pem` that of another bank."""


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    folder: Path, name: str, subject: str, signer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(subject) if signer is None else signer[0].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(each) for each in (HOST, BANK_HOST)]), critical=False)
        .sign(key if signer is None else signer[1], hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / f"{name}.key").write_bytes(private)
    return made, key


def _configuration(folder: Path, api: str, http: int, https: int) -> str:
    """The configuration that the image makes from the template, with ports, folders and user of this machine."""
    given = {"API": api, "QUITA_HOST": HOST, "QUITA_BANK_HOST": BANK_HOST, "BANK_CLIENT_DN": f"CN={BANK_NAME}"}
    text = Template(TEMPLATE.read_text(encoding="utf-8")).safe_substitute(given)
    text = text.replace("listen 80 ", f"listen 127.0.0.1:{http} ").replace("listen 443 ", f"listen 127.0.0.1:{https} ")
    text = text.replace("/etc/nginx/tls/", f"{folder}/").replace(f"https://{HOST}", f"https://{HOST}:{https}")
    temporary = "".join(
        f"{each}_temp_path {folder}/{each};\n" for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;\n" if os.geteuid() == 0 else ""
    head = f"{user}daemon off;\npid {folder}/pid;\nerror_log {folder}/error.log;\nevents {{}}\n"
    return f"{head}http {{\naccess_log {folder}/access.log;\n{temporary}{text}}}\n"


@contextmanager
def nginx(api: str, folder: Path) -> Iterator[Proxy]:
    """nginx in front of `api`, an address with a port."""
    assert PROGRAM is not None
    folder.mkdir(parents=True, exist_ok=True)
    authority = _certificate(folder, "ca", "Autoridade de Teste", None)
    _certificate(folder, "server", HOST, authority)
    (folder / "server.pem").rename(folder / "server.crt")
    banks = _certificate(folder, "bank-chain", "Autoridade dos Bancos", None)
    _certificate(folder, "bank", BANK_NAME, banks)
    _certificate(folder, "other", "Outro Banco", banks)
    _certificate(folder, "stranger", BANK_NAME, authority)
    http, https = free_port(), free_port()
    (folder / "nginx.conf").write_text(_configuration(folder, api, http, https), encoding="utf-8")
    with (folder / "said").open("wb") as output:
        process = subprocess.Popen(
            [PROGRAM, "-p", str(folder), "-c", str(folder / "nginx.conf")], stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + 60
        while port_is_free(https):
            assert process.poll() is None, (folder / "said").read_text(encoding="utf-8")
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield Proxy(http, https, folder)
    finally:
        process.terminate()
        process.wait(60)
