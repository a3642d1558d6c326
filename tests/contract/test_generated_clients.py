"""Clients that openapi-python-client and openapi-typescript generate from the OpenAPI document compile, and run the
quick start of the README.

The TypeScript client needs npm to install its packages (tests/contract/typescript/package.json): without npm, or where
npm reaches no registry, its test is skipped.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.system import System

pytestmark = pytest.mark.heavy

TYPESCRIPT = Path(__file__).parent / "typescript"
GENERATOR = Path(sys.executable).parent / "openapi-python-client"
SECONDS_MAX = 300


def run(command: list[str], folder: Path, **more: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=os.environ | more, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, (command[:3], done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


@pytest.fixture
def folder(system: System, tmp_path: Path) -> Path:
    (tmp_path / "openapi.json").write_bytes(httpx.get(f"{system.base_url}/v1/openapi.json", timeout=30).content)
    return tmp_path


def merchant(system: System) -> dict[str, str]:
    first = system.merchants[0]
    return {
        "BASE": system.base_url,
        "CLIENT_ID": first["test"]["client_id"],
        "CLIENT_SECRET": first["test"]["client_secret"],
    }


# A token, a charge, the same charge looked up, a boleto with a fine, and a refusal.
PYTHON = """
import os, pkgutil, importlib, uuid
from datetime import date, timedelta
import quita_api_client as quita

modules = [importlib.import_module(each.name) for each in pkgutil.walk_packages(quita.__path__, "quita_api_client.")]

from quita_api_client import AuthenticatedClient, Client, models
from quita_api_client.api.authentication import get_me, issue_token
from quita_api_client.api.charges import create_boleto_charge, create_pix_charge, get_charge

base = os.environ["BASE"]
asked = models.TokenRequest(
    grant_type=models.TokenRequestGrantType.CLIENT_CREDENTIALS,
    client_id=os.environ["CLIENT_ID"], client_secret=os.environ["CLIENT_SECRET"],
)
token = issue_token.sync(client=Client(base_url=base), body=asked)
client = AuthenticatedClient(base_url=base, token=token.access_token)
me = get_me.sync(client=client)
body = models.CreatePix(account_id=me.account_id, amount="49.90", external_id="order-1001")
charge = create_pix_charge.sync(client=client, body=body, idempotency_key=str(uuid.uuid4()))
assert isinstance(charge, models.ChargeProjection), charge
found = get_charge.sync(client=client, charge_id=str(charge.charge_id))
assert found.pix.qr_code == charge.pix.qr_code and found.payment_url == charge.payment_url
refused = get_charge.sync(client=client, charge_id="nobody's")
assert isinstance(refused, models.Error404) and refused.error.code == "CHARGE_NOT_FOUND", refused
late = models.CreateBoleto(
    tipo=models.CreateBoletoTipo.BOLETO, valor_cents="150.00", data_vencimento=date.today() + timedelta(days=20),
    pagador=models.Pagador(
        nome="Ana Lima", documento="52998224725", tipo_pessoa=models.PagadorTipoPessoa.PESSOA_FISICA, cep="01310100",
        logradouro="Avenida Paulista", cidade="Sao Paulo", uf=models.PagadorUf.SP,
    ),
    fine=models.FineTerms(percent="2.00"), interest=models.InterestTerms(amount_per_day="0.05"),
    discounts=[models.DiscountTerms(until=date.today() + timedelta(days=9), amount="10.00")],
)
slip = create_boleto_charge.sync(client=client, body=late, idempotency_key=str(uuid.uuid4()))
assert isinstance(slip, models.ChargeProjection), slip
assert (slip.fine.percent, slip.interest.amount_per_day, slip.amount_due.amount) == ("2.00", "0.05", "140.00"), slip
assert slip.discounts[0].until == late.discounts[0].until
payer = models.Pagador
assert {"nome", "documento", "cep"} <= set(payer.__annotations__), payer.__annotations__
print(len(modules))
"""


def test_a_generated_python_client_imports_and_issues_a_charge(system: System, folder: Path) -> None:
    path = os.pathsep.join((str(GENERATOR.parent), os.environ.get("PATH", "")))
    run([str(GENERATOR), "generate", "--path", "openapi.json", "--meta", "none"], folder, PATH=path)
    (folder / "quick_start.py").write_text(PYTHON, encoding="utf-8")
    assert int(run([sys.executable, "quick_start.py"], folder, PYTHONPATH=str(folder), **merchant(system))) > 100


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not on the path")
def test_a_generated_typescript_client_compiles_and_issues_a_charge(system: System, folder: Path) -> None:
    shutil.copytree(TYPESCRIPT, folder, dirs_exist_ok=True)
    install = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
    installed = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    if installed.returncode != 0:
        pytest.skip(f"npm reaches no registry: {installed.stderr[-200:]}")
    tools = folder / "node_modules" / ".bin"
    run([str(tools / "openapi-typescript"), "openapi.json", "-o", "api.d.ts"], folder)
    run([str(tools / "tsc"), "--project", "."], folder)
    assert run(["node", "quick_start.js"], folder, **merchant(system)).strip() == "pending"
