"""The commands in the Compose file and in the Kubernetes manifests are run, as processes of this machine.

What a container would see is put in the place of its mounts, names and ports; everything else is as the file says.
"""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from dask.utils import parse_bytes
from waits import until

pytestmark = pytest.mark.slow


@dataclass
class Service:
    """One container: its command, its variables, and where its mounts are on this machine."""

    command: list[str]
    mounts: dict[str, Path]
    variables: dict[str, str] = field(default_factory=dict)
    health: list[str] | None = None  # a command

    def there(self, word: str) -> str:
        """A word of the command with container paths replaced; a path that is not mounted is an error."""
        found = re.fullmatch(r"(--[\w-]+=)?(/.*)", word)
        if not found:
            return word
        for mount, place in self.mounts.items():
            if found[2] == mount or found[2].startswith(mount + "/"):
                return (found[1] or "") + str(place) + found[2].removeprefix(mount)
        raise AssertionError(f"{word}: no such path in this container, which has {sorted(self.mounts)}")


# ------------------------------------------------------------------------------------------------------------ Compose


def interpolated(value: Any, variables: dict[str, str]) -> Any:
    """${NAME:-default} as Compose replaces it."""
    if isinstance(value, dict):
        return {name: interpolated(inner, variables) for name, inner in value.items()}
    if isinstance(value, list):
        return [interpolated(inner, variables) for inner in value]
    if isinstance(value, str):
        return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: variables.get(found[1], found[2]), value)
    return value


def from_compose(deploy: Path, folder: Path, tls: Path) -> dict[str, Service]:
    variables = {"DATA": str(folder / "data"), "TLS": str(tls), "THREADS": "1", "MEMORY": "2gb"}
    file = interpolated(yaml.safe_load((deploy / "compose.yaml").read_text()), variables)
    services = {}
    for name, one in file["services"].items():
        (folder / f"tmp-{name}").mkdir()
        mounts = {"/tmp": folder / f"tmp-{name}"}
        for volume in one["volumes"]:
            place, target = volume.removesuffix(":ro").split(":")
            assert Path(place).exists()
            mounts[target] = Path(place)
        health = one.get("healthcheck", {}).get("test", ["CMD"])[1:]
        services[name] = Service([*one.get("entrypoint", ["dmmc"]), *one["command"]], mounts, health=health or None)
    return services


# --------------------------------------------------------------------------------------------------------- Kubernetes


def from_kubernetes(deploy: Path, folder: Path, tls: Path) -> dict[str, Service]:
    made = subprocess.run(["bash", deploy / "kubernetes" / "tls-secret.sh", tls], capture_output=True, check=True)
    secrets = {}
    for secret in yaml.safe_load_all(made.stdout):
        name = secret["metadata"]["name"]
        secrets[name] = folder / name
        secrets[name].mkdir()
        for file, text in secret["data"].items():
            (secrets[name] / file).write_bytes(base64.b64decode(text))
    cluster = yaml.safe_load((deploy / "kubernetes" / "cluster.yaml").read_text())["spec"]
    job = yaml.safe_load((deploy / "kubernetes" / "job.yaml").read_text())["spec"]["template"]
    services = {}
    for name, pod in {
        "scheduler": cluster["scheduler"]["spec"],
        "worker": cluster["worker"]["spec"],
        "fit": job["spec"],
    }.items():
        (container,) = pod["containers"]
        variables = {"DASK_WORKER_NAME": "dmmc-default-worker-0123456789"}  # as the operator gives it
        for one in container.get("env", []):
            if "value" in one:
                variables[one["name"]] = one["value"]
            else:
                limit = container["resources"]["limits"][one["valueFrom"]["resourceFieldRef"]["resource"][7:]]
                variables[one["name"]] = str(parse_bytes(limit) if limit.endswith("i") else limit)
        volumes = {}
        for volume in pod["volumes"]:
            kind = next(key for key in volume if key != "name")
            empty = folder / f"tmp-{name}"
            empty.mkdir(exist_ok=True)
            volumes[volume["name"]] = {
                "secret": lambda volume=volume: secrets[volume["secret"]["secretName"]],
                "persistentVolumeClaim": lambda: folder / "data",
                "emptyDir": lambda empty=empty: empty,
            }[kind]()
        mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
        words = [*container["command"], *container["args"]]
        command = [re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], word) for word in words]  # noqa: B023
        health = None
        if probe := container.get("readinessProbe"):
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            asked = probe["httpGet"]
            url = f"http://127.0.0.1:{ports[asked['port']]}{asked['path']}"
            health = ["python", "-c", f"from urllib.request import urlopen; urlopen('{url}', timeout=4)"]
        services[name] = Service(command, mounts, variables, health)
    return services


