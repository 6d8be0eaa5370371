import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kedro.io import DatasetError

from deep_interest.datasets import SamplesFolder

ROWS = {
    "user": [2, 2, 1, 1], "item": [7, 5, 4, 3], "label": [0, 1, 0, 1], "time": [9, 9, 5, 5], "history_end": [3, 3, 0, 0],
    "split": ["test", "test", "train", "train"],
}  # fmt: skip


def stored(folder, partitions):
    """An engine's folder with the rows in some partitions."""
    table = pa.table(ROWS)
    for number in range(partitions):
        (folder / "engine/samples" / f"partition={number}").mkdir(parents=True)
        rows = [k for k in range(len(table)) if k % partitions == number]
        pq.write_table(table.take(rows), folder / "engine/samples" / f"partition={number}" / "x.parquet")
    return folder / "engine/samples"


@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_loaded_samples_do_not_depend_on_the_number_of_partitions(tmp_path, partitions):
    dataset = SamplesFolder(filepath=str(tmp_path / "samples.parquet"))
    dataset.save(stored(tmp_path, partitions))
    assert not (tmp_path / "engine").exists()
    assert len(list((tmp_path / "samples.parquet").glob("part-*.parquet"))) == partitions
    samples = dataset.load()
    assert samples["item"].tolist() == [3, 4, 5, 7]
    assert samples["label"].tolist() == [1, 0, 1, 0]
    assert samples["split"].dtype == pd.CategoricalDtype(["train", "validation", "test"])


def test_a_damaged_partition_is_an_error(tmp_path):
    dataset = SamplesFolder(filepath=str(tmp_path / "samples.parquet"))
    dataset.save(stored(tmp_path, 2))
    (tmp_path / "samples.parquet/part-00001-000.parquet").write_bytes(b"PAR1")
    with pytest.raises(DatasetError, match="part-00001"):
        dataset.load()
