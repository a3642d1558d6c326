"""The manifests of docs/operations/kubernetes: Kubernetes accepts them, the service starts with their settings, and a
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
# The oldest version that some provider still supports, and the newest that kubernetes_validate knows.
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
    """The manifests in the files that kustomization.yaml names."""
    named = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    return [manifest for name in named for manifest in yaml.safe_load_all((folder / name).read_text(encoding="utf-8"))]


def rendered(folder: Path) -> list[dict[str, Any]]:
    """The manifests as Kustomize renders them."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    result = subprocess.run(
        ["kubectl", "kustomize", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert result.returncode == 0, result.stderr
    return list(yaml.safe_load_all(result.stdout))


def manifest(kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in manifests() if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def pod_spec(name: str) -> dict[str, Any]:
    found: dict[str, Any] = manifest("Deployment", name)["spec"]["template"]["spec"]
    return found


def migration_job() -> dict[str, Any]:
    (found,) = manifests(FOLDER / "migrate")
    return found


def container(spec: Mapping[str, Any]) -> dict[str, Any]:
    (found,) = spec["containers"]
    return dict(found)


def settings() -> dict[str, str]:
    lines = (FOLDER / "settings.env").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


class RecordingEnvironment(dict[str, str]):
    """An environment that records the names that are read from it."""

    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__(given)
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        return super().__getitem__(name)


def production_environment(tmp_path: Path) -> RecordingEnvironment:
    certificate = tmp_path / "tls.pem"
    certificate.write_text("")
    files = dict.fromkeys(("BANK_CERTIFICATE", "BANK_CERTIFICATE_KEY"), str(certificate))
    return RecordingEnvironment({**settings(), **SECRETS, **files})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("folder", [FOLDER, FOLDER / "migrate"], ids=["service", "migrate"])
def test_kubernetes_accepts_every_manifest(folder: Path, version: str) -> None:
    for each in manifests(folder):
        assert kubernetes_validate.validate(each, version, strict=True) == version


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("folder", [FOLDER, FOLDER / "migrate"], ids=["service", "migrate"])
def test_kubernetes_accepts_the_manifests_that_kustomize_renders(folder: Path, version: str) -> None:
    for each in rendered(folder):
        assert kubernetes_validate.validate(each, version, strict=True) == version
        assert each["metadata"]["namespace"] == "quita"


def test_a_changed_setting_replaces_the_pods_and_all_pods_run_the_same_image() -> None:
    made = rendered(FOLDER)
    (config,) = [each for each in made if each["kind"] == "ConfigMap"]
    assert re.fullmatch(r"quita-settings-\w{10}", config["metadata"]["name"]), (
        "the name contains a hash of the settings"
    )
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


def test_the_service_starts_in_production_with_the_settings_and_reads_each_of_them(tmp_path: Path) -> None:
    env = production_environment(tmp_path)
    read = read_settings(env)
    assert read.environment == "production"
    # WORKER_PORT and others are read by the names of their fields.
    assert set(settings()) | set(SECRETS) <= env.names
    assert (read.port, read.watching.metrics_port, read.watching.worker_port) == (8000, 9464, 9465)
    assert isinstance(read.http, HttpBounds)


def test_the_page_lists_every_required_secret() -> None:
    block = re.search(r"```env\n(.*?)```", TEXT, re.S)
    assert block is not None
    assert {line.partition("=")[0] for line in block[1].splitlines()} == set(SECRETS)


@pytest.mark.parametrize("missing", [name for name in SECRETS if name != "DATABASE_REPORT_URL"])
def test_without_a_required_secret_the_service_refuses_to_start(missing: str, tmp_path: Path) -> None:
    env = production_environment(tmp_path)
    del env[missing]
    with pytest.raises(ValueError, match=missing):
        read_settings(env)


def test_manifests_reference_secrets_and_contain_none() -> None:
    for each in (*manifests(), *manifests(FOLDER / "migrate")):
        assert each["kind"] != "Secret"
    assert not set(settings()) & set(SECRETS)
    for name in ("quita-api", "quita-worker"):
        assert container(pod_spec(name))["envFrom"] == [
            {"configMapRef": {"name": "quita-settings"}}, {"secretRef": {"name": "quita-secrets"}},
        ]  # fmt: skip
        assert "env" not in container(pod_spec(name))


def test_only_the_migration_job_has_the_address_of_the_tables_owner() -> None:
    asked = container(migration_job()["spec"]["template"]["spec"])
    assert asked["args"] == ["migrate"]
    assert "envFrom" not in asked, "neither SECRET_KEY nor anything else of the service"
    assert {each["name"]: each["valueFrom"]["secretKeyRef"]["name"] for each in asked["env"]} == dict.fromkeys(
        ("DATABASE_URL", "DATABASE_OWNER_URL", "DATABASE_REPORT_URL"), "quita-migrate"
    )


def test_a_rollout_replaces_pods_one_by_one_and_drains_them(tmp_path: Path) -> None:
    drain_s = read_settings(production_environment(tmp_path)).watching.drain_s
    for name in ("quita-api", "quita-worker"):
        spec = manifest("Deployment", name)["spec"]
        assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
        assert spec["replicas"] >= 2
        assert spec["template"]["spec"]["terminationGracePeriodSeconds"] >= drain_s + 25, "docs/running.md"
        assert manifest("PodDisruptionBudget", name)["spec"]["maxUnavailable"] == 1
        assert "lifecycle" not in container(spec["template"]["spec"])
    probe = container(pod_spec("quita-api"))["readinessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] < drain_s, (
        "Kubernetes sees that a pod is not ready before the pod refuses connections"
    )


def test_probes_request_paths_and_ports_that_are_served() -> None:
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
    of = container(pod_spec(name))
    ports = {each["name"]: each["containerPort"] for each in of["ports"]}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        get = of[probe]["httpGet"]
        yield probe, (get["path"], ports[get["port"]])


def _probes_of_worker() -> list[tuple[str, int]]:
    return [asked for _, asked in _probes("quita-worker")]


def test_the_public_port_is_open_to_all_and_the_metrics_only_to_prometheus() -> None:
    public, metrics = manifest("NetworkPolicy", "quita")["spec"]["ingress"]
    given = settings()
    assert public == {"ports": [{"port": int(given["PORT"])}]}
    assert [each["port"] for each in metrics["ports"]] == [int(given["METRICS_PORT"]), int(given["WORKER_PORT"])]
    assert metrics["from"]


def test_no_container_runs_as_root_or_can_write_outside_its_mounted_volumes() -> None:
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    uid = re.search(r"useradd --system .*--uid (\d+)", image)
    home = re.search(r"QUITA_HOME=(\S+)", image)
    assert uid is not None
    assert home is not None
    for spec in (pod_spec("quita-api"), pod_spec("quita-worker"), migration_job()["spec"]["template"]["spec"]):
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
        (mounted,) = [each for each in container(pod_spec(name))["volumeMounts"] if each["name"] == "bank"]
        assert given["BANK_CERTIFICATE"] == f"{mounted['mountPath']}/tls.crt"
        assert given["BANK_CERTIFICATE_KEY"] == f"{mounted['mountPath']}/tls.key"
        (volume,) = [each for each in pod_spec(name)["volumes"] if each["name"] == "bank"]
        assert volume["secret"]["secretName"] in TEXT


def test_kubernetes_starts_api_and_workers_with_the_commands_of_compose() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    assert container(pod_spec("quita-worker"))["command"] == services["worker"]["entrypoint"]
    assert container(pod_spec("quita-api"))["args"] == services["api"]["command"]