# -------------------------------------------------------------------------------------------------------------- tests


class Machine:
    """Runs services of one file: each container port is a free port here, and each host name is 127.0.0.1."""

    def __init__(self, services: dict[str, Service], processes: Any, free_port: Callable[[], int]) -> None:
        self.services = services
        self.processes = processes
        self.ports = {
            (name, port): free_port() for name in ("scheduler", "worker") for port in ("8786", "8787", "8788")
        }

    def words(self, name: str, command: list[str]) -> list[str]:
        service = self.services[name]
        found = []
        for word in command:
            word = service.there(word)
            word = re.sub(r"(?<=tls://)[\w-]+:8786$", f"127.0.0.1:{self.ports['scheduler', '8786']}", word)
            word = re.sub(r"(?<==)8786$", str(self.ports["scheduler", "8786"]), word)
            if name != "fit":
                word = re.sub(r":(878[78])(?=$|/)", lambda port: f":{self.ports[name, port[1]]}", word)
            found.append(word)
        return found

    def start(self, name: str) -> Any:
        service = self.services[name]
        listen = [] if name == "fit" else ["--host", "127.0.0.1"]  # in a container it is the container's own address
        return self.processes.start(*self.words(name, service.command), *listen, **service.variables)

    def healthy(self, name: str) -> bool:
        health = self.services[name].health
        assert health is not None
        return self.processes.run(*self.words(name, health), seconds=30).popen.returncode == 0


@pytest.mark.parametrize("read", [from_compose, from_kubernetes])
def test_scheduler_worker_and_fit_run_as_the_file_says(
    read: Callable[[Path, Path, Path], dict[str, Service]],
    deploy: Path,
    digits_store: Path,
    certificates: Callable[[str], Path],
    processes: Any,
    free_port: Callable[[], int],
    labels_of: Callable[[Path], list[int]],
    tmp_path: Path,
) -> None:
    shutil.copytree(digits_store, tmp_path / "data" / "rows.zarr")
    machine = Machine(read(deploy, tmp_path, certificates("ours")), processes, free_port)
    assert not machine.healthy("scheduler")
    scheduler = machine.start("scheduler")
    until(lambda: machine.healthy("scheduler"), "a healthy scheduler")
    machine.start("worker")
    until(lambda: machine.healthy("worker"), "a healthy worker")
    scheduler.until("Register worker", 30)
    fit = machine.start("fit")
    assert fit.end(90) == 0, fit.said
    labels = labels_of(tmp_path / "data" / "result")
    assert len(labels) == 1797
    assert set(labels) == set(range(10))


def test_the_operator_can_ask_how_many_workers_are_wanted(
    deploy: Path,
    certificates: Callable[[str], Path],
    processes: Any,
    free_port: Callable[[], int],
    tmp_path: Path,
) -> None:
    (tmp_path / "data").mkdir()
    machine = Machine(from_kubernetes(deploy, tmp_path, certificates("ours")), processes, free_port)
    machine.start("scheduler")
    until(lambda: machine.healthy("scheduler"), "a healthy scheduler")
    url = f"http://127.0.0.1:{machine.ports['scheduler', '8787']}"
    with urllib.request.urlopen(f"{url}/api/v1/adaptive_target", timeout=10) as answer:
        assert answer.read() == b'{"workers": 0}'
    for page in ("/status", "/info/main/workers.html", "/json/identity.json"):  # and nothing else
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(url + page, timeout=10)
