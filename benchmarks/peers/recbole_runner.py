"""DIN and DIEN of RecBole 1.2.1 by its own trainer; ``python recbole_runner.py JOB.json`` in its environment."""

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from job import Arrays, Job, Trainer, main, split
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.data.interaction import Interaction
from recbole.model.layers import MLPLayers, SequenceAttLayer
from recbole.utils import get_model, get_trainer, init_seed
from recbole_files import write_atomic_files


def build(job: Job, train: Arrays, sizes: dict[str, int]) -> Trainer:
    """The library's model; for speed with the papers' layer widths, which the library ties together, and an MLP with PReLU and without batch
    normalisation, as all others have it."""
    root, dien = Path(tempfile.mkdtemp()), job.model == "dien"
    os.chdir(root)
    (root / "jagged").mkdir()
    others = [split(job, name) for name in ("validation", "test")] if job.task == "fit" else []
    write_atomic_files(root / "jagged", train, others, negatives=dien)
    lists = ["item_id_list", "neg_item_id_list"] if dien else ["item_id_list"]
    options = {
        "data_path": str(root), "load_col": {"inter": ["user_id", "item_id", "label", *lists], "item": ["item_id", "category"]},
        "benchmark_filename": ["train", "valid", "test"], "alias_of_item_id": lists, "USER_ID_FIELD": "user_id",
        "ITEM_ID_FIELD": "item_id", "LABEL_FIELD": "label", "MAX_ITEM_LIST_LENGTH": train["history_item"].shape[1],
        "train_neg_sample_args": None, "metrics": ["AUC", "LogLoss"], "valid_metric": "AUC", "NEG_PREFIX": "neg_",
        "eval_args": {"mode": "labeled", "order": "TO", "split": {"LS": "valid_and_test"}, "group_by": None},
        "embedding_size": job.dim, "mlp_hidden_size": list(job.hidden), "learning_rate": job.learning_rate, "weight_decay": job.l2,
        "dropout_prob": job.dropout,
        "train_batch_size": job.batch_size, "use_gpu": False, "gpu_id": "", "state": "ERROR", "show_progress": False, "seed": job.seed,
    }  # fmt: skip
    options |= {"gru_type": "AUGRU"} if dien else {}
    sys.argv = sys.argv[:1]
    config = Config(model=job.model.upper(), dataset="jagged", config_dict=options)
    torch.set_num_threads(job.threads)
    init_seed(job.seed, True)
    torch.use_deterministic_algorithms(False)
    loader, _, _ = data_preparation(config, create_dataset(config))
    model = get_model(config["model"])(config, loader._dataset)
    torch.autograd.set_detect_anomaly(False)  # importing the library's models turns it on
    if job.task == "speed":
        set_layers(model, job)
    torch.set_flush_denormal(job.task == "fit")  # L2 makes weights so small that they slow it down
    trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
    shutil.rmtree(root / "jagged")
    ids = item_ids(loader._dataset.field2token_id["item_id"])
    return Trainer(
        epoch=lambda: trainer._train_epoch(loader, 0, show_progress=False),
        score=lambda arrays: score(model, arrays, ids),
    )


def set_layers(model: torch.nn.Module, job: Job) -> None:
    """Give the model the layers that all others have in a comparison of speeds."""
    width, window = 2 * job.dim, torch.arange(model.max_seq_length).view(1, -1)
    if job.model == "dien":
        model.interest_evolution.attention_layer = SequenceAttLayer(
            window, [4 * width, 80, 40], "sigmoid", True, True
        )
        model.interset_extractor.auxiliary_net = MLPLayers(
            [2 * width, 100, 50, 1], activation="sigmoid", last_activation=False
        )
        model.dnn_mlp_layers = MLPLayers(model.dnn_mlp_list, activation=torch.nn.PReLU)
    else:
        model.attention = SequenceAttLayer(
            window, [4 * width, 80, 40], activation="Sigmoid", softmax_stag=False, return_seq_weight=False
        )
        model.dnn_mlp_layers = MLPLayers(model.dnn_list, activation=torch.nn.PReLU)
    model.apply(model._init_weights)


def item_ids(of_token: Mapping[str, int]) -> np.ndarray:
    """The library's id of each of our items."""
    items = {int(token): at for token, at in of_token.items() if token.isdigit()}
    found = np.zeros(1 + max(items), np.int64)
    found[list(items)] = list(items.values())
    return found


@torch.no_grad()
def score(model: torch.nn.Module, arrays: Arrays, ids: np.ndarray) -> np.ndarray:
    """Predicted CTRs of other samples, whose drawn items the prediction does not read."""
    model.eval()
    found = []
    for start in range(0, len(arrays["item"]), 4096):
        rows = {
            name: torch.from_numpy(a[start : start + 4096].astype(np.int64)) for name, a in arrays.items()
        }
        history = torch.from_numpy(ids[rows["history_item"].numpy()])
        batch = {
            "user_id": torch.ones_like(rows["item"]), "item_id": torch.from_numpy(ids[rows["item"].numpy()]),
            "item_id_list": history, "neg_item_id_list": history, "item_length": rows["length"],
        }  # fmt: skip
        found.append(model.predict(Interaction(batch)).numpy())
    return np.concatenate(found)


if __name__ == "__main__":
    main(build)
