"""The command line, from arguments to exit status."""

import gzip
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.file_server import FileServer, serve

import deep_interest
from deep_interest.cli import cli as kedro_project_cli
from deep_interest.commands.main import main
from deep_interest.config import dataset_blocks
from deep_interest.sources.downloads import DOWNLOADS, Download, RemoteFile

REVIEWS, META = gzip.compress(b"reviews"), gzip.compress(b"meta")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """Toys at a server on loopback instead of its publisher's."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve() as state:
        state.files |= {"/reviews.gz": REVIEWS, "/meta.gz": META}
        files = (
            RemoteFile(state.url("/reviews.gz"), "amazon/reviews_Toys_and_Games_5.json.gz"),
            RemoteFile(state.url("/meta.gz"), "amazon/meta_Toys_and_Games.json.gz"),
        )
        monkeypatch.setitem(DOWNLOADS, "amazon_toys", Download("https://example.org/toys", files))
        yield state


def test_download_puts_every_file_of_a_dataset_into_the_layout_below_to(
    server: FileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["download", "amazon_toys", "--to", str(tmp_path)]) == 0
    assert (tmp_path / "amazon/reviews_Toys_and_Games_5.json.gz").read_bytes() == REVIEWS
    assert (tmp_path / "amazon/meta_Toys_and_Games.json.gz").read_bytes() == META
    printed = capsys.readouterr()
    assert "https://example.org/toys" in printed.out
    assert printed.err == ""


def test_download_goes_where_the_environment_says(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEP_INTEREST_RAW", str(tmp_path / "raw"))
    assert main(["download", "amazon_toys"]) == 0
    assert (tmp_path / "raw/amazon/meta_Toys_and_Games.json.gz").exists()


def test_download_goes_to_kedros_raw_layer_otherwise(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEEP_INTEREST_RAW", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["download", "amazon_toys"]) == 0
    assert (tmp_path / "data/01_raw/amazon/meta_Toys_and_Games.json.gz").exists()


def test_a_failed_download_is_one_line_and_status_1_and_the_next_run_goes_on(
    server: FileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.break_after = 10
    assert main(["download", "amazon_toys", "--to", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith(
        f"error: {server.url('/reviews.gz')}: the connection failed or was interrupted"
    )
    assert printed.err.count("\n") == 1
    server.break_after = None
    assert main(["download", "amazon_toys", "--to", str(tmp_path)]) == 0
    assert ("/reviews.gz", "bytes=10-", 206) in server.requests


def test_a_folder_that_cannot_be_written_is_one_line_and_status_1(
    server: FileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["download", "amazon_toys", "--to", str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_an_unknown_name_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["download", "movielens_2m"]) == 2
    message = capsys.readouterr().err
    assert "movielens_20m" in message
    assert "did you mean movielens_" in message


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kuairand", "taobao", "alibaba_ads"])
def test_manual_downloads_are_reported_with_page_and_folder(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = dataset_blocks()[name]["source"]
    assert main(["download", name, "--to", str(tmp_path)]) == 1
    message = capsys.readouterr().err
    assert source["page"] in message
    assert str(tmp_path / source["folder"]) in message


def test_the_command_is_installed_and_lists_what_it_can_do() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "deep_interest.commands.main", "--help"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0
    assert "download" in run.stdout


def test_the_command_is_also_a_command_of_kedro() -> None:
    result = CliRunner().invoke(kedro_project_cli, ["deep-interest", "--version"])
    assert result.output == f"deep-interest, version {deep_interest.__version__}\n"
