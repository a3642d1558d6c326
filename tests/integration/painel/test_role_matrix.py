"""Which roles open which pages, and which roles grant which scopes to credentials: the whole table, written by hand.

It is taken from contract section 16 and the table of roles in docs/dashboard.md, not from the code: a new page, or a
change of who opens one, needs a change here as well. Roles of a merchant: O owner, F finance, D developer, S support.
Roles of the platform's staff, which are different roles even where the names are equal: a admin, o operations,
f finance, s support.
"""

import re
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Final, NamedTuple
from uuid import uuid4

import pytest
import pytest_asyncio

from commands.merchants.merchants import MerchantCreated
from runtime.postgres import Pool
from tests.support.dashboard import (
    Person,
    Seen,
    a_merchant,
    colleague_in_browser,
    owner_in_browser,
    settings_with,
    staff_in_browser,
)
from tests.support.pages import serving
from web.painel.table import TABLE as PAINEL
from web.plataforma.table import TABLE as PLATAFORMA

SCOPES: Final = {
    "charges:create", "charges:read", "payments:read", "refunds:create", "withdrawals:create", "schedules:write",
}  # fmt: skip
MERCHANTS: Final = {"O": "owner", "F": "finance", "D": "developer", "S": "support"}
STAFF: Final = {"a": "admin", "o": "operations", "f": "finance", "s": "support"}

GRANTED: Final = {
    ("production", "O"): SCOPES,
    ("production", "F"): {"payments:read", "charges:read"},
    ("production", "D"): {"charges:create", "charges:read"},
    ("production", "S"): set(),
    ("test", "O"): SCOPES,
    ("test", "F"): set(),
    ("test", "D"): SCOPES,
    ("test", "S"): set(),
}

