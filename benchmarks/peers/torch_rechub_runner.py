"""DIN and DIEN of torch-rechub 0.9.0 by its own trainer; ``python torch_rechub_runner.py JOB.json`` in its environment."""

import tempfile
from itertools import pairwise

import numpy as np
import torch
from job import Arrays, Job, Trainer, main
from torch import nn
from torch.utils.data import DataLoader
from torch_rechub.basic.features import SequenceFeature, SparseFeature
from torch_rechub.models.ranking import DIN
from torch_rechub.models.ranking.dien import DIEN
from torch_rechub.trainers import CTRTrainer
from torch_rechub.utils.data import TorchDataset


def inputs(arrays: Arrays, *, auxiliary: bool) -> Arrays:
    """The library's input; the models refuse an empty profile, so it is one constant."""
    found = {
        "user": np.ones(len(arrays["item"]), np.int32), "item": arrays["item"], "cat": arrays["category"],
        "hist_item": arrays["history_item"], "hist_cat": arrays["history_category"],
    }  # fmt: skip
    if auxiliary:
        found |= {"neg_hist_item": arrays["negative_item"], "neg_hist_cat": arrays["negative_category"]}
    return found


def sequences(prefix: str, rows: dict[str, int], dim: int) -> list:
    return [
        SequenceFeature(
            f"{prefix}_{name}", rows[table], dim, pooling="concat", shared_with=name, padding_idx=0
        )
        for name, table in (("item", "item"), ("cat", "category"))
    ]


def without_normalisation(model: DIN | DIEN) -> None:
    """Give the library's nets the layers that all others have in a comparison of speeds: sigmoid in the attention nets, PReLU in
    the MLP, no batch normalisation, which the library always adds."""
    model.mlp = layers([model.all_dims, 200, 80], nn.PReLU)
    if isinstance(model, DIN):
        for unit in model.attention_layers:
            unit.attention = layers([4 * unit.emb_dim, 80, 40], lambda width: nn.Sigmoid())


def layers(widths: list[int], activation) -> nn.Sequential:
    """Linear layers, each with an activation of its width, and a last one with one output."""
    hidden = [(nn.Linear(inputs, outputs), activation(outputs)) for inputs, outputs in pairwise(widths)]
    return nn.Sequential(*(part for parts in hidden for part in parts), nn.Linear(widths[-1], 1))


def build(job: Job, train: Arrays, sizes: dict[str, int]) -> Trainer:
    """The library's model with its trainer."""
    auxiliary = job.model == "dien"  # the library's DIEN always has its auxiliary loss
    target = [
        SparseFeature("item", sizes["item"], job.dim, padding_idx=0),
        SparseFeature("cat", sizes["category"], job.dim, padding_idx=0),
    ]
    common = {
        "features": [SparseFeature("user", 2, job.dim)], "history_features": sequences("hist", sizes, job.dim),
        "target_features": target, "mlp_params": {"dims": list(job.hidden), "dropout": job.dropout},
    }  # fmt: skip
    if auxiliary:
        model = DIEN(neg_history_features=sequences("neg_hist", sizes, job.dim), alpha=1.0, **common)
    else:
        model = DIN(attention_mlp_params={"dims": [80, 40], "activation": "sigmoid"}, **common)
    if job.task == "speed":
        without_normalisation(model)
    trainer = CTRTrainer(
        model, optimizer_params={"lr": job.learning_rate, "weight_decay": job.l2}, n_epoch=1, device=job.device,
        loss_mode=not auxiliary, model_path=tempfile.mkdtemp(),
    )  # fmt: skip
    dataset = TorchDataset(inputs(train, auxiliary=auxiliary), train["label"])
    loader = DataLoader(dataset, batch_size=job.batch_size, shuffle=True)

    @torch.no_grad()
    def score(arrays: Arrays) -> np.ndarray:
        model.eval()
        found, x = [], inputs(arrays, auxiliary=auxiliary)
        for start in range(0, len(arrays["item"]), 4096):
            output = model({name: torch.from_numpy(a[start : start + 4096]) for name, a in x.items()})
            found.append((output if isinstance(output, torch.Tensor) else output[0]).ravel().numpy())
        return np.concatenate(found)

    return Trainer(epoch=lambda: trainer.train_one_epoch(loader), score=score)


if __name__ == "__main__":
    main(build)
