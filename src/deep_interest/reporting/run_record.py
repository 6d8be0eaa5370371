"""When and from which commit of the project a report was made."""

import html
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_PROJECT = Path(__file__).resolve().parents[3]  # of a checkout; an installed package has no project above it


def describe_run(folder: Path | None = None) -> dict[str, Any]:
    """Return ``time`` (UTC), ``commit`` and ``changed``, whether files differ from the commit; both None outside of a Git repository.

    Args:
        folder: folder of the project; the checkout that the code is in, or else the current folder, if None.
    """
    folder = folder or (_PROJECT if (_PROJECT / "conf").is_dir() else Path.cwd())
    commit = _git(folder, "rev-parse", "HEAD")
    changes = None if commit is None else _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "changed": None if changes is None else bool(changes),
    }


def run_html(run: Mapping[str, Any]) -> str:
    """Return one line about the run: the only line of the page that depends on when and where it was made."""
    if not run:
        return ""
    line = f"Made on {datetime.fromisoformat(run['time']):%Y-%m-%d at %H:%M} UTC"
    if run["commit"]:
        line += f", from commit {run['commit'][:12]}" + (
            " with uncommitted changes" if run["changed"] else ""
        )
    return f'<p class="soft run">{html.escape(line)}.</p>'


def _git(folder: Path, *arguments: str) -> str | None:
    """Return the output of a Git command; None without Git, without a repository, or if Git does not answer."""
    try:
        result = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip()
