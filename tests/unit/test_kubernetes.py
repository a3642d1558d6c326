"""The manifests of docs/operations/kubernetes: Kubernetes takes them, the service starts with what they set, and a
rollout drains as docs/running.md says."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from api.routes import service
from runtime.limits.http_bounds import HttpBounds
from runtime.settings import read_settings
from tests.support.system import ROOT

FOLDER = ROOT / "docs" / "operations" / "kubernetes"
TEXT = (ROOT / "docs" / "operations" / "kubernetes.md").read_text(encoding="utf-8")
# The oldest that is still supported somewhere, and the newest that the judge knows.
VERSIONS = ("1.30", kubernetes_validate.latest_version().rpartition(".")[0])
SECRETS = {
    "DATABASE_URL": "postgresql://quita_app:secret@db/quita",
    "DATABASE_REPORT_URL": "postgresql://quita_report:secret@db/quita",
    "REDIS_URL": "redis://:secret@valkey/0", "SECRET_KEY": "9f3c" * 4 + "07ab51e2d84c6f90" * 3,
    "BANK_CLIENT_ID": "client-of-the-bank", "BANK_CLIENT_SECRET": "secret-of-the-bank",
    "BANK_APP_KEY": "app-key-of-the-bank", "BANK_CALLBACK_TOKEN": "3f9a51c07be24d8896aa10cf",
    "SMTP_URL": "smtps://user:secret@mail.example.com",
}  # fmt: skip


def manifests(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """As they stand in the files that kustomization.yaml names."""
    named = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    return [one for name in named for one in yaml.safe_load_all((folder / name).read_text(encoding="utf-8"))]


def rendered(folder: Path) -> list[dict[str, Any]]:
    """As Kustomize makes them."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not there")
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def one(kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in manifests() if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def pod(name: str) -> dict[str, Any]:
    found: dict[str, Any] = one("Deployment", name)["spec"]["template"]["spec"]
    return found


def job() -> dict[str, Any]:
    (found,) = manifests(FOLDER / "migrate")
    return found


def container(spec: Mapping[str, Any]) -> dict[str, Any]:
    (found,) = spec["containers"]
    return dict(found)


def settings() -> dict[str, str]:
    lines = (FOLDER / "settings.env").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


class Asked(dict[str, str]):
    """An environment that remembers which names it was asked for."""

    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__(given)
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        return super().__getitem__(name)


def production(tmp_path: Path) -> Asked:
    certificate = tmp_path / "tls.pem"
    certificate.write_text("")
    files = dict.fromkeys(("BANK_CERTIFICATE", "BANK_CERTIFICATE_KEY"), str(certificate))
    return Asked({**settings(), **SECRETS, **files})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("folder", [FOLDER, FOLDER / "migrate"], ids=["service", "migrate"])
def test_kubernetes_takes_every_manifest(folder: Path, version: str) -> None:
    for each in manifests(folder):
        assert kubernetes_validate.validate(each, version, strict=True) == version


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("folder", [FOLDER, FOLDER / "migrate"], ids=["service", "migrate"])
def test_kubernetes_takes_what_kustomize_makes_of_them(folder: Path, version: str) -> None:
    for each in rendered(folder):
        assert kubernetes_validate.validate(each, version, strict=True) == version
        assert each["metadata"]["namespace"] == "quita"


def test_a_setting_that_changed_replaces_the_pods_and_every_image_is_the_one_that_is_named() -> None:
    made = rendered(FOLDER)
    (config,) = [each for each in made if each["kind"] == "ConfigMap"]
    assert re.fullmatch(r"quita-settings-\w{10}", config["metadata"]["name"]), "named by what it holds"
    assert config["data"] == settings()
    pods = [
        each["spec"]["template"]["spec"]
        for each in (*made, *rendered(FOLDER / "migrate"))
        if "template" in each.get("spec", {})
    ]
    assert len(pods) == 3
    assert {container(spec)["image"] for spec in pods} == {"registry.example.com/quita:1.0.0"}
    for spec in pods[:2]:
        assert container(spec)["envFrom"][0] == {"configMapRef": {"name": config["metadata"]["name"]}}


def test_the_service_starts_in_production_with_what_is_set_and_every_name_is_a_setting(tmp_path: Path) -> None:
    env = production(tmp_path)
    read = read_settings(env)
    assert read.environment == "production"
    # WORKER_PORT and the like are asked for by their fields' names.
    assert set(settings()) | set(SECRETS) <= env.names
    assert (read.port, read.watching.metrics_port, read.watching.worker_port) == (8000, 9464, 9465)
    assert isinstance(read.http, HttpBounds)


def test_every_secret_that_has_to_be_there_is_told() -> None:
    block = re.search(r"```env\n(.*?)```", TEXT, re.S)
    assert block is not None
    assert {line.partition("=")[0] for line in block[1].splitlines()} == set(SECRETS)


@pytest.mark.parametrize("missing", [name for name in SECRETS if name != "DATABASE_REPORT_URL"])
def test_without_one_of_them_nothing_starts(missing: str, tmp_path: Path) -> None:
    env = production(tmp_path)
    del env[missing]
    with pytest.raises(ValueError, match=missing):
        read_settings(env)


def test_no_file_holds_a_secret() -> None:
    """They are named, and never there."""
    for each in (*manifests(), *manifests(FOLDER / "migrate")):
        assert each["kind"] != "Secret"
    assert not set(settings()) & set(SECRETS)
    for name in ("quita-api", "quita-worker"):
        assert container(pod(name))["envFrom"] == [
            {"configMapRef": {"name": "quita-settings"}}, {"secretRef": {"name": "quita-secrets"}},
        ]  # fmt: skip
        assert "env" not in container(pod(name))


def test_the_owner_of_the_tables_is_known_to_the_migration_alone() -> None:
    asked = container(job()["spec"]["template"]["spec"])
    assert asked["args"] == ["migrate"]
    assert "envFrom" not in asked, "neither SECRET_KEY nor anything else of the service"
    assert {each["name"]: each["valueFrom"]["secretKeyRef"]["name"] for each in asked["env"]} == dict.fromkeys(
        ("DATABASE_URL", "DATABASE_OWNER_URL", "DATABASE_REPORT_URL"), "quita-migrate"
    )


def test_a_rollout_drains(tmp_path: Path) -> None:
    drain_s = read_settings(production(tmp_path)).watching.drain_s
    for name in ("quita-api", "quita-worker"):
        spec = one("Deployment", name)["spec"]
        assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
        assert spec["replicas"] >= 2
        assert spec["template"]["spec"]["terminationGracePeriodSeconds"] >= drain_s + 25, "docs/running.md"
        assert one("PodDisruptionBudget", name)["spec"]["maxUnavailable"] == 1
        assert "lifecycle" not in container(spec["template"]["spec"])
    probe = container(pod("quita-api"))["readinessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] < drain_s, "seen before connections are refused"


def test_probes_ask_what_is_answered_and_where() -> None:
    paths = {route.path for route in service.ROUTES}
    asked = dict(_probes("quita-api"))
    assert asked == {
        "startupProbe": ("/healthz", 8000),
        "readinessProbe": ("/readyz", 8000),
        "livenessProbe": ("/healthz", 8000),
    }
    assert {path for path, _ in asked.values()} <= paths
    assert dict(_probes("quita-worker")) == {
        "startupProbe": ("/livez", 9465), "readinessProbe": ("/readyz", 9465), "livenessProbe": ("/livez", 9465),
    }  # fmt: skip
    answered = (ROOT / "workers" / "probes.py").read_text(encoding="utf-8")
    assert all(f'web.get("{path}"' in answered for path, _ in _probes_of_worker())


def _probes(name: str) -> Iterator[tuple[str, tuple[str, int]]]:
    of = container(pod(name))
    ports = {each["name"]: each["containerPort"] for each in of["ports"]}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        get = of[probe]["httpGet"]
        yield probe, (get["path"], ports[get["port"]])


def _probes_of_worker() -> list[tuple[str, int]]:
    return [asked for _, asked in _probes("quita-worker")]


def test_everybody_reaches_the_public_port_and_prometheus_alone_the_metrics() -> None:
    public, metrics = one("NetworkPolicy", "quita")["spec"]["ingress"]
    given = settings()
    assert public == {"ports": [{"port": int(given["PORT"])}]}
    assert [each["port"] for each in metrics["ports"]] == [int(given["METRICS_PORT"]), int(given["WORKER_PORT"])]
    assert metrics["from"]


def test_nobody_is_root_and_nothing_is_written_but_where_it_has_to_be() -> None:
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    uid = re.search(r"useradd --system .*--uid (\d+)", image)
    home = re.search(r"QUITA_HOME=(\S+)", image)
    assert uid is not None
    assert home is not None
    for spec in (pod("quita-api"), pod("quita-worker"), job()["spec"]["template"]["spec"]):
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == int(uid[1]), "Kubernetes does not know an image's user by name"
        assert spec["automountServiceAccountToken"] is False
        of = container(spec)
        assert of["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
        written = {each["mountPath"] for each in of["volumeMounts"] if not each.get("readOnly")}
        assert home[1] in written
        assert of["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in of["resources"]["limits"]


def test_the_certificate_for_the_bank_is_where_the_settings_say() -> None:
    given = settings()
    for name in ("quita-api", "quita-worker"):
        (mounted,) = [each for each in container(pod(name))["volumeMounts"] if each["name"] == "bank"]
        assert given["BANK_CERTIFICATE"] == f"{mounted['mountPath']}/tls.crt"
        assert given["BANK_CERTIFICATE_KEY"] == f"{mounted['mountPath']}/tls.key"
        (volume,) = [each for each in pod(name)["volumes"] if each["name"] == "bank"]
        assert volume["secret"]["secretName"] in TEXT


def test_workers_are_started_as_compose_starts_them() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    assert container(pod("quita-worker"))["command"] == services["worker"]["entrypoint"]
    assert container(pod("quita-api"))["args"] == services["api"]["command"]
