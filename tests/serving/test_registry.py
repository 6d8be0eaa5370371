"""The model registry with real files, real damage and real processes."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from support.versions import artifacts

from deep_interest.errors import InputError
from deep_interest.evaluation.calibration import IsotonicCalibration
from deep_interest.evaluation.version_calibration import Calibration
from deep_interest.serving.registry import BusyError, Registry, RegistryState
from deep_interest.serving.version import DamagedVersionError

CALIBRATION = Calibration(0.5, IsotonicCalibration(np.array([0, 0.3, 1]), np.array([0, 0.2, 1])))


@pytest.fixture
def registry(tmp_path):
    """A registry of two versions, of which the second serves and is calibrated."""
    made = Registry(tmp_path / "registry")
    for number, calibration in ((1, None), (2, CALIBRATION)):
        made.add(f"v{number}", replace(artifacts(seed=number), calibration=calibration))
        made.promote(f"v{number}")
    return made


def test_version_read_back_equals_what_was_written(registry):
    version, written = registry.champion(), artifacts(seed=2)
    assert version.id == "v2"
    for name, tensor in version.model().state_dict().items():
        torch.testing.assert_close(tensor, written.weights[name], rtol=0, atol=0)
    torch.testing.assert_close(version.optimizer()["moments"][0], written.optimizer["moments"][0])
    vocabularies = version.vocabularies()
    assert list(vocabularies.fields["item_id"].encode(pd.Series(["a", "c", "x"]))) == [1, 3, 0]
    assert list(vocabularies.fields["price"].encode(pd.Series([1.0, 9]))) == [1, 2]
    for name, field in written.vocabularies.fields.items():
        assert vocabularies.fields[name].borders == field.borders
        assert vocabularies.fields[name].standardisation == field.standardisation
    assert vocabularies.fields["age"].standardisation.std > 3


def test_a_calibration_is_read_back_and_a_version_without_one_changes_nothing(registry):
    scores, calibration = np.float32([0.1, 0.5, 0.9]), registry.load("v2").calibration()
    # odds 1 become 1/2, p = 1/3, of which the map makes 0.2 + 0.8 / 0.7 · (1/3 - 0.3)
    assert calibration(scores)[1] == pytest.approx(0.2 + 0.8 / 0.7 * (1 / 3 - 0.3))
    assert registry.load("v1").calibration()(scores) is scores
    assert not (registry.folder / "v1/calibration.json").exists()


def test_checksums_can_be_verified_by_sha256sum(registry):
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=registry.folder / "v1", capture_output=True, check=False
    )  # fmt: skip
    assert done.returncode == 0


@pytest.mark.parametrize(
    "file",
    [
        "weights.pt",
        "optimizer.pt",
        "manifest.json",
        "calibration.json",
        "vocabulary.item_id.parquet",
        "SHA256SUMS",
    ],
)
@pytest.mark.parametrize("damage", ["flipped bit", "truncated", "missing"])
def test_damaged_version_is_never_served_and_can_be_rolled_back(registry, file, damage):
    path = registry.folder / "v2" / file
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    with pytest.raises(DamagedVersionError, match="v2: "):
        registry.champion()
    assert registry.rollback() == "v1"
    assert registry.champion().id == "v1"
    with pytest.raises(DamagedVersionError):
        registry.promote("v2")
    assert registry.champion().id == "v1"


def test_additional_file_counts_as_damage(registry):
    (registry.folder / "v2/extra.pt").write_bytes(b"")
    with pytest.raises(DamagedVersionError, match=r"extra\.pt not listed in SHA256SUMS"):
        registry.champion()


def test_add_replaces_damaged_versions_only(registry):
    before = (registry.folder / "v1/weights.pt").stat().st_mtime_ns
    registry.add("v1", artifacts(seed=1))
    assert (registry.folder / "v1/weights.pt").stat().st_mtime_ns == before
    (registry.folder / "v1/weights.pt").write_bytes(b"x")
    registry.add("v1", artifacts(seed=1))
    assert registry.damage("v1") == ""


def test_foreign_pickles_are_refused(registry, tmp_path):
    """torch refuses a file that would run code, even if its checksum is correct."""
    import hashlib
    import pickle

    class Foreign:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path}/ran",)

    file = registry.folder / "v2/weights.pt"
    file.write_bytes(pickle.dumps(Foreign()))
    sums = registry.folder / "v2/SHA256SUMS"
    lines = [line for line in sums.read_text().splitlines() if "weights.pt" not in line]
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    sums.write_text("\n".join([*lines, f"{digest}  weights.pt"]) + "\n")
    with pytest.raises(pickle.UnpicklingError):
        registry.champion().model()
    assert not (tmp_path / "ran").exists()


def test_second_rollback_goes_one_version_further_back(registry):
    registry.add("v3", artifacts(seed=3))
    registry.promote("v3")
    assert [registry.rollback(), registry.rollback()] == ["v2", "v1"]
    assert registry.champion().id == "v1"
    with pytest.raises(InputError, match="no previous version to roll back to"):
        registry.rollback()


def test_rollback_skips_versions_rolled_back_before(registry):
    for version in ("v3", "v4"):
        registry.add(version, artifacts(seed=int(version[1:])))
    registry.promote("v3")
    registry.rollback()
    registry.promote("v4")
    assert [registry.rollback(), registry.rollback()] == ["v2", "v1"]


def test_rollback_needs_a_previous_version(tmp_path):
    registry = Registry(tmp_path)
    with pytest.raises(InputError, match="no previous version to roll back to"):
        registry.rollback()
    with pytest.raises(InputError, match="there is no version v9; existing versions: none"):
        registry.promote("v9")


def test_prune_keeps_champion_and_previous_version(registry):
    for number in range(3, 8):
        registry.add(f"v{number}", artifacts(seed=number))
    (registry.folder / ".v9.x.part").mkdir()
    assert registry.prune(2) == ["v3", "v4", "v5"]
    assert registry.names() == ["v1", "v2", "v6", "v7"]
    assert not list(registry.folder.glob(".*.part"))


def test_damaged_state_is_reported(registry):
    (registry.folder / "champion.json").write_text('{"promotions": ["v1"')
    with pytest.raises(InputError, match=r"champion\.json is damaged"):
        registry.champion()


def test_edited_state_is_refused(registry):
    """The JSON is valid; only the checksum shows the change."""
    path = registry.folder / "champion.json"
    path.write_text(path.read_text().replace("v2", "v1"))
    with pytest.raises(InputError, match=r"champion\.json is damaged: it does not match its checksum"):
        registry.state()


@pytest.mark.slow
def test_lock_is_released_when_its_process_is_killed(registry):
    script = (
        "import sys, time; from pathlib import Path; from deep_interest.serving.registry import Registry\n"
        f"with Registry(Path({str(registry.folder)!r})).locked():\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    with pytest.raises(BusyError, match="another run is using this registry"), registry.locked():
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    with registry.locked():
        pass


@pytest.mark.slow
def test_full_disk_leaves_the_registry_unchanged(registry):
    """A file size limit of the operating system simulates a full disk."""
    before = {str(path): path.read_bytes() for path in registry.folder.rglob("*") if path.is_file()}
    script = (
        "import resource, signal, sys; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
        "from support.versions import artifacts; from deep_interest.serving.registry import Registry\n"
        "big = artifacts(seed=9, dim=2000)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        f"Registry(Path({str(registry.folder)!r})).add('v3', big)"
    )
    here = os.path.dirname(os.path.dirname(__file__))
    done = subprocess.run([sys.executable, "-c", script, here], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "v3: the system allows no file so large" in done.stderr, done.stderr
    after = {str(path): path.read_bytes() for path in registry.folder.rglob("*") if path.is_file()}
    assert {k: v for k, v in after.items() if ".lock" not in k} == before
    assert registry.champion().id == "v2"


def test_state_file_has_promotions_and_days(registry):
    registry.commit(RegistryState(promotions=("v1", "v2"), days={"2024-03-01": {"hash": "x"}}))
    assert json.loads((registry.folder / "champion.json").read_text())["promotions"] == ["v1", "v2"]
    state = registry.state()
    assert (state.champion, state.previous, list(state.days)) == ("v2", "v1", ["2024-03-01"])
