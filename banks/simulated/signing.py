"""The answers of locations: the signed payload of a cob (JWS, ES256), and the key set that verifies it.

Source: Manual de Padroes para Iniciacao do Pix, section on the payload; the header has alg, kid, jku and x5t.
"""

from base64 import b64encode, urlsafe_b64encode
from datetime import datetime, timedelta
from hashlib import sha1

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)
from cryptography.x509.oid import NameOID
from msgspec import Struct

import sql
from banks.simulated.bank import BookedCob
from banks.simulated.boleto_terms import due_value
from domain.instants import iso
from domain.money import reais
from runtime.postgres import Pool, session
from runtime.seal import SIMULATED_SIGNING_KEY, Seal

JWKS_PATH = "/pix/v2/jwks.json"
MEDIA_TYPE = "application/jose"
_KID_CHARACTERS = 16
_COORDINATE_BYTES = 32  # P-256
_LIFETIME = timedelta(days=3650)

_encode = msgspec.json.Encoder().encode


class _Kept(Struct, frozen=True):
    private_sealed: bytes
    certificate: bytes


keep_key = sql.run("simulated_bank.keep_key")
find_key = sql.maybe("simulated_bank.key", _Kept)


class Signer:
    """Signs payloads; `jku` is the full address of the key set."""

    def __init__(self, kid: str, private: ec.EllipticCurvePrivateKey, certificate: bytes, *, jku: str) -> None:
        self._private = private
        # RFC 7515: base64url of the digest's bytes. Plain base64 would be a well-known mistake.
        x5t = _b64(sha1(certificate, usedforsecurity=False).digest())
        self._header = _b64(_encode({"alg": "ES256", "typ": "JWT", "kid": kid, "jku": jku, "x5t": x5t}))
        numbers = private.public_key().public_numbers()
        key = {
            "kty": "EC",
            "crv": "P-256",
            "x": _b64(numbers.x.to_bytes(_COORDINATE_BYTES)),
            "y": _b64(numbers.y.to_bytes(_COORDINATE_BYTES)),
            "use": "sig",
            "alg": "ES256",
            "key_ops": ["verify"],
            "kid": kid,
            "x5t": x5t,
            "x5c": [b64encode(certificate).decode()],
        }
        self.jwks = _encode({"keys": [key]})

    def sign(self, payload: bytes) -> bytes:
        """Return the payload as a compact JWS."""
        text = f"{self._header}.{_b64(payload)}".encode()
        r, s = decode_dss_signature(self._private.sign(text, ec.ECDSA(SHA256())))
        return text + b"." + _b64(r.to_bytes(_COORDINATE_BYTES) + s.to_bytes(_COORDINATE_BYTES)).encode()


async def open_signer(pool: Pool, seal: Seal, *, jku: str, now: datetime) -> Signer:
    """Return the signer with the stored key; the key is made and stored at first use."""
    kid = seal.blind("simulated bank, signing key")[:_KID_CHARACTERS]
    async with session(pool) as conn:
        kept = await find_key(conn, kid=kid)
        if kept is None:
            private = ec.generate_private_key(ec.SECP256R1())
            der = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
            sealed = seal.seal(der, SIMULATED_SIGNING_KEY, kid)
            certificate = _certificate(private, now)
            await keep_key(conn, kid=kid, private_sealed=sealed, certificate=certificate, now=now)
            kept = await find_key(conn, kid=kid)
    assert kept is not None, "kept just now"
    opened = load_der_private_key(seal.open(kept.private_sealed, SIMULATED_SIGNING_KEY, kid), None)
    assert isinstance(opened, ec.EllipticCurvePrivateKey)
    return Signer(kid, opened, kept.certificate, jku=jku)


def payload(cob: BookedCob, *, now: datetime) -> bytes:
    """Return the present payload of a cob or cobv. Anyone with the QR Code can read it, so it does not name the
    payer."""
    calendar: dict[str, object] = {"criacao": iso(cob.created_at), "apresentacao": iso(now)}
    value: dict[str, object] = {"original": reais(cob.amount_cents), "modalidadeAlteracao": 0}
    if cob.due_on is None or cob.agreed is None:
        calendar["expiracao"] = cob.expires_in_s
    else:
        calendar["dataDeVencimento"] = cob.due_on.isoformat()
        calendar["validadeAposVencimento"] = cob.agreed.payable_days
        value = {**due_value(cob.amount_cents, cob.due(now))}
    shown: dict[str, object] = {
        "revisao": cob.revisao,
        "calendario": calendar,
        "txid": cob.txid,
        "valor": value,
        "chave": cob.pix_key,
        "status": cob.status,
    }
    if cob.description is not None:
        shown["solicitacaoPagador"] = cob.description
    return _encode(shown)


def problem(kind: str, status: int, title: str, detail: str, violations: list[dict[str, str]] | None = None) -> bytes:
    """Return the body of an API Pix error (RFC 7807), media type application/problem+json."""
    told: dict[str, object] = {
        "type": f"https://pix.bcb.gov.br/api/v2/error/{kind}",
        "title": title,
        "status": status,
        "detail": detail,
    }
    if violations:
        told["violacoes"] = violations
    return _encode(told)


PROBLEM_TYPE = "application/problem+json"


def _certificate(private: ec.EllipticCurvePrivateKey, now: datetime) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Banco Simulado")])
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _LIFETIME)
        .sign(private, SHA256())
    )
    return built.public_bytes(Encoding.DER)


def _b64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
