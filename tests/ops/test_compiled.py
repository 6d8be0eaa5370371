from pathlib import Path

from deep_interest.ops.compiled import cache_of


def test_compiled_code_is_kept_for_the_sources_as_they_are(tmp_path: Path):
    for name, text in (("a.py", "1"), ("b.py", "2")):
        (tmp_path / name).write_text(text)
    before = cache_of(tmp_path)
    (tmp_path / "notes.txt").write_text("no source")
    assert cache_of(tmp_path) == before
    (tmp_path / "b.py").write_text("3")
    assert cache_of(tmp_path) != before
