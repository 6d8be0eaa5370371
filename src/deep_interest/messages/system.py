"""Messages for errors of the operating system, of SQLite and DuckDB, for damaged files and for short memory.

Libraries wrap these errors in their own, so the exceptions are recognised by type where Python defines it and by their text
where only a library does. No library is imported for it.
"""

import errno
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

FULL = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "the disk quota is used up; free some space",
    errno.EFBIG: "the system allows no file so large; raise the limit (ulimit -f)",
}
_FULL_TEXTS = (
    "No space left on device",
    "database or disk is full",
    "Disk quota exceeded",
    "File too large",
    "disk I/O error",
)
_DENIED_TEXTS = ("Permission denied", "attempt to write a readonly database", "Read-only file system")
_DAMAGED_TEXTS = ("file is not a database", "database disk image is malformed")
_MEMORY_TEXTS = (
    "can't allocate memory", "Cannot allocate memory", "CUDA out of memory", "std::bad_alloc", "malloc of size",
    "can't start new thread", "failed to allocate data", "failed to map segment",
)  # fmt: skip
_RESUME = "run the same command again; finished work is kept"
_FILEPATH = re.compile(r"filepath=(?:\w*Path\()?['\"]?(/?[^'\"=]*?)['\"]?(?:\)|, \w+=|$)")


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, the errors that caused it and those that were being handled, outermost first."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def system_message(error: BaseException) -> str | None:
    """Describe an error of the operating system, a database or memory, anywhere in a chain of errors.

    Args:
        error: the uncaught error.

    Returns:
        The message; None if the error is of another kind.
    """
    errors = list(chain(error))
    for message in (_full, _denied, _short_of_memory, _damaged_database, _unreadable, _other):
        for candidate in errors:
            if found := message(candidate, errors):
                return found
    return None


def _full(error: BaseException, errors: list[BaseException]) -> str | None:
    if isinstance(error, OSError) and error.errno in FULL:
        return f"{_file_of(errors)}{FULL[error.errno]} and {_RESUME}"
    if _is_database_error(error) and any(text in str(error) for text in _FULL_TEXTS):
        return f"{_file_of(errors)}the disk is full or refuses to write ({_first_line(error)}); free some space and {_RESUME}"
    return None


def _denied(error: BaseException, errors: list[BaseException]) -> str | None:
    denied = isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    if not denied and not (_is_database_error(error) and any(text in str(error) for text in _DENIED_TEXTS)):
        return None
    if isinstance(error, OSError) and error.errno == errno.EROFS:
        return (
            f"{_file_of(errors)}the file system is read-only; mount it for writing, or put the data folder elsewhere "
            "(data in conf/local/globals.yml)"
        )
    return (
        f"{_file_of(errors)}permission denied; give yourself access to this file and its folder (ls -l, chmod, chown), or put "
        "the data folder elsewhere (data in conf/local/globals.yml)"
    )


def _short_of_memory(error: BaseException, errors: list[BaseException]) -> str | None:
    name = type(error).__name__
    if not isinstance(error, MemoryError) and not (
        name in ("OutOfMemoryError", "OutOfMemoryException", "ArrowMemoryError")
        or (
            isinstance(error, RuntimeError | OSError | ImportError)
            and any(text in str(error) for text in _MEMORY_TEXTS)
        )
    ):
        return None
    if "CUDA" in str(error):
        return (
            "the memory of the GPU is used up; lower training.options.batch_size or training.options.max_len, or train on the "
            f"CPU (training.device=cpu), and {_RESUME}"
        )
    return (
        "memory is used up; close other programs, or lower what a run holds at once: training.processes=1, "
        "training.options.batch_size, training.options.max_len, or reading.max_users of the dataset for a part of the data; "
        f"then {_RESUME}"
    )


def _damaged_database(error: BaseException, errors: list[BaseException]) -> str | None:
    if not any(text in str(error) for text in _DAMAGED_TEXTS):
        return None
    return (
        f"{_file_of(errors)}the database is damaged ({_first_line(error)}); restore it from a backup, or remove it to start "
        "again"
    )


def _unreadable(error: BaseException, errors: list[BaseException]) -> str | None:
    """A file that a dataset of the catalog could not parse."""
    text = str(error)
    if not text.startswith("Failed while loading data from dataset") or error.__cause__ is None:
        return None
    cause = error.__cause__
    if isinstance(cause, FileNotFoundError):
        return f"{_file_of(errors)}the file does not exist; run the pipeline that writes it first"
    if not isinstance(cause, ValueError | EOFError | OSError | RuntimeError) and not _is_parse_error(cause):
        return None
    return (
        f"{_file_of(errors)}the file is damaged or has another format ({_first_line(cause)}); restore it from a backup, or remove "
        "it and run the pipeline that writes it again"
    )


def _other(error: BaseException, errors: list[BaseException]) -> str | None:
    """A path that cannot be used in the configuration, or a device that fails."""
    if isinstance(error, FileExistsError | NotADirectoryError | IsADirectoryError) or (
        isinstance(error, OSError)
        and error.errno in (errno.EIO, errno.ENAMETOOLONG, errno.EMFILE, errno.ESTALE)
    ):
        return f"{_file_of(errors)}{str(error.strerror).lower()}; correct the path, or check the disk, and {_RESUME}"
    if _is_database_error(error) and (
        opened := re.search(r'(?:Cannot|Could not) open file "([^"]+)": (.*)', str(error))
    ):
        return f"{opened[1]}: {opened[2].lower()}; correct the path or its permissions, and {_RESUME}"
    if _is_database_error(error) and "unable to open database file" in str(error):
        return f"{_file_of(errors)}the database cannot be opened; check that its folder exists and can be written"
    return None


def _is_parse_error(error: BaseException) -> bool:
    kinds = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
    return bool(
        kinds & {"zipfile.BadZipFile", "zlib.error", "_pickle.UnpicklingError", "pyarrow.lib.ArrowException"}
    )


def _is_database_error(error: BaseException) -> bool:
    module = type(error).__module__.split(".")[0].lstrip("_")
    return isinstance(error, sqlite3.Error) or module in ("duckdb", "sqlalchemy", "optuna", "concurrent")


def _file_of(errors: list[BaseException]) -> str:
    """Return the file that a chain of errors is about, as the beginning of a message."""
    for error in reversed(errors):
        if isinstance(error, OSError) and error.filename is not None:
            return f"{_readable(error.filename)}: "
    for error in errors:
        for text in (str(error), *getattr(error, "__notes__", ())):
            if match := _FILEPATH.search(text):
                return f"{match[1]}: "
    return ""


def _readable(name: object) -> str:
    """Return the final name of a temporary file of `io.atomic`, and any other name unchanged."""
    path = Path(name.decode() if isinstance(name, bytes) else str(name))
    match = re.fullmatch(r"\.(.+)\.[^.]+\.part", path.name)
    return str(path.with_name(match[1]) if match else path)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
