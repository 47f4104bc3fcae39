"""Certificates keep strangers out: tls.sh makes them, and a scheduler that has one turns away who has none."""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import socket
import ssl
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waits import until

pytestmark = pytest.mark.slow
ROLES = ["ca", "client", "scheduler", "worker"]


def tls(deploy: Path, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = ["bash", deploy / "tls.sh", *arguments]
    return subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, timeout=30)


def openssl(*arguments: object) -> str:
    command = ["openssl", *(str(word) for word in arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout


# ------------------------------------------------------------------------------------------------------------ tls.sh


def test_keys_are_for_their_owner_only(deploy: Path, tmp_path: Path) -> None:
    done = tls(deploy, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "not a PKI" in done.stdout
    files = sorted(path.name for path in (tmp_path / "tls").iterdir())
    assert files == sorted(f"{role}{kind}.pem" for role in ROLES for kind in ("", "-key"))
    for name in files:
        assert name in done.stdout
        mode = stat.S_IMODE(os.stat(tmp_path / "tls" / name).st_mode)
        assert mode == (0o600 if "key" in name else 0o644)


def test_certificates_are_short_lived_and_for_the_names_asked_for(deploy: Path, tmp_path: Path) -> None:
    done = tls(deploy, "-d", 3, "-n", "node7.example", "-n", "10.1.2.3", "-n", "fe80::1", "a folder", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "a folder"
    for role in ("scheduler", "worker", "client"):
        certificate = folder / f"{role}.pem"
        openssl("verify", "-x509_strict", "-CAfile", folder / "ca.pem", certificate)
        openssl("x509", "-in", certificate, "-noout", "-checkend", 2 * 86400)
        with pytest.raises(subprocess.CalledProcessError):
            openssl("x509", "-in", certificate, "-noout", "-checkend", 4 * 86400)
        text = openssl("x509", "-in", certificate, "-noout", "-text")
        for name in ("localhost", "127.0.0.1", "node7.example", "10.1.2.3", "FE80:0:0:0:0:0:0:1"):
            assert re.search(rf"(DNS|IP Address):{re.escape(name)}(,|$)", text, flags=re.MULTILINE)
        assert ("TLS Web Server Authentication" in text) == (role != "client")
        assert "CA:FALSE" in text


def test_nothing_is_overwritten_and_nothing_half_made_is_left(deploy: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    folder.mkdir()
    (folder / "worker-key.pem").write_text("precious")
    done = tls(deploy, folder, cwd=tmp_path)
    assert done.returncode == 2
    assert "worker-key.pem exists" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["worker-key.pem"]
    assert (folder / "worker-key.pem").read_text() == "precious"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-d", "soon"], "number of days"),
        (["-d", "0"], "number of days"),
        (["-n", "a b"], "host name"),
        (["-n", "x,DNS:bank.example"], "host name"),
        (["one", "two"], "one folder"),
        (["-x"], "tls.sh [-d DAYS]"),
    ],
)
def test_bad_arguments_make_nothing(arguments: list[str], words: str, deploy: Path, tmp_path: Path) -> None:
    done = tls(deploy, *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert list(tmp_path.iterdir()) == []


# ----------------------------------------------------------------------------------------------------------- clusters


class Cluster:
    """A scheduler and one worker over TLS, as processes."""

    def __init__(self, processes: Any, folder: Path, certificates: Path) -> None:
        self.processes = processes
        self.certificates = certificates
        self.file = folder / "scheduler.json"
        listen = ["--host", "127.0.0.1", "--no-dashboard", "--dashboard-address", "127.0.0.1:0", "--protocol", "tls"]
        self.scheduler = processes.start(
            *("dask", "scheduler", "--port", 0, *listen, "--scheduler-file", self.file),
            *self.options(certificates, "scheduler"),
        )
        until(self.file.exists, "a scheduler file")
        self.worker = processes.start("dask", "worker", *self.listen, *self.options(certificates, "worker"))
        self.scheduler.until("Register worker", 30)
        self.address = json.loads(self.file.read_text())["address"]
        self.port = int(self.address.rpartition(":")[2])

    @property
    def listen(self) -> list[object]:
        where = ["--host", "127.0.0.1", "--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
        return ["--scheduler-file", self.file, *where, "--nthreads", 1, "--memory-limit", "2GiB"]

    @staticmethod
    def options(folder: Path, role: str) -> list[object]:
        files = {"ca-file": "ca.pem", "cert": f"{role}.pem", "key": f"{role}-key.pem"}
        return [word for name, file in files.items() for word in (f"--tls-{name}", folder / file)]


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest,
    certificates: Callable[[str], Path],
    module_processes: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Cluster:
    return Cluster(module_processes, tmp_path_factory.mktemp("cluster"), certificates("ours"))


def hello(cluster: Cluster, context: ssl.SSLContext) -> bytes:
    """What the scheduler says first to one who connects."""
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # what matters here is what the scheduler thinks of us
    with (
        socket.create_connection(("127.0.0.1", cluster.port), timeout=10) as plain,
        context.wrap_socket(plain) as secure,
    ):
        return secure.recv(100)


def test_the_scheduler_talks_only_to_certificates_of_its_authority(
    cluster: Cluster, certificates: Callable[[str], Path]
) -> None:
    def context(folder: Path | None, role: str = "client") -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if folder is not None:
            made.load_cert_chain(folder / f"{role}.pem", folder / f"{role}-key.pem")
        return made

    assert hello(cluster, context(certificates("ours"))) != b""
    for stranger in (context(None), context(certificates("others"))):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            hello(cluster, stranger)
    for reason in ("peer did not return a certificate", "certificate verify failed"):  # the scheduler's own words
        cluster.scheduler.until(reason, 10)


def test_a_client_of_dask_gets_in_only_with_a_certificate_of_the_authority(
    cluster: Cluster, certificates: Callable[[str], Path]
) -> None:
    from distributed import Client, Security

    def security(folder: Path, authority: Path) -> Security:
        files = {"tls_client_cert": folder / "client.pem", "tls_client_key": folder / "client-key.pem"}
        texts = {name: str(path) for name, path in files.items()}
        return Security(tls_ca_file=str(authority / "ca.pem"), require_encryption=True, **texts)

    ours, others = certificates("ours"), certificates("others")
    with Client(cluster.address, security=security(ours, ours), timeout=20) as client:
        assert len(client.scheduler_info()["workers"]) == 1
    strangers = {
        "no certificate": (cluster.address, None, "TLS expects a `ssl_context`"),
        "another authority": (cluster.address, security(others, others), "TLS certificate does not match"),
        "another's certificate": (cluster.address, security(others, ours), "SSL|reset|closed"),
        "no TLS": (cluster.address.replace("tls://", "tcp://"), None, "reset|closed"),
    }
    for address, secrets, reason in strangers.values():
        with pytest.raises((OSError, TypeError), match=reason):
            Client(address, security=secrets, timeout=3)
        gc.collect()  # a half-built client that is collected while the next one starts would lock it up


def test_a_worker_without_a_certificate_of_the_authority_never_joins(
    cluster: Cluster, certificates: Callable[[str], Path], tmp_path: Path
) -> None:
    others = certificates("others")
    mixed = tmp_path / "mixed"  # trusts our authority, but comes with another's certificate
    shutil.copytree(others, mixed)
    shutil.copy(certificates("ours") / "ca.pem", mixed / "ca.pem")
    plain = [word for word in cluster.listen if word not in ("--scheduler-file", cluster.file)]
    address = cluster.address.replace("tls://", "tcp://")
    before = cluster.scheduler.said.count("Register worker")
    start = cluster.processes.start
    strangers = {
        start("dask", "worker", *cluster.listen, "--death-timeout", 4): "TLS expects a `ssl_context`",
        start("dask", "worker", *cluster.listen, *cluster.options(others, "worker")): "CERTIFICATE_VERIFY_FAILED",
        start("dask", "worker", *cluster.listen, *cluster.options(mixed, "worker")): "CommClosedError: in <TLS",
        start("dask", "worker", address, *plain, "--death-timeout", 4): "CommClosedError: in <TCP",
    }
    for stranger, reason in strangers.items():
        assert stranger.end(60) != 0
        assert reason in stranger.said
        assert "Registered to" not in stranger.said
    assert cluster.scheduler.said.count("Register worker") == before
    for reason in ("certificate verify failed", "wrong version number"):  # the scheduler's own words
        assert reason in cluster.scheduler.said


# --------------------------------------------------------------------------------------------------------------- fits


def fit(cluster: Cluster, store: Path, out: Path, *options: object, seconds: float = 90) -> Any:
    return cluster.processes.run(
        "dmmc", "fit", "--method", "cpmmc", store, "-k", 10, "-o", out, *options, seconds=seconds
    )


def client(folder: Path) -> list[object]:
    return ["--tls-ca", folder / "ca.pem", "--tls-cert", folder / "client.pem", "--tls-key", folder / "client-key.pem"]


def test_a_fit_with_a_certificate_works(
    cluster: Cluster, digits_store: Path, tmp_path: Path, labels_of: Callable[[Path], list[int]]
) -> None:
    done = fit(cluster, digits_store, tmp_path / "out", "--scheduler", cluster.address, *client(cluster.certificates))
    assert done.popen.returncode == 0, done.said
    assert len(labels_of(tmp_path / "out")) == 1797


@pytest.mark.parametrize("whose", ["others", None])
def test_a_fit_without_one_is_refused_in_a_sentence(
    whose: str | None, cluster: Cluster, digits_store: Path, tmp_path: Path, certificates: Callable[[str], Path]
) -> None:
    options = client(certificates(whose)) if whose else []
    done = fit(cluster, digits_store, tmp_path / "out", "--scheduler", cluster.address, *options, seconds=45)
    assert done.popen.returncode in (2, 3), done.said
    assert "dmmc: " in done.said
    assert "TLS" in done.said or "certificate" in done.said
    assert "Traceback" not in done.said
    assert not (tmp_path / "out").exists()
