"""The client of a request, by address: behind our proxies the one they name, in IPv6 a customer's whole network."""

from typing import Any

from domain.client_address import client_address, client_group
from runtime.settings import Settings


def client_key(scope: Any, settings: Settings) -> str:
    """The key under which the client of an ASGI request is counted."""
    peer = scope["client"][0] if scope.get("client") else ""
    if settings.trusted_proxies:
        name = settings.trusted_proxy_header.encode()
        values = [value.decode("latin-1") for header, value in scope["headers"] if header == name]
        peer = client_address(peer, values, header=settings.trusted_proxy_header, trusted=settings.trusted_proxies)
    return client_group(peer)
