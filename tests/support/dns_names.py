"""A DNS server on a real socket whose answers the test chooses, and a small certificate authority."""

import asyncio
import ipaddress
import ssl
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_A, _AAAA = 1, 28

Answers = Callable[[str, int], "list[str] | None"]
"""The addresses of a name, IPv4 and IPv6 together, at its n-th query of a record type (from 1); None: no answer."""


class Names(asyncio.DatagramProtocol):
    """A DNS server at `address`; `asked` counts queries by name and record type."""

    def __init__(self, answers: Answers) -> None:
        self.address = ""
        self.asked: Counter[str] = Counter()
        self._answers = answers
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)
        host, port = transport.get_extra_info("sockname")
        self.address = f"{host}:{port}"

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self._transport is not None
        labels, at = [], 12
        while size := data[at]:
            labels.append(data[at + 1 : at + 1 + size].decode())
            at += 1 + size
        kind = struct.unpack("!H", data[at + 1 : at + 3])[0]
        question = data[12 : at + 5]
        name = ".".join(labels).lower()
        self.asked[f"{name} {kind}"] += 1
        found = self._answers(name, self.asked[f"{name} {kind}"])
        if found is None:
            return
        records = b""
        ips = [ipaddress.ip_address(each) for each in found]
        matching = [ip for ip in ips if {4: _A, 6: _AAAA}[ip.version] == kind]
        for ip in matching:
            records += b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0, len(ip.packed)) + ip.packed
        flags = 0x8180 if found else 0x8183  # NXDOMAIN
        header = data[:2] + struct.pack("!HHHHH", flags, 1, len(matching), 0, 0)
        self._transport.sendto(header + question + records, addr)


@asynccontextmanager
async def naming(answers: Answers) -> AsyncIterator[Names]:
    transport, names = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: Names(answers), local_addr=("127.0.0.1", 0)
    )
    try:
        yield names
    finally:
        transport.close()


class Authority:
    """A certificate authority for one test. `roots` is the file of certificates that a client must trust."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test CA")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=30))
            .not_valid_after(now + timedelta(days=30))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.roots = folder / "roots.pem"
        self.roots.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def server(self, name: str, *, expired: bool = False, by_itself: bool = False) -> ssl.SSLContext:
        """The TLS context of a server with a certificate for `name`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate(name, expired=expired, by_itself=by_itself))
        return context

    def certificate(
        self, name: str, *, expired: bool = False, by_itself: bool = False, password: bytes | None = None
    ) -> Path:
        """A file with a certificate for `name` and its key, optionally encrypted with a password."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if by_itself else self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=20))
            .not_valid_after(now - timedelta(days=1) if expired else now + timedelta(days=20))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(key if by_itself else self._key, hashes.SHA256())
        )
        file = self._folder / f"{name}-{expired}-{by_itself}.pem"
        file.write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption() if password is None else serialization.BestAvailableEncryption(password),
            )
        )
        return file