_WRITTEN = """
OFDS  GET  /painel
OFDS  GET  /painel/cobrancas
OFDS  GET  /painel/cobrancas.csv
OFDS  GET  /painel/cobrancas.xlsx
OFDS  GET  /painel/cobrancas/{}
OFDS  GET  /painel/cobrancas/busca
OFDS  GET  /painel/cep/{}
OF S  GET  /painel/cobrancas/nova
OF S  POST /painel/cobrancas/nova
OF S  POST /painel/cobrancas/cancelar
OF S  GET  /painel/cobrancas/importar
OF S  POST /painel/cobrancas/importar
OF S  GET  /painel/cobrancas/importar/modelo.csv
OF S  GET  /painel/cobrancas/importar/modelo.xlsx
OF S  GET  /painel/cobrancas/{}/boleto.pdf
OF S  POST /painel/cobrancas/{}/cancelar
OF S  POST /painel/cobrancas/{}/segunda-via
OF S  POST /painel/cobrancas/{}/vencimento
OF S  POST /painel/cobrancas/{}/email
OF    GET  /painel/cobrancas/{}/devolver
OF    POST /painel/cobrancas/{}/devolver
OF S  GET  /painel/programacoes
OF S  GET  /painel/programacoes/{}
OF    GET  /painel/programacoes/nova
OF    POST /painel/programacoes/nova
OF    POST /painel/programacoes/{}/pausar
OF    POST /painel/programacoes/{}/retomar
OF    POST /painel/programacoes/{}/cancelar
OF S  GET  /painel/pagamentos
OF S  GET  /painel/pagamentos.csv
OF S  GET  /painel/pagamentos.xlsx
OF S  GET  /painel/pagamentos/{}/divergencia
OF    POST /painel/pagamentos/{}/divergencia
OF S  GET  /painel/devolucoes
OF S  GET  /painel/devolucoes.csv
OF S  GET  /painel/devolucoes.xlsx
OF    GET  /painel/extrato
OF    GET  /painel/extrato.csv
OF    GET  /painel/extrato.xlsx
OF    GET  /painel/extrato/dias
OF    GET  /painel/extrato/dias.csv
OF    GET  /painel/extrato/dias.xlsx
OFDS  GET  /painel/relatorios
OFDS  GET  /painel/relatorios/conversao
OFDS  GET  /painel/relatorios/conversao.csv
OFDS  GET  /painel/relatorios/conversao.xlsx
OFDS  GET  /painel/relatorios/vencimentos
OFDS  GET  /painel/relatorios/vencimentos.csv
OFDS  GET  /painel/relatorios/vencimentos.xlsx
OF    GET  /painel/relatorios/meses
OF    GET  /painel/relatorios/meses.csv
OF    GET  /painel/relatorios/meses.xlsx
OF    GET  /painel/saques
OF    POST /painel/saques
OF    GET  /painel/saques.csv
OF    GET  /painel/saques.xlsx
OF    POST /painel/saques/{}/cancelar
O     POST /painel/saques/chave
O     POST /painel/saques/chave/cancelar
O     POST /painel/saques/automatico
O     POST /painel/saques/automatico/desligar
O D   GET  /painel/webhooks
O D   POST /painel/webhooks
O D   POST /painel/webhooks/endereco
O D   POST /painel/webhooks/segredo
O D   POST /painel/webhooks/segredo-antigo
O D   POST /painel/webhooks/eventos
O D   POST /painel/webhooks/remover
O D   POST /painel/webhooks/retomar
O DS  GET  /painel/webhooks/entregas
O DS  GET  /painel/webhooks/entregas/{}
O D   POST /painel/webhooks/entregas
O D   POST /painel/webhooks/entregas/{}/reenviar
OFD   GET  /painel/tokens
OFD   POST /painel/tokens
OFD   GET  /painel/tokens/{}
OFD   POST /painel/tokens/{}/trocar
OFD   POST /painel/tokens/{}/revogar
O D   GET  /painel/requisicoes
O D   GET  /painel/requisicoes/{}
O     GET  /painel/pessoas
O     POST /painel/pessoas
O     POST /painel/pessoas/convite
O     POST /painel/pessoas/convite/retirar
O     POST /painel/pessoas/perfil
O     POST /painel/pessoas/acesso
O     POST /painel/pessoas/remover
O     POST /painel/pessoas/credenciais
OFDS  GET  /painel/empresa
O     POST /painel/empresa/endereco
O     POST /painel/empresa/contato
O     POST /painel/empresa/logotipo
O     POST /painel/empresa/logotipo/remover
O     GET  /painel/auditoria
OFDS  GET  /painel/acesso
OFDS  POST /painel/acesso/senha
OFDS  GET  /painel/acesso/codigo
OFDS  POST /painel/acesso/codigo
OFDS  POST /painel/acesso/codigo/desligar
OFDS  GET  /painel/teste
OFDS  GET  /painel/teste/cobrancas
OFDS  GET  /painel/teste/cobrancas.csv
OFDS  GET  /painel/teste/cobrancas.xlsx
OFDS  GET  /painel/teste/cobrancas/{}
OFDS  GET  /painel/teste/cobrancas/busca
OFDS  GET  /painel/teste/cobrancas/nova
OFDS  POST /painel/teste/cobrancas/nova
OFDS  POST /painel/teste/cobrancas/cancelar
OFDS  GET  /painel/teste/cobrancas/importar
OFDS  POST /painel/teste/cobrancas/importar
OFDS  GET  /painel/teste/cobrancas/importar/modelo.csv
OFDS  GET  /painel/teste/cobrancas/importar/modelo.xlsx
OFDS  GET  /painel/teste/cobrancas/{}/boleto.pdf
OFDS  POST /painel/teste/cobrancas/{}/cancelar
OFDS  POST /painel/teste/cobrancas/{}/segunda-via
OFDS  POST /painel/teste/cobrancas/{}/vencimento
OFDS  GET  /painel/teste/cobrancas/{}/devolver
OFDS  POST /painel/teste/cobrancas/{}/devolver
OFDS  POST /painel/teste/cobrancas/{}/pagar
OFDS  POST /painel/teste/cobrancas/{}/pagar-como
OFDS  POST /painel/teste/cobrancas/{}/expirar
OFDS  POST /painel/teste/cobrancas/{}/falhar
OFDS  GET  /painel/teste/pagamentos
OFDS  GET  /painel/teste/pagamentos.csv
OFDS  GET  /painel/teste/pagamentos.xlsx
OFDS  GET  /painel/teste/devolucoes
OFDS  GET  /painel/teste/devolucoes.csv
OFDS  GET  /painel/teste/devolucoes.xlsx
OFDS  GET  /painel/teste/relatorios
OFDS  GET  /painel/teste/relatorios/conversao
OFDS  GET  /painel/teste/relatorios/conversao.csv
OFDS  GET  /painel/teste/relatorios/conversao.xlsx
OFDS  GET  /painel/teste/relatorios/vencimentos
OFDS  GET  /painel/teste/relatorios/vencimentos.csv
OFDS  GET  /painel/teste/relatorios/vencimentos.xlsx
O DS  GET  /painel/teste/webhooks/entregas
O DS  GET  /painel/teste/webhooks/entregas/{}
O D   POST /painel/teste/webhooks/entregas
O D   POST /painel/teste/webhooks/entregas/{}/reenviar
O D   POST /painel/teste/webhooks/retomar
O D   POST /painel/teste/webhooks/testar
O D   GET  /painel/teste/tokens
O D   GET  /painel/teste/chaves.json
O D   POST /painel/teste/tokens
O D   GET  /painel/teste/tokens/{}
O D   POST /painel/teste/tokens/{}/trocar
O D   POST /painel/teste/tokens/{}/revogar
O D   GET  /painel/teste/requisicoes
O D   GET  /painel/teste/requisicoes/{}
OFDS  GET  /painel/teste/relogio
OFDS  POST /painel/teste/relogio
aofs  GET  /plataforma
ao    POST /plataforma/pix/suspender
ao    POST /plataforma/pix/retomar
aofs  GET  /plataforma/busca
aofs  POST /plataforma/busca
aofs  GET  /plataforma/lojas
ao    GET  /plataforma/cep/{}
ao    GET  /plataforma/lojas/nova
ao    POST /plataforma/lojas/nova
aofs  GET  /plataforma/lojas/{}
ao    POST /plataforma/lojas/{}/cadastro
ao    GET  /plataforma/lojas/{}/dados
ao    POST /plataforma/lojas/{}/dados
ao    POST /plataforma/lojas/{}/limites
a f   POST /plataforma/lojas/{}/tarifas
a f   POST /plataforma/lojas/{}/tarifas/padrao
ao    POST /plataforma/lojas/{}/acesso
ao    POST /plataforma/lojas/{}/webhook/retomar
ao    POST /plataforma/lojas/{}/webhook/reenviar
ao    POST /plataforma/lojas/{}/webhook/entregas/{}/reenviar
aofs  GET  /plataforma/pendencias
ao    POST /plataforma/pendencias/pedidos/{}/tentar
aofs  GET  /plataforma/divergencias
aofs  GET  /plataforma/banco
ao    POST /plataforma/lojas/{}/conferencia
ao    POST /plataforma/lojas/{}/conferencia/desmarcar
aof   POST /plataforma/lojas/{}/observacoes
ao    POST /plataforma/lojas/{}/logotipo
ao    POST /plataforma/lojas/{}/logotipo/remover
a f   POST /plataforma/lojas/{}/chave
a f   POST /plataforma/lojas/{}/chave/confirmar
a f   POST /plataforma/lojas/{}/chave/cancelar
a f   POST /plataforma/lojas/{}/devolucoes/liberar
a f   POST /plataforma/lojas/{}/devolucoes/prender
ao    GET  /plataforma/lojas/{}/pagador
ao    POST /plataforma/lojas/{}/pagador/arquivo
ao    POST /plataforma/lojas/{}/pagador/apagar
aofs  GET  /plataforma/a-identificar
aofs  GET  /plataforma/a-identificar/{}
ao    POST /plataforma/a-identificar/{}/atribuir
ao    POST /plataforma/a-identificar/{}/devolver
a f   GET  /plataforma/devolucoes
a f   GET  /plataforma/devolucoes/{}
a f   POST /plataforma/devolucoes/{}/liberar
a f   POST /plataforma/devolucoes/{}/recusar
a f   GET  /plataforma/parceiros
a f   POST /plataforma/parceiros
a f   POST /plataforma/parceiros/{}
a f   POST /plataforma/parceiros/{}/confirmar
a f   POST /plataforma/parceiros/{}/retirar
aof   GET  /plataforma/relatorios
aof   GET  /plataforma/relatorios/{}
aof   GET  /plataforma/relatorios/{}/arquivo
aof   GET  /plataforma/relatorios/{}/planilha
a     GET  /plataforma/equipe
a     POST /plataforma/equipe
a     POST /plataforma/equipe/perfil
a     POST /plataforma/equipe/acesso
a     POST /plataforma/equipe/remover
a     GET  /plataforma/auditoria
aofs  GET  /plataforma/celula
aofs  POST /plataforma/celula
aofs  GET  /plataforma/acesso
aofs  POST /plataforma/acesso/senha
aofs  GET  /plataforma/acesso/codigo
aofs  POST /plataforma/acesso/codigo
aofs  POST /plataforma/acesso/codigo/desligar
aofs  POST /plataforma/sair
aofs  POST /plataforma/sair-de-tudo
OFDS  POST /painel/sair
OFDS  POST /painel/sair-de-tudo
"""


