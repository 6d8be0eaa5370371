"""An S3-compatible server, which is a process of its own, with the empty bucket ``shop``."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

KEYS = {"key": "testing", "secret": "testing"}


@contextmanager
def serve_bucket(folder: Path) -> Iterator[str]:
    """Start the server and yield its address; its log is in ``folder``."""
    log = folder / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"], stdout=output, stderr=output
        )
    try:
        for _ in range(600):
            if "Running on http" in log.read_text():
                break
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        address = log.read_text().split("Running on ")[1].split()[0]
        store_at(address).mkdir("shop")
        yield address
    finally:
        process.terminate()
        process.wait()


def store_at(address: str) -> Any:
    """Return the file system of a server, without the listings of earlier ones."""
    import s3fs

    return s3fs.S3FileSystem(**credentials(address), skip_instance_cache=True, use_listings_cache=False)


def credentials(address: str) -> dict[str, Any]:
    """Return the block of ``credentials.yml`` for a server."""
    return {**KEYS, "client_kwargs": {"endpoint_url": address}}
