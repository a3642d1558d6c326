"""A bank that registers boletos slowly: `python -m bench.slow_bank PORT MILLISECONDS`.

It implements only the part of Cobrancas v2 that a registration needs and stores nothing, so that it costs little
compared to the worker that is measured.
"""

import asyncio
import sys
from datetime import date
from functools import partial
from typing import Any, cast

import msgspec
import uvloop

from banks.banco_do_brasil.agreement import boleto_codes
from domain.money import parse_amount

_HEAD_END = b"\r\n\r\n"
_TOKEN = b'{"access_token": "t", "token_type": "Bearer", "expires_in": 3600}'


class Slow(asyncio.Protocol):
    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._buffered = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        data = self._buffered + data
        body_at = data.find(_HEAD_END) + len(_HEAD_END)
        if body_at < len(_HEAD_END) or len(data) < body_at + _content_length(data[:body_at]):
            self._buffered = data
            return
        self._buffered = b""
        request_line = data[: data.find(b"\r\n")]
        if b"/oauth/token" in request_line:
            self._answer(200, _TOKEN)
            return
        if not request_line.startswith(b"POST /cobrancas/v2/boletos?"):
            self._answer(503, b"{}")  # PIX locations and lists of payments are not measured here
            return
        answer = _registration_answer(msgspec.json.decode(data[body_at:]))
        asyncio.get_running_loop().call_later(self._delay_s, self._answer, 201, answer)

    def _answer(self, status: int, body: bytes) -> None:
        head = b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
        self._transport.write(head + body)


def _content_length(head: bytes) -> int:
    at = head.lower().find(b"content-length: ")
    return int(head[at + 16 : head.find(b"\r", at)]) if at >= 0 else 0


def _registration_answer(boleto: Any) -> bytes:
    day, month, year = (int(part) for part in boleto["dataVencimento"].split("."))
    cents = parse_amount(f"{boleto['valorOriginal']:.2f}", cents_max=9_999_999_999)
    barcode, line = boleto_codes(boleto["numeroTituloCliente"], due_on=date(year, month, day), amount_cents=cents)
    return msgspec.json.encode(
        {"numero": boleto["numeroTituloCliente"], "linhaDigitavel": line, "codigoBarraNumerico": barcode}
    )


async def _serve(port: int, delay_s: float) -> None:
    server = await asyncio.get_running_loop().create_server(partial(Slow, delay_s), "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), float(sys.argv[2]) / 1000))
