"""The registry on truth: real files, real damage, real processes."""

import json
import os
import signal
import subprocess
import sys

import pandas as pd
import pytest
import torch

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.models.registry import build_model, model_config
from deep_interest.serving.registry import BusyError, Registry, RegistryState
from deep_interest.serving.version import DamagedVersionError, VersionArtifacts

FIELDS = (Field(name="item_id", size=4),)
SCHEMA = FeatureSchema(item=FIELDS, behavior=FIELDS)


def artifacts(seed=0, dim=3):
    torch.manual_seed(seed)
    config = model_config("base", {}, common={"embedding_dim": dim, "hidden": (4,)})
    model = build_model("base", config, SCHEMA)
    vocabularies = FieldVocabularies()
    vocabularies.learn("item_id", pd.Series(["b", "a", "c"]))
    vocabularies.learn("price", pd.Series([1.0, 2, 3, 4]), buckets=2)
    manifest = {
        "model": "base", "config": config.model_dump(mode="json"), "training": {}, "schema": SCHEMA.model_dump(mode="json"),
    }  # fmt: skip
    moments = {"steps": [1], "moments": [(torch.ones(2), torch.zeros(2))]}
    return VersionArtifacts(manifest, model.state_dict(), moments, vocabularies)


@pytest.fixture
def registry(tmp_path):
    """Two versions, of which the second serves."""
    made = Registry(tmp_path / "registry")
    for number in (1, 2):
        made.add(f"v{number}", artifacts(seed=number))
        made.promote(f"v{number}")
    return made


def test_a_version_comes_back_as_it_was(registry):
    version, written = registry.champion(), artifacts(seed=2)
    assert version.id == "v2"
    for name, tensor in version.model().state_dict().items():
        torch.testing.assert_close(tensor, written.weights[name], rtol=0, atol=0)
    torch.testing.assert_close(version.optimizer()["moments"][0], written.optimizer["moments"][0])
    vocabularies = version.vocabularies()
    assert list(vocabularies.fields["item_id"].encode(pd.Series(["a", "c", "x"]))) == [1, 3, 0]
    assert list(vocabularies.fields["price"].encode(pd.Series([1.0, 9]))) == [1, 2]


def test_the_checksums_are_those_of_the_standard_tool(registry):
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=registry.folder / "v1", capture_output=True, check=False
    )  # fmt: skip
    assert done.returncode == 0


