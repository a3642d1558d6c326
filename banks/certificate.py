"""Our client certificate, for banks that ask for one, and when it expires."""

import ssl
from datetime import datetime

from prometheus_client import Gauge

from runtime.settings import Settings

certificate_ends = Gauge(
    "quita_bank_certificate_ends_timestamp_seconds",
    "When the certificate ends that a bank is shown; of several processes, what the last one to start has read.",
    ["bank"],
    multiprocess_mode="livemostrecent",
)


def client_tls(settings: Settings) -> ssl.SSLContext:
    """Return a TLS context that verifies the bank as usual and shows our certificate if there is one, also for token
    requests. ValueError if the certificate cannot be read."""
    context = ssl.create_default_context()
    if settings.bank_certificate is None:
        return context
    try:
        context.load_cert_chain(
            settings.bank_certificate,
            settings.bank_certificate_key,
            # Always given, even without a password: otherwise OpenSSL would ask for one at the terminal.
            lambda: settings.bank_certificate_password,
        )
    except OSError as error:
        raise ValueError(f"BANK_CERTIFICATE cannot be used: {error}") from error
    return context


def certificate_ends_at(settings: Settings) -> datetime | None:
    """Return when our certificate, the first in the file, expires; None if there is none."""
    if settings.bank_certificate is None:
        return None
    from cryptography.x509 import load_pem_x509_certificates

    return load_pem_x509_certificates(settings.bank_certificate.read_bytes())[0].not_valid_after_utc
