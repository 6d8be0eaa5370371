import hashlib
import random
import shutil
import subprocess

import pytest

from deep_interest.io.atomic import atomic_path
from deep_interest.io.checksums import damage_of


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "table.csv"
    with atomic_path(path, checksum=True) as temporary:
        temporary.write_bytes(bytes(range(256)))
    return path


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "log"
    with atomic_path(path, directory=True) as temporary:
        for name in ("a", "b"):
            (temporary / name).write_bytes(name.encode() * 50)
    return path


def test_checksums_are_those_of_the_standard_tool(file, folder):
    for names, where in ((".table.csv.sha256", file.parent), ("SHA256SUMS", folder)):
        command = ["sha256sum", "--check", "--strict", names]
        assert subprocess.run(command, cwd=where, capture_output=True, check=False).returncode == 0
    assert damage_of(file) == damage_of(folder) == ""


def test_every_bit_flip_of_a_file_is_noticed(file):
    whole, draw = file.read_bytes(), random.Random(0)
    for _ in range(100):
        bit = draw.randrange(8 * len(whole))
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        assert "does not match its checksum" in damage_of(file)
    file.write_bytes(whole)
    assert damage_of(file) == ""


@pytest.mark.parametrize("content", [b"", bytes(255), bytes(range(256)) + b"x"])
def test_a_truncated_empty_or_longer_file_is_noticed(file, content):
    file.write_bytes(content)
    assert "does not match its checksum" in damage_of(file)


def test_a_missing_damaged_or_swapped_checksum_is_noticed(file):
    sidecar = file.with_name(".table.csv.sha256")
    right = sidecar.read_text()
    other = f"{hashlib.sha256(file.read_bytes()).hexdigest()}  other.csv\n"
    for wrong in ("", right[1:], right.upper(), "not a checksum\n", other, right + "x"):
        sidecar.write_text(wrong)
        assert damage_of(file) == "its checksum .table.csv.sha256 is missing or damaged"
    sidecar.write_bytes(b"\xff" + right.encode())
    assert "missing or damaged" in damage_of(file)
    sidecar.unlink()
    assert "missing or damaged" in damage_of(file)


def test_a_file_that_cannot_be_read_is_damaged(file):
    file.unlink()
    assert damage_of(file).startswith("it cannot be read")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "a").write_bytes(b"x"), "a does not match its checksum"),
        (lambda folder: (folder / "a").unlink(), "a missing"),
        (lambda folder: (folder / "c").write_bytes(b""), "c not listed in SHA256SUMS"),
        (lambda folder: (folder / "c").mkdir(), "c not listed in SHA256SUMS"),
        (lambda folder: (folder / "SHA256SUMS").unlink(), "SHA256SUMS is missing or damaged"),
        (lambda folder: (folder / "SHA256SUMS").write_text(""), "SHA256SUMS is missing or damaged"),
        (lambda folder: shutil.copy(folder / "a", folder / "b"), "b does not match its checksum"),
    ],
)
def test_damage_of_a_folder_names_the_file(folder, damage, message):
    damage(folder)
    assert damage_of(folder) == message


def test_a_file_that_is_replaced_while_it_is_read_is_not_damaged(file, monkeypatch):
    """Another process replaces the file after its checksum was read and before its content was."""
    sha256 = hashlib.file_digest

    def replace_first(stream, name):
        monkeypatch.setattr("deep_interest.io.checksums.hashlib.file_digest", sha256)
        with atomic_path(file, checksum=True) as temporary:
            temporary.write_bytes(b"new")
        with file.open("rb") as present:
            return sha256(present, name)

    monkeypatch.setattr("deep_interest.io.checksums.hashlib.file_digest", replace_first)
    assert damage_of(file) == ""
