"""Archives that are encrypted, damaged or built to exhaust memory raise one error."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.raw_files import write_movielens

from deep_interest.errors import InputError
from deep_interest.sources.archive import Archive
from deep_interest.sources.integrity import check_archive
from deep_interest.sources.movielens import read_movielens

MB = 1 << 20


def set_in_headers(path: Path, *, local: int, central: int, value: int) -> None:
    """Overwrite two bytes of every member's local header and of its entry in the central directory."""
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
        at = content.find(signature)
        while at >= 0:
            content[at + offset : at + offset + 2] = value.to_bytes(2, "little")
            at = content.find(signature, at + 4)
    path.write_bytes(content)


def encrypt(path: Path) -> None:
    set_in_headers(path, local=6, central=8, value=1)


def use_deflate64(path: Path) -> None:
    set_in_headers(path, local=8, central=10, value=9)


def require_future_version(path: Path) -> None:
    set_in_headers(path, local=4, central=6, value=99)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def inflate(path: Path) -> None:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("ml-20m/ratings.csv", "w") as file,
    ):
        file.write(b"userId,movieId,rating,timestamp\n")
        for _ in range(70):
            file.write(b"1,1,5.0,1\n" * (MB // 10))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (encrypt, "is encrypted. Unpack it with its password"),
        (use_deflate64, "uses compression method 9, which is not supported"),
        (require_future_version, "not supported|truncated or damaged"),
        (truncate, "truncated or damaged"),
        (inflate, r"would unpack from [\d,]+ to 73,399,932 bytes, more than 200 times its size"),
    ],
)
def test_an_unreadable_archive_is_one_error(
    tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    path = write_movielens(tmp_path, "csv")
    damage(path)
    for read in (read_movielens, lambda path: check_archive(path, path.name)):
        with pytest.raises(InputError, match=message) as error_info:
            read(path)
        assert str(path) in str(error_info.value)


def test_a_member_with_an_unusual_path_is_read_without_unpacking(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    path = outside / "set.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("../../u.data", "/etc/u.item", "a//b/./u.genre", ".", "..", "/"):
            archive.writestr(name, f"content of {name}")
    with Archive(path) as archive:
        for name, stored in (
            ("u.data", "../../u.data"),
            ("u.item", "/etc/u.item"),
            ("u.genre", "a//b/./u.genre"),
        ):
            assert archive.read(name) == f"content of {stored}".encode()
    assert sorted(entry.relative_to(tmp_path).as_posix() for entry in tmp_path.rglob("*")) == [
        "outside", "outside/set.zip",
    ]  # fmt: skip


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=4)
)
def test_a_damaged_archive_is_read_correctly_or_rejected(
    tmp_path: Path, flips: list[tuple[float, int]]
) -> None:
    intact = tmp_path / "ml-100k.zip"
    if not intact.exists():
        write_movielens(tmp_path, users=3, items=15)
    content = bytearray(intact.read_bytes())
    for position, bits in flips:
        content[int(position * len(content))] ^= bits
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(content)
    try:
        tables = read_movielens(damaged)
    except InputError as error:
        assert "damaged.zip" in str(error)
    else:
        expected = read_movielens(intact)
        assert tables.behaviors.equals(expected.behaviors)
        assert tables.items.equals(expected.items)
