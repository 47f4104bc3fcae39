"""An S3 server in a process of its own (moto's), and a proxy before it that answers badly when it is told to."""

from __future__ import annotations

import http.client
import random
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import boto3
from waits import until

KEY, SECRET = "AKIAPUBLICPARTOFIT", "w0nderfully/secret+part"
BUCKET = "bucket"


class ObjectServer:
    """moto's server, with one bucket."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(command, **quiet)  # type: ignore[call-overload]
        self.address = f"http://127.0.0.1:{self.port}"
        until(self._listens, "a server of objects", 60)
        keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
        self._client = boto3.client("s3", endpoint_url=self.address, **keys)
        self._client.create_bucket(Bucket=BUCKET, ACL="public-read")

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def options(self, address: str | None = None) -> dict[str, Any]:
        """Storage options that lead here, with credentials."""
        return {"key": KEY, "secret": SECRET, "endpoint_url": address or self.address}

    def put_folder(self, folder: Path, name: str) -> str:
        """Write a folder as objects; gives its URL."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes())
        return f"s3://{BUCKET}/{name}"

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""
        self._client.put_object(Bucket=BUCKET, Key=key, Body=data)

    def get(self, key: str) -> bytes:
        """Read an object."""
        return bytes(self._client.get_object(Bucket=BUCKET, Key=key)["Body"].read())

    def delete(self, key: str) -> None:
        """Remove an object."""
        self._client.delete_object(Bucket=BUCKET, Key=key)

    def list(self, prefix: str = "") -> list[str]:
        """Names of objects, up to a thousand."""
        found = self._client.list_objects_v2(Bucket=BUCKET, Prefix=prefix)
        return [one["Key"] for one in found.get("Contents", [])]

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


class Faults(NamedTuple):
    """What share of answers is spoilt, how; and paths (by a regular expression) whose answers all are."""

    busy: float = 0.0
    """503 Slow Down."""
    reset: float = 0.0
    """The connection is reset."""
    cut: float = 0.0
    """Half of a body, then the end of the connection."""
    short: float = 0.0
    """Half of a body, as if it were all."""
    denied: float = 0.0
    """403 Access Denied."""
    slow: float = 0.0
    """Nothing for `seconds`."""
    seconds: float = 3.0
    only: str = ""
    """Spoils answers to these paths alone."""


class FaultyProxy:
    """Hands requests on to a server; `faults` says which answers are spoilt, drawn with a seed."""

    def __init__(self, server: ObjectServer, seed: int = 0) -> None:
        self.faults = Faults()
        self.spoilt: dict[str, int] = {}
        self.asked = 0
        self.at_once = self.most_at_once = 0
        self._random, self._lock = random.Random(seed), threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                with suppress(OSError):
                    super().handle_one_request()

            def _hand_on(self) -> None:
                proxy._count(1)
                try:
                    proxy._answer(self, server)
                finally:
                    proxy._count(-1)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _hand_on

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def _count(self, more: int) -> None:
        with self._lock:
            self.asked += more > 0
            self.at_once += more
            self.most_at_once = max(self.at_once, self.most_at_once)

    def _draw(self, path: str) -> str:
        """How to spoil an answer; "" where it stays as it is."""
        faults = self.faults
        with self._lock:
            drawn = self._random.random()
            if not re.search(faults.only, path):
                return ""
            for kind in ("busy", "reset", "cut", "short", "denied", "slow"):
                drawn -= getattr(faults, kind)
                if drawn < 0:
                    self.spoilt[kind] = self.spoilt.get(kind, 0) + 1
                    return kind
        return ""

    def _answer(self, request: BaseHTTPRequestHandler, server: ObjectServer) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        kind = self._draw(request.path)
        if kind == "slow":
            time.sleep(self.faults.seconds)
        if kind == "reset":
            # to be closed with a reset, not with an orderly end
            request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            request.close_connection = True
            request.connection.close()
            return
        if kind == "busy":
            self._send(request, 503, {}, b"<Error><Code>SlowDown</Code><Message>Please reduce</Message></Error>")
            return
        if kind == "denied":
            self._send(request, 403, {}, b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>")
            return
        upstream = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        passed = {name: value for name, value in request.headers.items() if name.lower() != "expect"}
        upstream.request(request.command, request.path, body, passed)
        found = upstream.getresponse()
        data = found.read()
        headers = {name: value for name, value in found.getheaders() if name.lower() not in ("connection", "date")}
        upstream.close()
        if kind == "short" and found.status < 300 and request.command == "GET":
            data = data[: len(data) // 2]
            headers["Content-Length"] = str(len(data))
        cut = len(data) // 2 if kind == "cut" else None
        self._send(request, found.status, headers, data, cut)

    def _send(
        self, request: BaseHTTPRequestHandler, status: int, headers: dict[str, str], data: bytes, cut: int | None = None
    ) -> None:
        request.send_response(status)
        for name, value in headers.items():
            if name.lower() != "transfer-encoding":
                request.send_header(name, value)
        if not any(name.lower() == "content-length" for name in headers):
            request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(data if cut is None else data[:cut])
        request.wfile.flush()
        if cut is not None:
            request.close_connection = True

    def close(self) -> None:
        """Stop listening."""
        self._http.shutdown()
        self._http.server_close()