class Row(NamedTuple):
    roles: frozenset[str]
    method: str
    path: str

    @property
    def root(self) -> str:
        return "/" + self.path.split("/")[1]


MATRIX: Final = [
    Row(frozenset(letters.replace(" ", "")), *rest.split())
    for letters, rest in ((line[:6], line[6:]) for line in _WRITTEN.strip().splitlines())
]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address(pool: Pool) -> AsyncIterator[str]:
    settings = settings_with(STAFF_TOTP_REQUIRED="0")
    async with serving(pool, lambda: datetime.now(UTC), settings) as found:
        yield found


async def person_with_role(
    opened: AsyncExitStack, pool: Pool, address: str, letter: str
) -> tuple[Person, MerchantCreated]:
    """A signed-in person with this role, with an account of its own; a signed-out visitor for no letter."""
    merchant = await a_merchant(pool)
    if letter in STAFF:
        person = await opened.enter_async_context(staff_in_browser(pool, address, role=STAFF[letter]))
    elif letter in ("O", ""):
        person = await opened.enter_async_context(owner_in_browser(address, merchant, signed_in=bool(letter)))
    else:
        person = await opened.enter_async_context(colleague_in_browser(pool, address, merchant, MERCHANTS[letter]))
    return person, merchant


def is_refused(seen: Seen) -> bool:
    return seen.status == 403 and "Sem permissão" in seen.text


