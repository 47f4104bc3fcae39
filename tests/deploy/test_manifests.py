"""Manifests are what Kubernetes, the Dask operator and Compose accept: checked offline, against their own schemas."""

from __future__ import annotations

import copy
import json
import os
import re
import stat
import subprocess
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import jsonschema
import pytest
import yaml

Wheel = Callable[[str], ZipFile]
Check = Callable[[dict[str, Any]], None]

KUBERNETES = "1.37.0"
CRDS = "dask_kubernetes/operator/deployment/helm/dask-kubernetes-operator/crds/{}.yaml"


# ------------------------------------------------------------------------------------------------------- the schemas


def strict(schema: Any) -> Any:
    """A schema of a custom resource as the API server applies it with `kubectl apply`: unknown fields are errors."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: strict(value) for name, value in schema.items()}
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string"):
        found["type"] = ["integer", "string"]
        del found["format"]
    open_ended = "additionalProperties" in schema or schema.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" and not open_ended:
        found["additionalProperties"] = False
    return found


@pytest.fixture(scope="module")
def dask_operator(wheel: Wheel) -> Check:
    """Checks a resource of the Dask operator against its CustomResourceDefinition."""
    schemas: dict[str, Any] = {}

    def check(resource: dict[str, Any]) -> None:
        kind = resource["kind"]
        if kind not in schemas:
            with wheel("dask_kubernetes") as archive:
                crd = yaml.load(archive.read(CRDS.format(kind.lower())), yaml.CSafeLoader)
            (version,) = (one for one in crd["spec"]["versions"] if one["name"] == "v1")
            schema = strict(version["schema"]["openAPIV3Schema"])
            schema["properties"] |= {"apiVersion": {"const": "kubernetes.dask.org/v1"}, "kind": {"const": kind}}
            schema["properties"]["metadata"] = {"type": "object", "required": ["name"]}
            schema["required"] = ["apiVersion", "kind", "metadata", "spec"]
            schemas[kind] = jsonschema.Draft7Validator(schema)
        schemas[kind].validate(resource)

    return check


@pytest.fixture(scope="module")
def kubernetes(wheel: Wheel) -> Callable[[str, Any], None]:
    """Checks an object against a definition of Kubernetes, unknown fields refused."""
    with wheel("kubernetes_validate") as archive:
        path = f"kubernetes_validate/kubernetes-json-schema/v{KUBERNETES}-local-strict/_definitions.json"
        definitions = json.loads(archive.read(path).replace(b"_definitions.json#/", b"#/"))["$defs"]
    validators: dict[str, Any] = {}

    def check(name: str, found: Any) -> None:
        if name not in validators:
            assert name in definitions
            schema = {"$ref": f"#/$defs/{name}", "$defs": definitions}
            validators[name] = jsonschema.Draft202012Validator(schema)
        validators[name].validate(found)

    return check


DEFINITIONS = {
    ("v1", "PersistentVolumeClaim"): "io.k8s.api.core.v1.PersistentVolumeClaim",
    ("v1", "Secret"): "io.k8s.api.core.v1.Secret",
    ("batch/v1", "Job"): "io.k8s.api.batch.v1.Job",
    ("networking.k8s.io/v1", "NetworkPolicy"): "io.k8s.api.networking.v1.NetworkPolicy",
}


@pytest.fixture(scope="module")
def check(dask_operator: Check, kubernetes: Callable[[str, Any], None]) -> Check:
    """Checks any resource that deploy/kubernetes has."""

    def one(resource: dict[str, Any]) -> None:
        if resource["apiVersion"].startswith("kubernetes.dask.org/"):
            dask_operator(resource)
            if resource["kind"] == "DaskCluster":  # the CRD leaves more open than the API server will
                for part in ("scheduler", "worker"):
                    kubernetes("io.k8s.api.core.v1.PodSpec", resource["spec"][part]["spec"])
                kubernetes("io.k8s.api.core.v1.ServiceSpec", resource["spec"]["scheduler"]["service"])
        else:
            kubernetes(DEFINITIONS[resource["apiVersion"], resource["kind"]], resource)

    return one


@pytest.fixture
def manifests(deploy: Path) -> dict[str, dict[str, Any]]:
    """Each resource of deploy/kubernetes by its kind."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((deploy / "kubernetes").rglob("*.yaml")):
        for resource in yaml.safe_load_all(path.read_text()):
            assert resource["kind"] not in found
            found[resource["kind"]] = resource
    return found


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all mappings in a document."""
    if isinstance(value, dict):
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


# ------------------------------------------------------------------------------------------------------- Kubernetes


KINDS = ["DaskAutoscaler", "DaskCluster", "Job", "NetworkPolicy", "PersistentVolumeClaim"]


def test_these_are_the_resources(manifests: dict[str, Any]) -> None:
    assert sorted(manifests) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_resource_is_valid(kind: str, manifests: dict[str, Any], check: Check) -> None:
    check(manifests[kind])


FREE = {"labels", "matchLabels", "requests", "limits", "data", "selector", "nodeSelector", "annotations", "metadata"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_misspelt_field_is_refused_wherever_it_is(kind: str, manifests: dict[str, Any], check: Check) -> None:
    spec = manifests[kind]["spec"]
    paths = [path for path in places(spec) if not (path and path[-1] in FREE)]
    assert paths
    for path in paths:
        broken = copy.deepcopy(manifests[kind])
        at(broken["spec"], path)["replicaz"] = 3
        with pytest.raises(jsonschema.ValidationError):
            check(broken)


MISTAKES: list[tuple[str, tuple[Any, ...], Any]] = [
    ("DaskCluster", ("spec", "worker", "replicas"), "four"),
    ("DaskCluster", ("spec", "scheduler"), None),
    ("DaskCluster", ("spec", "scheduler", "spec", "containers", 0, "args"), "dask scheduler"),
    ("DaskCluster", ("spec", "worker", "spec", "containers", 0, "image"), 3),
    ("DaskCluster", ("apiVersion",), "kubernetes.dask.org/v2"),
    ("DaskAutoscaler", ("spec", "minimum"), "1"),
    ("DaskAutoscaler", ("spec", "cluster"), None),
    ("Job", ("spec", "backoffLimit"), "ten"),
    ("Job", ("spec", "template", "spec", "containers", 0, "args", 3), 10),
    ("Job", ("spec", "podFailurePolicy", "rules", 0, "onExitCodes", "values"), [2, "three"]),
    ("PersistentVolumeClaim", ("spec", "accessModes"), "ReadWriteMany"),
    ("NetworkPolicy", ("spec", "policyTypes"), "Ingress"),
]


@pytest.mark.parametrize(("kind", "path", "value"), MISTAKES)
def test_a_mistake_is_refused(
    kind: str, path: tuple[Any, ...], value: Any, manifests: dict[str, Any], check: Check
) -> None:
    broken = copy.deepcopy(manifests[kind])
    parent = at(broken, path[:-1])
    if value is None:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        check(broken)


def pods(manifests: dict[str, Any]) -> dict[str, dict[str, Any]]:
    cluster = manifests["DaskCluster"]["spec"]
    return {
        "scheduler": cluster["scheduler"]["spec"],
        "worker": cluster["worker"]["spec"],
        "fit": manifests["Job"]["spec"]["template"]["spec"],
    }


def test_pods_run_without_rights_and_with_limits(manifests: dict[str, Any]) -> None:
    for pod in pods(manifests).values():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] >= 1000
        assert pod["automountServiceAccountToken"] is False
        (container,) = pod["containers"]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert "memory" in container["resources"]["limits"]


def test_what_a_pod_mounts_is_there(manifests: dict[str, Any], deploy: Path) -> None:
    secrets = {f"dmmc-tls-{role}" for role in ("scheduler", "worker", "client")}
    mounted = set()
    for pod in pods(manifests).values():
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        (container,) = pod["containers"]
        assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
        for volume in volumes.values():
            if "secret" in volume:
                mounted.add(volume["secret"]["secretName"])
            if claim := volume.get("persistentVolumeClaim"):
                assert claim["claimName"] == manifests["PersistentVolumeClaim"]["metadata"]["name"]
    assert mounted == secrets


def test_names_of_cluster_service_and_ports_agree(manifests: dict[str, Any]) -> None:
    cluster = manifests["DaskCluster"]
    name = cluster["metadata"]["name"]
    assert manifests["DaskAutoscaler"]["spec"]["cluster"] == name
    service = cluster["spec"]["scheduler"]["service"]
    assert service["selector"] == {"dask.org/cluster-name": name, "dask.org/component": "scheduler"}
    (scheduler,) = cluster["spec"]["scheduler"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in scheduler["ports"]}
    assert {port["targetPort"]: port["port"] for port in service["ports"]} == ports
    assert {"tcp-comm", "http-dashboard"} == set(ports)  # the names that the operator looks for
    assert service["type"] == "ClusterIP"  # not seen from outside
    for role in ("worker", "fit"):
        (container,) = pods(manifests)[role]["containers"]
        addresses = re.findall(r"tls://([\w-]+):(\d+)", " ".join(container["args"]))
        assert addresses == [(f"{name}-scheduler", str(ports["tcp-comm"]))]
    policy = manifests["NetworkPolicy"]["spec"]
    assert policy["podSelector"]["matchLabels"] == {"dask.org/cluster-name": name}
    drivers = policy["ingress"][0]["from"][1]["podSelector"]["matchLabels"]
    assert drivers.items() <= manifests["Job"]["spec"]["template"]["metadata"]["labels"].items()


def what_happens(job: dict[str, Any], code: int) -> str:
    """What the Job does when its container ends with a code: the first rule that fits."""
    for rule in job["spec"]["podFailurePolicy"]["rules"]:
        if code in rule.get("onExitCodes", {}).get("values", ()):
            assert rule["onExitCodes"]["operator"] == "In"
            assert rule["onExitCodes"]["containerName"] == job["spec"]["template"]["spec"]["containers"][0]["name"]
            return str(rule["action"])
    return "Count"


def test_a_killed_driver_is_started_again_and_goes_on_but_bad_input_is_not_tried_twice(
    manifests: dict[str, Any],
) -> None:
    job = manifests["Job"]
    assert {code: what_happens(job, code) for code in (2, 3, 4, 130, 137)} == {
        2: "FailJob",
        3: "Count",
        4: "Count",
        130: "Count",
        137: "Count",
    }
    assert job["spec"]["backoffLimit"] >= 3
    assert job["spec"]["podReplacementPolicy"] == "Failed"
    pod = job["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never"  # Kubernetes wants it for a podFailurePolicy
    assert pod["terminationGracePeriodSeconds"] >= 60
    assert "--resume" in pod["containers"][0]["args"]


def secrets(deploy: Path, *arguments: object) -> list[dict[str, Any]]:
    command = ["bash", deploy / "kubernetes" / "tls-secret.sh", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def test_secrets_are_valid_and_hold_one_role_each(
    deploy: Path, certificates: Callable[[str], Path], check: Check
) -> None:
    import base64

    folder = certificates("ours")
    found = secrets(deploy, folder)
    assert [secret["metadata"]["name"] for secret in found] == [
        f"dmmc-tls-{role}" for role in ("scheduler", "worker", "client")
    ]
    for secret in found:
        check(secret)
        role = secret["metadata"]["name"].removeprefix("dmmc-tls-")
        texts = {name: base64.b64decode(value) for name, value in secret["data"].items()}
        files_of = {"ca.crt": "ca.pem", "tls.crt": f"{role}.pem", "tls.key": f"{role}-key.pem"}
        assert texts == {name: (folder / file).read_bytes() for name, file in files_of.items()}
    broken = copy.deepcopy(found[0])
    broken["data"]["tls.key"] = 3
    with pytest.raises(jsonschema.ValidationError):
        check(broken)


def test_secrets_made_from_nothing_are_for_the_name_of_the_service(deploy: Path, tmp_path: Path) -> None:
    import base64

    scheduler = secrets(deploy)[0]
    (tmp_path / "one.pem").write_bytes(base64.b64decode(scheduler["data"]["tls.crt"]))
    command = ["openssl", "x509", "-in", tmp_path / "one.pem", "-noout", "-ext", "subjectAltName"]
    assert "DNS:dmmc-scheduler" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_folder_without_certificates_makes_no_secrets(deploy: Path, tmp_path: Path) -> None:
    command = ["bash", deploy / "kubernetes" / "tls-secret.sh", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    assert "ca.pem" in done.stderr


# --------------------------------------------------------------------------------------------------------- Compose


@pytest.fixture(scope="module")
def compose_schema() -> Any:
    """The Compose specification's own schema, as check-jsonschema carries it."""
    text = files("check_jsonschema").joinpath("builtin_schemas/vendor/compose-spec.json").read_text()
    return jsonschema.Draft202012Validator(json.loads(text))


