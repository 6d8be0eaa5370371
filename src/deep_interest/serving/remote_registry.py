"""Model registry in an object store."""

from deep_interest.io.checksums import SUMS, recorded, sidecar, sums
from deep_interest.io.mirror import Mirror
from deep_interest.serving.registry import STATE, Registry, RegistryState
from deep_interest.serving.version import VersionArtifacts


class RemoteRegistry(Registry):
    """A registry in an object store, which is read and written through a local copy.

    The store has the same files as a local registry. A version is uploaded before ``champion.json`` names it, its checksums
    last, so that readers elsewhere get a complete version or notice the damage. The lock is a local file: only one machine may
    retrain a model.

    Args:
        mirror: folder of the registry and its local copy.
    """

    def __init__(self, mirror: Mirror) -> None:
        super().__init__(mirror.pull())
        self._mirror = mirror

    def commit(self, state: RegistryState) -> None:
        """Replace the state of the registry. In the store, both checksums are listed while the file is replaced."""
        path = self.folder / STATE
        old = recorded(path)
        self._mirror.expect_change(path.name, sidecar(path).name)
        super().commit(state)
        new = sidecar(path).read_text(encoding="utf-8")
        sidecar(path).write_text(sums((digest, path.name) for digest in old) + new, encoding="utf-8")
        self._mirror.push(sidecar(path).name, path.name)
        sidecar(path).write_text(new, encoding="utf-8")
        self._mirror.push(sidecar(path).name)

    def add(self, version: str, artifacts: VersionArtifacts) -> None:
        """Write a version locally and upload it."""
        super().add(version, artifacts)
        files = sorted(path.name for path in (self.folder / version).iterdir() if path.name != SUMS)
        self._mirror.push(*(f"{version}/{name}" for name in [*files, SUMS]))

    def prune(self, keep: int) -> list[str]:
        """Delete old versions and leftovers of killed runs, here and in the store."""
        old = super().prune(keep)
        for version in old:
            self._mirror.remove(version)
        return old
