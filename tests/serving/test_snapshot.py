"""Snapshots of the service while other processes run."""

import errno
import shutil

import pytest
from support.service import make_settings, make_snapshot

from deep_interest.errors import InputError
from deep_interest.io.atomic import clear_unfinished_below
from deep_interest.serving import snapshot


def test_a_run_that_starts_meanwhile_does_not_remove_what_is_being_written(tmp_path, monkeypatch):
    settings = make_settings(tmp_path)
    save_features = snapshot.save_features

    def another_run_starts(features, path):
        clear_unfinished_below(tmp_path)
        save_features(features, path)
        clear_unfinished_below(tmp_path)

    monkeypatch.setattr(snapshot, "save_features", another_run_starts)
    name = make_snapshot(settings)
    assert [folder.name for folder in settings.snapshots.iterdir()] == [name]
    assert snapshot.load_snapshot(settings.snapshots / name).facts.version == "v1"


def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path, monkeypatch):
    settings = make_settings(tmp_path)

    def full(*paths):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copy", full)
    with pytest.raises(InputError, match="the disk is full"):
        make_snapshot(settings)
    assert not list(settings.snapshots.iterdir())
