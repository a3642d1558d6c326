"""Ids, tokens and client_ids carry the number of the cell that made them; requests find their cell by them."""

import asyncio
import secrets

import pytest

from cli.run.cell_requests import cell_of_request
from commands.merchants.merchants import client_id_of
from readmodels.documents.logo import LogoOnPage
from runtime.cells.addresses import as_role_of, redis_of, schema_of, shown, with_search_path
from runtime.cells.directory import NumberBlock, owner_of_number
from runtime.cells.number import CELLS_MAX, cell_of, cell_of_hex, cell_of_token, current_cell, in_cell, marked
from runtime.ids import new_id, ordered_token, page_token

CELLS = (0, 1, 63, 64, 2048, CELLS_MAX - 1)


@pytest.mark.parametrize("number", CELLS)
def test_ids_tokens_and_client_ids_carry_the_number_of_the_cell_that_made_them(number: int) -> None:
    with in_cell(number):
        made, public_id, secret = new_id(), page_token(), marked(secrets.token_bytes(32))
        client_id = client_id_of(secrets.token_bytes(12), test=True)
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert cell_of(made) == number
    assert cell_of_token(public_id) == number
    assert cell_of_hex(secret.hex()) == number
    assert cell_of_hex(client_id) == number


def test_ids_of_one_cell_are_unique_and_ordered_by_time() -> None:
    with in_cell(7):
        made = [new_id() for _ in range(20_000)]
    assert len(set(made)) == len(made)
    assert [each.int >> 80 for each in made] == sorted(each.int >> 80 for each in made)


@pytest.mark.parametrize("text", ["", "A", "A!", "é1", "\N{CYRILLIC CAPITAL LETTER A}A"])
def test_text_that_is_not_a_token_names_no_cell(text: str) -> None:
    assert cell_of_token(text) is None


@pytest.mark.parametrize("text", ["", "test_", "test_0g1", "test_+12", "TEST_0A1", "test_ 12"])
def test_text_that_is_not_a_client_id_names_no_cell(text: str) -> None:
    assert cell_of_hex(text) is None


async def test_a_task_started_by_a_request_works_for_the_requests_cell() -> None:
    async def new_id_later() -> int:
        await asyncio.sleep(0)
        return cell_of(new_id())

    with in_cell(9):
        task = asyncio.create_task(new_id_later())
    assert current_cell() == 0
    assert await task == 9


def scope(path: str, *headers: tuple[bytes, bytes]) -> dict[str, object]:
    return {"type": "http", "method": "GET", "path": path, "headers": list(headers)}


@pytest.mark.parametrize("number", CELLS)
def test_a_request_finds_its_cell_in_its_token_cookie_or_path(number: int) -> None:
    with in_cell(number):
        token, location = page_token(), ordered_token()
        cookie = marked(secrets.token_bytes(32)).hex().encode()
        logo = LogoOnPage(secrets.token_bytes(16), 400, 100)
        logos = (logo.path, logo.preview_path)
    assert [cell_of_request(scope(path)) for path in logos] == [number, number]
    assert cell_of_request(scope("/v1/charges", (b"authorization", b"Bearer " + token.encode()))) == number
    assert cell_of_request(scope(f"/pagar/{token}")) == number
    assert cell_of_request(scope(f"/pagar/{token}/boleto.pdf")) == number
    assert cell_of_request(scope(f"/pix/v2/cobv/{location}")) == number
    assert cell_of_request(scope(f"/pix/v2/jwks/{number:03x}")) == number
    assert cell_of_request(scope(f"/painel/recuperar/{token}")) == number
    assert cell_of_request(scope("/painel/cobrancas", (b"cookie", b"other=1; painel=" + cookie))) == number
    assert cell_of_request(scope("/painel", (b"cookie", b"__Host-painel=" + cookie))) == number
    assert cell_of_request(scope("/plataforma", (b"cookie", b"plataforma=" + cookie))) == number


@pytest.mark.parametrize(
    "head",
    [
        scope("/v1/charges"),
        scope("/v1/charges", (b"authorization", b"Bearer ")),
        scope("/v1/charges", (b"authorization", b"\xff\xff")),
        scope("/painel", (b"cookie", b"painel=zzz; =;;")),
        scope("/pix/v2/jwks"),
        scope("/pix/v2/not-a-token"),
        scope("/docs"),
        scope("/"),
    ],
)
def test_a_request_that_names_no_cell_is_left_to_the_home_cell(head: dict[str, object]) -> None:
    assert cell_of_request(head) is None


def test_a_boleto_number_in_no_block_belongs_to_the_home_cell() -> None:
    blocks = [NumberBlock(100, 199, 2), NumberBlock(200, 299, 1)]
    assert [owner_of_number(control, blocks) for control in (99, 100, 199, 200, 299, 300)] == [0, 2, 2, 1, 1, 0]


def test_role_and_schema_of_a_database_address_are_replaced_and_the_database_stays() -> None:
    url = with_search_path("postgresql://owner:a%40b@one:5432,two:5433/pay?sslmode=require", "cell_a")
    assert schema_of(url) == "cell_a"
    assert as_role_of(url, "postgresql://app:x@elsewhere/other") == (
        "postgresql://app:x@one:5432,two:5433/pay?sslmode=require&search_path=cell_a"
    )
    assert shown(url) == "one:5432,two:5433/pay cell_a"
    assert schema_of(with_search_path(url, "public")) == "public"


@pytest.mark.parametrize(
    ("url", "cells"),
    [
        ("redis://:secret@127.0.0.1:6379/0", "redis://:secret@127.0.0.1:6379/3"),
        ("redis://127.0.0.1:6379", "redis://127.0.0.1:6379/3"),
        (
            "redis+sentinel://u:p@one,two/main/0?sentinel_username=x",
            "redis+sentinel://u:p@one,two/main/3?sentinel_username=x",
        ),
    ],
)
def test_each_cell_has_its_own_logical_redis_database(url: str, cells: str) -> None:
    assert redis_of(url, 3) == cells
    assert redis_of(url, 0) == url
