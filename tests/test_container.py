"""The container image: what is kept out of it, and as which user it runs."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INSTRUCTIONS = [
    line.split(None, 1)
    for line in (ROOT / "Dockerfile").read_text().splitlines()
    if line and not line.startswith("#")
]
IGNORED = (ROOT / ".dockerignore").read_text().split()


def is_ignored(path: str) -> bool:
    """Whether the build context lacks a file, by Docker's rules for patterns without exceptions."""
    parents = [path, *(str(parent) for parent in Path(path).parents)]
    return any(
        fnmatch(parent, pattern) or (pattern.startswith("**/") and fnmatch(Path(parent).name, pattern[3:]))
        for parent in parents
        for pattern in IGNORED
    )


def test_the_container_runs_as_an_unprivileged_user():
    users = [value for instruction, value in INSTRUCTIONS if instruction == "USER"]
    assert len(users) == 1
    assert re.fullmatch(
        r"[1-9]\d*", users[0]
    )  # a number, so that an orchestrator can see that it is not root
    after = INSTRUCTIONS[[instruction for instruction, _ in INSTRUCTIONS].index("USER") + 1 :]
    assert {instruction for instruction, _ in after} == {"VOLUME", "ENTRYPOINT"}


def test_only_named_files_and_folders_are_copied():
    copied = {
        name for instruction, value in INSTRUCTIONS if instruction == "COPY" for name in value.split()[:-1]
    }
    assert copied == {
        "pyproject.toml", "constraints.txt", "README.md", "LICENSE", ".telemetry", "src", "conf",
    }  # fmt: skip
    assert all((ROOT / name).exists() for name in copied)


@pytest.mark.parametrize(
    "path",
    [
        "conf/local/credentials.yml", "conf/local/parameters.yml", "conf/base/credentials.yml", "conf/base/credentials_s3.yml",
        "data/01_raw/log.csv", ".git/config", ".venv/bin/python", "src/.env", "conf/base/server.key", "conf/base/server.pem",
    ],
)  # fmt: skip
def test_credentials_data_and_history_stay_out_of_the_image(path):
    assert is_ignored(path)


@pytest.mark.parametrize(
    "path", ["conf/base/parameters/retraining.yml", "src/deep_interest/settings.py", "README.md"]
)
def test_what_the_image_needs_is_in_it(path):
    assert (ROOT / path).exists()
    assert not is_ignored(path)
