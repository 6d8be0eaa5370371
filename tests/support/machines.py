"""Two machines, simulated by network namespaces with their own addresses."""

import shutil
import subprocess
import uuid
from collections.abc import Iterator

import pytest

ADDRESSES = ("10.213.7.1", "10.213.7.2")
INTERFACE = "rank0"
_REASON = "two machines are simulated by network namespaces, which"


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def connected_machines() -> Iterator[list[str]]:
    """Yield the names of two network namespaces that are connected by a pair of virtual interfaces and by nothing else."""
    if not shutil.which("ip"):
        pytest.skip(f"{_REASON} need the command `ip` (Debian: iproute2)")
    names = [f"di-{uuid.uuid4().hex[:6]}-{index}" for index in range(2)]
    one, other = names
    try:
        try:
            for name in names:
                ip("netns", "add", name)
            pair = ("type", "veth", "peer", "name", INTERFACE, "netns", other)
            ip("link", "add", INTERFACE, "netns", one, *pair)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"{_REASON} this system refuses: {error.stderr.strip()}")
        for name, address in zip(names, ADDRESSES, strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", INTERFACE)
            ip("-n", name, "link", "set", INTERFACE, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def on_machine(name: str, *command: str) -> list[str]:
    """Return the command line that runs a command on a machine."""
    return ["ip", "netns", "exec", name, *command]
