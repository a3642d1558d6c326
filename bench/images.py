"""The QR image of a PIX charge, compared with segno's defaults; in CPU time of this process."""

import secrets
import statistics
import time
from collections.abc import Callable

import segno

from bench.environment import BenchEnvironment
from bench.report import Finding, ratio
from domain.pix.br_code import dynamic_br_code
from domain.pix.qr import png_data_uri

_ROUNDS = 5
_IMAGES = 2_000
_SEGNO_IMAGES = 40


async def images(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """Each image is of another charge. A round is a fixed number of images; `seconds` is not used."""
    _cpu_us(png_data_uri, _IMAGES)  # makes the tables
    our_us, segno_us = [], []
    for _ in range(_ROUNDS):
        our_us.append(_cpu_us(png_data_uri, _IMAGES))
        segno_us.append(_cpu_us(_by_segno, _SEGNO_IMAGES))
    return [
        ratio("segno as it comes / a QR image", list(zip(segno_us, our_us, strict=True)), target=100),
        Finding("  a QR image, PNG and data URI", statistics.median(our_us), "us"),
        Finding("  by segno, nothing chosen for it", statistics.median(segno_us), "us"),
    ]


def _by_segno(payload: str) -> str:
    return segno.make_qr(payload, error="m").png_data_uri(scale=4)


def _cpu_us(image: Callable[[str], str], count: int) -> float:
    payloads = [
        dynamic_br_code(
            location=f"pix.example.com/qr/v2/{secrets.token_hex(16)}",
            amount_cents=14_990,
            name="Padaria Aurora",
            city="Recife",
        )
        for _ in range(count)
    ]
    began = time.process_time()
    for payload in payloads:
        image(payload)
    return (time.process_time() - began) / count * 1e6