@pytest.fixture
def compose(deploy: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((deploy / "compose.yaml").read_text())
    return found


def test_the_compose_file_is_valid(compose: dict[str, Any], compose_schema: Any) -> None:
    compose_schema.validate(compose)
    assert set(compose["services"]) == {"scheduler", "worker", "fit"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("services", "fit", "comand"), ["fit"]),
        (("services", "fit", "command"), 3),
        (("services", "worker", "healthcheck", "tests"), ["CMD"]),
        (("services", "worker", "depends_on", "scheduler", "condition"), "healthy"),
        (("services", "scheduler", "read_only"), []),
        (("service",), {}),
    ],
)
def test_a_mistake_in_the_compose_file_is_refused(
    path: tuple[str, ...], value: Any, compose: dict[str, Any], compose_schema: Any
) -> None:
    broken = copy.deepcopy(compose)
    at(broken, path[:-1])[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        compose_schema.validate(broken)


def test_the_compose_file_opens_no_port_and_gives_each_service_its_own_key(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert "ports" not in service
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        role = "client" if name == "fit" else name
        targets = [volume.split(":")[-2 if volume.endswith(":ro") else -1] for volume in service["volumes"]]
        assert [target for target in targets if target.endswith("-key.pem")] == [f"/tls/{role}-key.pem"]
    for name in ("scheduler", "worker"):
        assert compose["services"][name]["healthcheck"]["test"][0] == "CMD"
        assert compose["services"]["fit"]["depends_on"][name]["condition"] == "service_healthy"


# ---------------------------------------------------------------------------------------------- Dockerfile, scripts


def instructions(path: Path) -> list[tuple[str, str]]:
    """Instructions of a Dockerfile: (name, what follows)."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    found = [line.split(maxsplit=1) for line in "\n".join(lines).replace("\\\n", " ").splitlines() if line.strip()]
    return [(name.upper(), rest) for name, rest in found]


def test_the_image_is_made_of_files_that_exist_and_runs_dmmc_as_nobody_special(deploy: Path, repo: Path) -> None:
    found = instructions(deploy / "Dockerfile")
    known = {"ARG", "FROM", "ENV", "RUN", "WORKDIR", "COPY", "USER", "ENTRYPOINT", "CMD"}
    assert {name for name, _ in found} == known
    stages = [re.search(r" AS (\w+)$", rest) for name, rest in found if name == "FROM"]
    assert len(stages) == 2
    assert stages[0] is not None
    kept = [
        line.removeprefix("!")
        for line in (deploy / "Dockerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    for name, rest in found:
        if name == "COPY" and "--from=" in rest:
            assert f"--from={stages[0][1]} " in rest
        elif name == "COPY":
            *sources, _ = rest.split()
            assert sources
            for source in sources:
                assert (repo / source).exists()
                assert source in kept  # else the build would not see it
    last = max(i for i, (name, _) in enumerate(found) if name == "FROM")
    final = dict(found[last:])
    user, group = final["USER"].split(":")
    assert int(user) >= 1000
    assert int(group) >= 1000
    assert json.loads(final["ENTRYPOINT"]) == ["dmmc"]
    assert json.loads(final["CMD"]) == ["--help"]
    names = [name for name, _ in found[last:]]
    assert names.index("USER") > max(i for i, name in enumerate(names) if name == "RUN")


def test_the_image_installs_extras_that_exist(deploy: Path, repo: Path) -> None:
    import tomllib

    project = tomllib.loads((repo / "pyproject.toml").read_text())["project"]
    (extras,) = (rest for name, rest in instructions(deploy / "Dockerfile") if name == "ARG" and "EXTRAS" in rest)
    assert set(extras.split("=")[1].split(",")) <= set(project["optional-dependencies"])


SCRIPTS = ["tls.sh", "local.sh", "kubernetes/tls-secret.sh", "slurm/plain.sbatch", "slurm/jobqueue.sbatch"]


def test_these_are_the_scripts(deploy: Path) -> None:
    found = [path for path in deploy.rglob("*") if path.suffix in (".sh", ".sbatch")]
    assert sorted(str(path.relative_to(deploy)) for path in found) == sorted(SCRIPTS)
    for path in found:
        text = path.read_text()
        assert text.startswith("#!/usr/bin/env bash\n")
        assert "\nset -euo pipefail\n" in text
        if path.suffix == ".sh":
            assert os.stat(path).st_mode & stat.S_IXUSR


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_passes_bash_and_shellcheck(name: str, deploy: Path) -> None:
    from shutil import which
    from sys import executable

    for command in (["bash", "-n"], [which("shellcheck", path=Path(executable).parent), "--severity=warning"]):
        done = subprocess.run([*command, deploy / name], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_way_has_a_page_that_says_what_was_run(deploy: Path) -> None:
    for page in ("README.md", "kubernetes/README.md", "slurm/README.md"):
        text = (deploy / page).read_text()
        assert "not run" in text
        for name in re.findall(r"\bdeploy/([\w./-]+\.(?:sh|py|yaml|sbatch))\b", text):
            assert (deploy / name).is_file(), f"{page} names {name}"