def test_the_matrix_has_every_page_and_every_form_and_no_other() -> None:
    served = {f"{each.method} {re.sub(r'{[^}]*}', '{}', each.whole_path)}" for each in (*PAINEL, *PLATAFORMA)}
    assert {f"{row.method} {row.path}" for row in MATRIX} == served
    assert len(MATRIX) == len(PAINEL) + len(PLATAFORMA)


@pytest.mark.parametrize("letter", [*MERCHANTS, *STAFF, ""], ids=[*MERCHANTS.values(), *STAFF.values(), "nobody"])
async def test_each_role_opens_only_what_the_matrix_allows(pool: Pool, address: str, letter: str) -> None:
    async with AsyncExitStack() as opened:
        person, _merchant = await person_with_role(opened, pool, address, letter)
        own = "/plataforma" if letter in STAFF else "/painel"
        form = await person.opened(f"{own}/acesso") if letter else None
        for row in MATRIX:
            path = row.path.replace("{}", str(uuid4()))
            # An empty form: where it is allowed, it is refused for its missing fields and does nothing.
            data = {**form.hidden(), "once": str(uuid4())} if form else {}
            seen = await person.ask(row.method, path, data=data if row.method == "POST" else None)
            where = f"{row.method} {row.path} {letter}: {seen.status} {seen.where}"
            if not letter or row.root != own:
                assert (seen.status, seen.where.split("?")[0]) == (303, f"{row.root}/entrar"), where
            elif letter in row.roles:
                assert not is_refused(seen), where
                assert seen.status < 500, where
                assert not seen.where.startswith(f"{own}/entrar") or "sair" in row.path, where
                if "sair" in row.path:
                    assert (await person.sign_in()).status == 303
                    form = await person.opened(f"{own}/acesso")
            else:
                assert is_refused(seen), where


@pytest.mark.parametrize("mode", ["production", "test"])
@pytest.mark.parametrize("letter", ["O", "F", "D", "S"])
async def test_each_role_creates_rotates_and_revokes_only_the_credentials_the_matrix_allows(
    pool: Pool, address: str, letter: str, mode: str
) -> None:
    path, granted = ("/painel/teste/tokens" if mode == "test" else "/painel/tokens"), GRANTED[mode, letter]
    async with AsyncExitStack() as opened:
        person, merchant = await person_with_role(opened, pool, address, letter)
        for scope in sorted(SCOPES):
            name = f"{scope} {secrets.token_hex(4)}"
            seen = await person.post(path, name=name, scope=[scope])
            made = await pool.fetchrow("SELECT scopes FROM credential WHERE name = $1", name)
            assert (made is not None) == (scope in granted), (letter, mode, scope, seen.status)
            # A credential created by another person, with this scope alone.
            client_id = f"{mode}_{secrets.token_hex(12)}"
            await pool.execute(
                "INSERT INTO credential (client_id, account_id, test, secret_hash, scopes, created_at)"
                " VALUES ($1, $2, $3, sha256('x'), $4, now())",
                client_id, merchant.account_id, mode == "test", [scope],
            )  # fmt: skip
            await person.post(f"{path}/{client_id}/trocar", overlap="24h")
            row = "SELECT rotated_by, revoked_at IS NOT NULL AS revoked FROM credential WHERE client_id = $1"
            found = await pool.fetchrow(row, client_id)
            assert found is not None
            assert (found["rotated_by"] is not None) == (scope in granted), (letter, mode, scope)
            # Owners and developers may revoke any credential.
            await person.post(f"{path}/{client_id}/revogar", sure="yes")
            found = await pool.fetchrow(row, client_id)
            assert found is not None
            stops = letter in ("O", "D") or scope in granted
            assert found["revoked"] == stops, (letter, mode, scope)
        # No role adds a scope it may not grant by mixing it with those it may.
        everything = f"all {secrets.token_hex(4)}"
        await person.post(path, name=everything, scope=sorted(SCOPES))
        made = await pool.fetchrow("SELECT 1 FROM credential WHERE name = $1", everything)
        assert (made is not None) == (granted == SCOPES), (letter, mode)