@pytest.mark.parametrize(
    "file", ["weights.pt", "optimizer.pt", "manifest.json", "vocabulary.item_id.parquet", "SHA256SUMS"]
)
@pytest.mark.parametrize("damage", ["a bit", "cut", "missing"])
def test_damage_is_found_and_never_served_and_the_version_before_takes_over(registry, file, damage):
    path = registry.folder / "v2" / file
    whole = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    else:
        whole[len(whole) // 2] ^= 1
        path.write_bytes(whole)
    with pytest.raises(DamagedVersionError, match="v2: "):
        registry.champion()
    assert registry.rollback() == "v1"
    assert registry.champion().id == "v1"
    with pytest.raises(DamagedVersionError):
        registry.promote("v2")
    assert registry.champion().id == "v1"


def test_a_file_beside_the_written_ones_is_damage(registry):
    (registry.folder / "v2/extra.pt").write_bytes(b"")
    with pytest.raises(DamagedVersionError, match=r"extra\.pt not listed in SHA256SUMS"):
        registry.champion()


def test_a_damaged_version_is_written_anew_and_a_whole_one_left_alone(registry):
    before = (registry.folder / "v1/weights.pt").stat().st_mtime_ns
    registry.add("v1", artifacts(seed=1))
    assert (registry.folder / "v1/weights.pt").stat().st_mtime_ns == before
    (registry.folder / "v1/weights.pt").write_bytes(b"x")
    registry.add("v1", artifacts(seed=1))
    assert registry.damage("v1") == ""


def test_nothing_foreign_is_unpickled(registry, tmp_path):
    """A file that would run code is refused by torch, even where its checksum is right."""
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


def test_a_second_rollback_goes_further_back_and_never_to_the_bad_version(registry):
    registry.add("v3", artifacts(seed=3))
    registry.promote("v3")
    assert [registry.rollback(), registry.rollback()] == ["v2", "v1"]
    assert registry.champion().id == "v1"
    with pytest.raises(InputError, match="no version before the champion"):
        registry.rollback()


def test_a_rollback_after_a_new_promotion_skips_what_was_rolled_back(registry):
    for version in ("v3", "v4"):
        registry.add(version, artifacts(seed=int(version[1:])))
    registry.promote("v3")
    registry.rollback()
    registry.promote("v4")
    assert [registry.rollback(), registry.rollback()] == ["v2", "v1"]


def test_there_is_nothing_to_roll_back_to_before_the_second_version(tmp_path):
    registry = Registry(tmp_path)
    with pytest.raises(InputError, match="no version before the champion"):
        registry.rollback()
    with pytest.raises(InputError, match="there is no version v9; the versions are none"):
        registry.promote("v9")


def test_old_versions_go_but_never_the_champion_nor_the_one_before_it(registry):
    for number in range(3, 8):
        registry.add(f"v{number}", artifacts(seed=number))
    (registry.folder / ".v9.x.part").mkdir()
    assert registry.prune(2) == ["v3", "v4", "v5"]
    assert registry.names() == ["v1", "v2", "v6", "v7"]
    assert not list(registry.folder.glob(".*.part"))


def test_a_damaged_state_is_named(registry):
    (registry.folder / "champion.json").write_text('{"promotions": ["v1"')
    with pytest.raises(InputError, match=r"champion\.json is damaged"):
        registry.champion()


def test_a_state_whose_values_were_changed_is_refused(registry):
    """Still valid JSON with other values: only the checksum knows."""
    path = registry.folder / "champion.json"
    path.write_text(path.read_text().replace("v2", "v1"))
    with pytest.raises(InputError, match=r"champion\.json is damaged: it does not match its checksum"):
        registry.state()


def test_the_lock_keeps_a_second_process_out_until_the_first_is_killed(registry):
    script = (
        "import sys, time; from pathlib import Path; from deep_interest.serving.registry import Registry\n"
        f"with Registry(Path({str(registry.folder)!r})).locked():\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    with pytest.raises(BusyError, match="another run is at work there"), registry.locked():
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    with registry.locked():
        pass


def test_a_full_disk_leaves_the_registry_as_it_was(registry):
    """The system itself refuses to write more than some bytes to a file."""
    before = {str(path): path.read_bytes() for path in registry.folder.rglob("*") if path.is_file()}
    script = (
        "import resource, signal, sys; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
        "from test_registry import artifacts; from deep_interest.serving.registry import Registry\n"
        "big = artifacts(seed=9, dim=2000)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        f"Registry(Path({str(registry.folder)!r})).add('v3', big)"
    )
    here = os.path.dirname(__file__)
    done = subprocess.run([sys.executable, "-c", script, here], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "v3: the system allows no file so large" in done.stderr, done.stderr
    after = {str(path): path.read_bytes() for path in registry.folder.rglob("*") if path.is_file()}
    assert {k: v for k, v in after.items() if ".lock" not in k} == before
    assert registry.champion().id == "v2"


def test_the_state_is_one_file_that_names_champion_and_days(registry):
    registry.commit(RegistryState(promotions=("v1", "v2"), days={"2024-03-01": {"hash": "x"}}))
    assert json.loads((registry.folder / "champion.json").read_text())["promotions"] == ["v1", "v2"]
    state = registry.state()
    assert (state.champion, state.previous, list(state.days)) == ("v2", "v1", ["2024-03-01"])
