"""Computers of one's own: network namespaces on a bridge, each with an address, whose cables can be pulled.

As a script, `netns.py up NAME` and `netns.py down NAME` make and remove a scheduler's, three workers' and a client's
namespace, to try things by hand: `ip netns exec NAME-w1 dask worker tcp://10.77.0.1:8786`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence

HOSTS = ("s", "w1", "w2", "w3", "c")


class NotPermittedError(Exception):
    """Namespaces cannot be made here."""


def ip(*arguments: str) -> None:
    if shutil.which("ip") is None:
        raise NotPermittedError("there is no `ip` (Debian: iproute2)")
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False, timeout=20)
    if done.returncode != 0:
        raise NotPermittedError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


class Network:
    """Hosts 10.77.0.1, 10.77.0.2 ... on a bridge in a namespace of its own: nothing is reachable from outside."""

    def __init__(self, name: str, hosts: Sequence[str] = HOSTS) -> None:
        self.name = name
        self.hosts = {host: f"10.77.0.{number}" for number, host in enumerate(hosts, 1)}
        self.hub = f"{name}-hub"

    def up(self) -> None:
        """Make it."""
        ip("netns", "add", self.hub)
        ip("-n", self.hub, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.hub, "link", "set", "bridge", "up")
        for host, address in self.hosts.items():
            space = f"{self.name}-{host}"
            ip("netns", "add", space)
            ip("-n", self.hub, "link", "add", host, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("-n", self.hub, "link", "set", host, "master", "bridge", "up")
            ip("-n", space, "address", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", space, "link", "set", device, "up")

    def down(self) -> None:
        """Remove what there is of it."""
        for space in (self.hub, *(f"{self.name}-{host}" for host in self.hosts)):
            subprocess.run(["ip", "netns", "delete", space], capture_output=True, check=False, timeout=20)

    def on(self, host: str) -> list[str]:
        """What to put before a command that is to run on a host."""
        return ["ip", "netns", "exec", f"{self.name}-{host}"]

    def pull(self, host: str) -> None:
        """Pull a host's cable: nothing arrives, nobody is told."""
        ip("-n", self.hub, "link", "set", host, "down")

    def plug(self, host: str) -> None:
        """Put it back."""
        ip("-n", self.hub, "link", "set", host, "up")


if __name__ == "__main__":
    network = Network(sys.argv[2])
    {"up": network.up, "down": network.down}[sys.argv[1]]()
