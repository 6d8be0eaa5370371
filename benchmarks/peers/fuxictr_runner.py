"""Models of FuxiCTR 2.3.10, ``model_zoo/LongCTR`` as its wheel ships it; ``python fuxictr_runner.py JOB.json`` in its environment.

A sequence is stored once per user and padded to the longest of the batch; DIEN has no auxiliary loss there.
"""

import atexit
import importlib.util
import json
import shutil
import tempfile
from functools import partial
from pathlib import Path

import model_zoo
import numpy as np
import pandas as pd
from fuxictr.features import FeatureMap
from fuxictr.pytorch.torch_utils import seed_everything
from job import Arrays, Job, Trainer, main

ZOO = Path(next(iter(model_zoo.__path__))) / "LongCTR"
SHORT = 50
LONG = {
    "sim": {"topk": 50},
    "eta": {"topk": 50},
    "sdim": {"num_hashes": 16, "hash_bits": 3},
    "twin": {"topk": 100},
}
"""Options of the models of long histories: those of our models of these names."""


def load(name: str, path: Path):
    """Import a module of the model zoo, which is not a package."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(folder: Path, train: Arrays, sizes: dict[str, int]) -> None:
    """Write the library's description of the features, and the features of the items."""
    item_feature = {"source": "item", "type": "categorical", "padding_idx": 0}
    meta = {"type": "meta", "source": ""}
    features = [
        {"user_index": meta}, {"item_index": meta}, {"seq_len": meta},
        {"item": item_feature | {"vocab_size": sizes["item"]}}, {"cat": item_feature | {"vocab_size": sizes["category"]}},
    ]  # fmt: skip
    described = {"dataset_id": "jagged", "labels": ["label"], "features": features}
    (folder / "feature_map.json").write_text(json.dumps(described))
    category = np.zeros(sizes["item"], np.int32)
    for items, categories in (("item", "category"), ("history_item", "history_category")):
        category[train[items].ravel()] = train[categories].ravel()
    items = {"item_index": np.arange(sizes["item"]), "item": np.arange(sizes["item"]), "cat": category}
    pd.DataFrame(items).to_parquet(folder / "item_info.parquet")


def write_samples(folder: Path, arrays: Arrays, name: str) -> None:
    """Write samples as the library's files: one sequence per sample, next to the samples."""
    samples = len(arrays["label"])
    columns = {
        "user_index": np.arange(samples), "item_index": arrays["item"], "seq_len": arrays["length"],
        "label": arrays["label"].astype(np.int64),
    }  # fmt: skip
    pd.DataFrame(columns).to_parquet(folder / f"{name}.parquet")
    sequences = [row[:n].tolist() for row, n in zip(arrays["history_item"], arrays["length"], strict=True)]
    pd.DataFrame({"full_item_seq": sequences}).to_parquet(folder / f"{name}_users.parquet")


def pad_before(collator, sequences, lengths) -> np.ndarray:
    """Pad to the longest of the batch, but to at least ``SHORT + 1``: on fewer behaviours the library's attention fails."""
    length = max(SHORT + 1, min(max(lengths), collator.max_len))
    padded = np.zeros((len(sequences), length), np.int64)
    for row, sequence, count in zip(padded, sequences, lengths, strict=True):
        newest = sequence[:count][-length:]
        row[length - len(newest) :] = newest
    return padded


def build(job: Job, train: Arrays, sizes: dict[str, int]) -> Trainer:
    """The zoo's model and data loader."""
    root = Path(tempfile.mkdtemp())
    folder = root / "jagged"
    folder.mkdir()
    write(folder, train, sizes)
    options = {
        "dataset_id": "jagged", "embedding_dim": job.dim, "model_root": str(root / "model"), "verbose": 0,
        "metrics": ["AUC", "logloss"], "optimizer": "adam", "loss": "binary_crossentropy", "learning_rate": job.learning_rate,
        "task": "binary_classification", "gpu": -1, "net_dropout": job.dropout, "dnn_hidden_units": list(job.hidden),
        "dnn_activations": "PReLU", "embedding_regularizer": job.l2, "net_regularizer": 0, "monitor": "AUC", "batch_norm": False,
    }  # fmt: skip
    feature_map = FeatureMap("jagged", str(folder))
    feature_map.load(str(folder / "feature_map.json"), options)
    seed_everything(job.seed)
    if job.model in LONG:
        module = load(f"longctr_{job.model}", ZOO / f"{job.model.upper()}/{job.model.upper()}.py")
        model = getattr(module, job.model.upper())(
            feature_map, attention_dim=64, num_heads=4, short_seq_len=SHORT, **LONG[job.model], **options
        )
    elif job.model == "dien":
        model = load("longctr_dien", ZOO / "DIEN/DIEN.py").DIEN(
            feature_map, gru_type="AUGRU", attention_type="din_attention", attention_hidden_units=[80, 40],
            attention_activation="Sigmoid", **options,
        )  # fmt: skip
    else:
        model = load("longctr_din", ZOO / "DIN/DIN.py").DIN(
            feature_map,
            attention_hidden_units=[80, 40],
            attention_hidden_activations="Sigmoid",
            **options,
        )
    data_loader = load("longctr_dataloader", ZOO / "longctr_dataloader.py").LongCTRDataLoader

    def loader(arrays: Arrays, name: str, *, shuffle: bool):
        write_samples(folder, arrays, name)
        loader = data_loader(
            feature_map, str(folder / name), str(folder / f"{name}_users.parquet"), str(folder / "item_info.parquet"),
            batch_size=job.batch_size, shuffle=shuffle, num_workers=1, max_len=train["history_item"].shape[1],
            padding="pre" if job.model in LONG else "post",  # the former take the newest behaviours from the end
        )  # fmt: skip
        if job.model in LONG:
            loader.collate_fn.padding_seqs = partial(pad_before, loader.collate_fn)
        return loader

    batches = loader(train, "train", shuffle=True)
    model._max_gradient_norm, model._total_steps, model._eval_steps = 10.0, 0, 10**9
    model._stop_training, model._batch_index = False, 0
    atexit.register(shutil.rmtree, root)
    return Trainer(
        epoch=lambda: model.train_epoch(batches),
        score=lambda arrays: model.predict(loader(arrays, "scored", shuffle=False)),
    )


if __name__ == "__main__":
    main(build)
