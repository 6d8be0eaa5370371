"""Errors of the system, of databases and of damaged files: what, where, and what to do."""

import errno
import json
import sqlite3
from itertools import pairwise

import pytest
from kedro.io import DatasetError

from deep_interest.errors import InputError
from deep_interest.messages.report import plain_message


def chained(*errors: BaseException) -> BaseException:
    """The first error, each raised from the next."""
    for error, cause in pairwise(errors):
        error.__cause__ = cause
    return errors[0]


def of_library(module: str, name: str, text: str, base: type[Exception] = Exception) -> Exception:
    """An exception of a library that need not be imported."""
    return type(name, (base,), {"__module__": module})(text)


def loading(cause: Exception) -> BaseException:
    """Kedro's error of an entry that cannot be loaded."""
    entry = "kedro_datasets.json.json_dataset.JSONDataset(filepath=/p/tuned.json, protocol=file)"
    return chained(DatasetError(f"Failed while loading data from dataset {entry}.\n{cause}"), cause)


DENIED = PermissionError(errno.EACCES, "Permission denied", "/p/data/08_reporting/.results.csv.k3x.part")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (DENIED, "/p/data/08_reporting/results.csv: permission denied; give yourself access to this file and its folder"),
        (chained(DatasetError("Failed while saving"), DENIED), "/p/data/08_reporting/results.csv: permission denied"),
        (OSError(errno.EROFS, "Read-only file system", "/mnt/x"), "/mnt/x: the file system is read-only; mount it for writing"),
        (OSError(errno.ENOSPC, "No space left on device", "/p/x"), "/p/x: the disk is full; free some space and run the same"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "/p/x"), "/p/x: the disk quota is used up; free some space"),
        (
            chained(of_library("optuna.exceptions", "StorageInternalError", "commit"), sqlite3.OperationalError("database or disk is full")),
            "the disk is full or refuses to write (database or disk is full); free some space",
        ),
        (of_library("_duckdb", "IOException", "IO Error: Could not write file: No space left on device"), "the disk is full"),
        (of_library("_duckdb", "IOException", 'IO Error: Cannot open file "/p/x": Permission denied'), "permission denied"),
        (of_library("_duckdb", "OutOfMemoryException", "Out of Memory Error"), "memory is used up; close other programs, or lower"),
        (MemoryError(), "training.processes=1, training.options.batch_size"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes"), "memory is used up"),
        (of_library("torch", "OutOfMemoryError", "CUDA out of memory.", RuntimeError), "the memory of the GPU is used up; lower"),
        (sqlite3.DatabaseError("file is not a database"), "the database is damaged (file is not a database); restore it"),
        (loading(json.JSONDecodeError("Expecting value", "", 0)), "/p/tuned.json: the file is damaged or has another format (Expecting value"),
        (loading(EOFError("No data left in file")), "/p/tuned.json: the file is damaged"),
        (loading(of_library("pyarrow.lib", "ArrowInvalid", "no magic", ValueError)), "/p/tuned.json: the file is damaged"),
        (loading(FileNotFoundError(2, "No such file", "/p/tuned.json")), "/p/tuned.json: the file does not exist; run"),
        (FileExistsError(errno.EEXIST, "File exists", "/p/data"), "/p/data: file exists; correct the path"),
        (chained(RuntimeError("in a node"), InputError("data.csv: line 3")), "data.csv: line 3"),
    ],
)  # fmt: skip
def test_an_error_that_the_user_can_correct_is_one_message(error, message):
    assert message in (plain_message(error) or "")


@pytest.mark.parametrize(
    "error",
    [
        KeyError("a bug"),
        loading(KeyError("a bug")),
        ValueError("Permission denied"),
        FileNotFoundError(2, "No such file", "/p/x"),
    ],
)
def test_errors_of_the_program_have_no_message_and_keep_their_traceback(error):
    assert plain_message(error) is None


def test_a_handled_error_of_the_user_does_not_hide_a_later_bug():
    bug = KeyError("a bug")
    bug.__context__ = InputError("handled before")
    assert plain_message(bug) is None
