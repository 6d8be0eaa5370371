"""The commit of a run: that of the project, with a mark for changes; nothing without Git."""

import subprocess
from datetime import UTC, datetime

from deep_interest.reporting.run_record import describe_run, run_html


def git(folder, *arguments):
    identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    return subprocess.run(
        ["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_commit_and_uncommitted_changes_of_a_repository(tmp_path):
    git(tmp_path, "init")
    (tmp_path / "conf.yml").write_text("a: 1")
    git(tmp_path, "add", "conf.yml")
    git(tmp_path, "commit", "-m", "first")
    (tmp_path / "result.csv").write_text("a file that is not under version control")
    run = describe_run(tmp_path)
    assert (run["commit"], run["changed"]) == (git(tmp_path, "rev-parse", "HEAD"), False)
    assert abs((datetime.now(UTC) - datetime.fromisoformat(run["time"])).total_seconds()) < 60
    (tmp_path / "conf.yml").write_text("a: 2")
    assert describe_run(tmp_path)["changed"] is True


def test_folder_without_a_commit_has_none(tmp_path, capfd):
    assert describe_run(tmp_path)["commit"] is None
    git(tmp_path, "init")
    assert describe_run(tmp_path)["commit"] is None  # a repository without commits
    assert "fatal" not in "".join(capfd.readouterr())


def test_machine_without_git_has_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    run = describe_run(tmp_path)
    assert (run["commit"], run["changed"]) == (None, None)
    assert "commit" not in run_html(run)
