"""Names, patterns, folders and partitions of declared files."""

import logging

import pytest
from support.tables import VISITS, read, write

from deep_interest.errors import InputError


@pytest.mark.slow
def test_partitions_patterns_and_lists_form_one_table(tmp_path):
    write(tmp_path)
    for day, text in (
        ("2022-04-25", "user,item,time\n1,10,1\n"),
        ("2022-04-26", "item,time,extra,user\n11,2,x,2\n"),
    ):
        (tmp_path / f"log/day={day}").mkdir(parents=True)
        (tmp_path / f"log/day={day}/part-0.csv").write_text(text)
        (tmp_path / f"log/day={day}/_SUCCESS").write_text("")
    expected = [[1, 10, 1, 19107], [2, 11, 2, 19108]]
    for files in (
        "log",
        "log/day=*/*.csv",
        ["log/day=2022-04-25", "log/day=2022-04-26/part-0.csv"],
        f"{tmp_path}/log/*/*.csv",
    ):
        tables = read(tmp_path, behaviors={"files": files, "day": "day"})
        assert tables.behaviors.to_numpy().tolist() == expected


def test_two_partitions_for_the_same_day_are_an_error(tmp_path):
    write(tmp_path)
    for day in ("2022-04-25", "20220425"):
        (tmp_path / f"log/day={day}").mkdir(parents=True)
        (tmp_path / f"log/day={day}/part.csv").write_text(VISITS)
    with pytest.raises(
        InputError, match=r"day=2022-04-25 and .*day=20220425|day=20220425 and .*day=2022-04-25"
    ):
        read(tmp_path, behaviors={"files": "log"})


def test_an_empty_partition_adds_no_rows_and_logs_a_warning(tmp_path, caplog):
    write(tmp_path)
    for day, text in (("2022-04-25", VISITS), ("2022-04-26", ""), ("2022-04-27", "user,item,time\n")):
        (tmp_path / f"log/day={day}").mkdir(parents=True)
        (tmp_path / f"log/day={day}/part.csv").write_text(text)
    with caplog.at_level(logging.WARNING):
        assert len(read(tmp_path, behaviors={"files": "log"}).behaviors) == 2
    assert "day=2022-04-26/part.csv: the file is empty (0 bytes)" in caplog.text
