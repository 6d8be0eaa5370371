"""Memory and lookup of tables of reduced precision: ``python benchmarks/packed_tables.py [--quick]``; one JSON line per precision.

``table_mb`` is the size of a table of 2 million rows with 18 columns, in memory and in its file; ``version_peak_mb`` by how much the peak
memory of a process grows that loads a version with this table and scores with it; ``ns_per_row`` the CPU time of looking up a random row, on one
thread, the median of alternating rounds.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import get_args

from machine import this_commit, this_machine

from deep_interest.ops.limits import TablePrecision
from deep_interest.process import prepare_process

PRECISIONS = get_args(TablePrecision)
WIDTH = 18
prepare_process()


def main() -> None:
    """Measure every precision and print it."""
    import torch

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a table of 50,000 rows")
    parser.add_argument("--load", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load is not None:
        print(peak_of(options.load))
        return
    torch.set_num_threads(1)
    rows = 50_000 if options.quick else 2_000_000
    with tempfile.TemporaryDirectory() as folder:
        peaks = {precision: peak_in_a_process(Path(folder) / precision, rows) for precision in PRECISIONS}
    times = lookup_times(rows, rounds=3 if options.quick else 15)
    for precision, (table_mb, peak_mb) in peaks.items():
        line = {
            "bench": "packed_tables", "case": f"{rows:,} rows of {WIDTH}", "precision": precision, "table_mb": table_mb,
            "version_peak_mb": peak_mb, "ns_per_row": round(statistics.median(times[precision]), 1),
            "machine": this_machine(), "commit": this_commit(),
        }  # fmt: skip
        print(json.dumps(line), flush=True)


def peak_in_a_process(folder: Path, rows: int) -> tuple[float, float]:
    """Write a version with a table of that many rows, and return the size of the table and the peak of loading it, in MB."""
    import torch

    from deep_interest.logs.schema import FeatureSchema, Field
    from deep_interest.logs.vocabulary import FieldVocabularies
    from deep_interest.models.packed_tables import memory_of_tables, pack_tables
    from deep_interest.models.registry import build_model, model_config
    from deep_interest.serving.version import VersionArtifacts, write_version

    fields = (Field(name="item_id", size=rows),)
    schema = FeatureSchema(item=fields, behavior=fields)
    torch.manual_seed(0)
    config = model_config("din", {}, common={"embedding_dim": WIDTH})
    model = build_model("din", config, schema)
    manifest = {
        "model": "din", "config": config.model_dump(mode="json"), "schema": schema.model_dump(mode="json"), "precision": {"tables": folder.name},
    }  # fmt: skip
    weights = model.state_dict()
    packed = pack_tables(model, folder.name)
    write_version(folder, VersionArtifacts(manifest, weights, {}, FieldVocabularies(), packed))
    size = memory_of_tables(model)
    done = subprocess.run(
        [sys.executable, __file__, "--load", str(folder)], capture_output=True, text=True, check=True
    )
    return round(size / 1e6, 1), round(float(done.stdout), 1)


def peak_of(folder: Path) -> float:
    """Return by how many MB the peak memory grows when the version is loaded and scores, after the same model with a small table."""
    import torch

    from deep_interest.models.packed_tables import pack_tables
    from deep_interest.models.registry import build_model, model_config
    from deep_interest.serving.scorer import Scorer
    from deep_interest.serving.version import read_version

    version = read_version(folder)
    schema = version.schema.model_copy(
        update={
            "item": (small := (version.schema.item[0].model_copy(update={"size": 100}),)),
            "behavior": small,
        }
    )
    first = build_model("din", model_config("din", {}, common={"embedding_dim": WIDTH}), schema)
    pack_tables(first, version.precision.tables)
    codes = {"item_id": torch.arange(100, dtype=torch.int32)}
    Scorer(first)(codes, codes)
    before = peak_memory()
    Scorer(version.model())(codes, codes)
    return peak_memory() - before


def peak_memory() -> float:
    """Return the peak memory of this process in MB."""
    (line,) = (of for of in Path("/proc/self/status").read_text().splitlines() if of.startswith("VmHWM"))
    return int(line.split()[1]) / 1e3


def lookup_times(rows: int, *, rounds: int) -> dict[str, list[float]]:
    """Return the CPU time of a row in ns, for each precision and round."""
    import torch

    from deep_interest.ops.embedding import lookup
    from deep_interest.ops.packed_tables import pack_table

    table = torch.randn(rows, WIDTH)
    tables = {of: table if of == "float32" else pack_table(table, of, name="table") for of in PRECISIONS}
    times: dict[str, list[float]] = {of: [] for of in PRECISIONS}
    with torch.inference_mode():
        for _ in range(rounds + 1):  # the first one compiles
            codes = torch.randint(0, rows, (200_000,), dtype=torch.int32)
            for of, packed in tables.items():
                start = time.process_time()
                lookup([packed], [{0: codes}])
                times[of].append(1e9 * (time.process_time() - start) / len(codes))
    return {of: found[1:] for of, found in times.items()}


if __name__ == "__main__":
    main()
