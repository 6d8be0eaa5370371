"""The state of a fit on disk: what is written, what is taken up again, and what its fingerprint follows."""

import json
import logging
from hashlib import blake2b
from pathlib import Path

import pytest
import torch

import deep_interest
from deep_interest.io.atomic import atomic_path
from deep_interest.training import state
from deep_interest.training.state import Progress, code_hash, fingerprint, load_state, save_state

CPU = torch.device("cpu")


def test_progress_begins_at_zero():
    assert Progress() == Progress(0, 0, 0, 1.0, None, 0, 0.0, 0.0, 0, 0, 0.0, False, [])
    assert Progress().history is not Progress().history


def test_a_state_comes_back_with_its_progress_and_tensors_and_a_checksum(tmp_path):
    progress = Progress(epoch=2, step=3, best=0.5, history=[{"epoch": 1.0}])
    file = tmp_path / "deep" / "state.pt"
    save_state(file, fingerprint="this", progress=progress, tensors={"model": {"w": torch.arange(3)}})
    assert (file.parent / ".state.pt.sha256").exists()
    found = load_state(file, fingerprint="this", device=CPU)
    assert list(found) == ["fingerprint", "progress", "model"]
    assert Progress(**found["progress"]) == progress
    assert found["model"]["w"].tolist() == [0, 1, 2]
    assert (
        load_state(file, fingerprint="this", device=torch.device("meta"))["model"]["w"].device.type == "meta"
    )
    assert load_state(file, fingerprint="other", device=CPU) is None
    assert load_state(tmp_path / "none.pt", fingerprint="this", device=CPU) is None


@pytest.mark.parametrize("damage", ["byte", "not a state", "code"])
def test_a_damaged_state_is_one_warning(tmp_path, caplog, damage):
    file = tmp_path / "state.pt"
    save_state(file, fingerprint="this", progress=Progress(), tensors={})
    if damage == "byte":
        file.write_bytes(file.read_bytes()[:-1])
    else:
        with atomic_path(file, checksum=True) as whole:
            torch.save(Path("a class that no state has"), whole) if damage == "code" else whole.write_bytes(
                b"text"
            )
    with caplog.at_level(logging.WARNING):
        assert load_state(file, fingerprint="this", device=CPU) is None
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"{file}: ")
    assert line.endswith("; the fit starts again")
    assert ("checksum" in line) == (damage == "byte")


def test_what_a_killed_writer_has_left_is_removed_before_the_state_is_read(tmp_path):
    left = tmp_path / ".state.pt.killed.part"
    left.write_bytes(b"half")
    assert load_state(tmp_path / "state.pt", fingerprint="this", device=CPU) is None
    assert not left.exists()


def test_the_fingerprint_follows_every_part_the_version_of_torch_and_the_code(monkeypatch):
    expected = blake2b(
        json.dumps(["a", "2"]).encode() + torch.__version__.encode() + code_hash().encode(), digest_size=16
    )
    assert fingerprint("a", 2) == expected.hexdigest()
    found = {
        fingerprint("a", 2),
        fingerprint("a", 3),
        fingerprint("b", 2),
        fingerprint("a2"),
        fingerprint(2, "a"),
    }
    monkeypatch.setattr(state, "code_hash", lambda: "other code")
    found.add(fingerprint("a", 2))
    monkeypatch.setattr(torch, "__version__", "1.0")
    found.add(fingerprint("a", 2))
    assert len(found) == 7


def test_the_hash_of_the_code_covers_what_decides_a_fits_result(tmp_path, monkeypatch):
    monkeypatch.setattr(deep_interest, "__file__", str(tmp_path / "__init__.py"))
    names = ["logs/b.py", "logs/a.py", "ops/a.py", "models/a.py", "training/a.py", "evaluation/metrics.py"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"code of {name}")
    expected = blake2b(digest_size=16)
    for name in sorted(names[:2]) + names[2:]:
        expected.update(Path(name).name.encode() + f"code of {name}".encode())
    assert code_hash() == expected.hexdigest()
    (tmp_path / "evaluation" / "page.py").write_text("what decides nothing")
    assert code_hash() == expected.hexdigest()
    (tmp_path / "ops" / "a.py").write_text("other code")
    assert code_hash() != expected.hexdigest()
