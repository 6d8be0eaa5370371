"""DIN and DIEN of DeepCTR-Torch 0.3.0 by its own ``fit``; ``python deepctr_torch_runner.py JOB.json`` in its environment."""

import torch
from deepctr_torch.inputs import SparseFeat, VarLenSparseFeat
from deepctr_torch.models import DIEN, DIN
from job import Arrays, Job, Trainer, main


def inputs(arrays: Arrays, *, auxiliary: bool) -> Arrays:
    """The library's input: ids, padded histories, their lengths, and for DIEN the drawn items."""
    found = {
        "item": arrays["item"], "cat": arrays["category"], "hist_item": arrays["history_item"],
        "hist_cat": arrays["history_category"], "seq_length": arrays["length"],
    }  # fmt: skip
    if auxiliary:
        found |= {"neg_hist_item": arrays["negative_item"], "neg_hist_cat": arrays["negative_category"]}
    return found


def columns(rows: dict[str, int], *, dim: int, window: int, auxiliary: bool) -> list:
    """Feature columns; histories and drawn items share the candidate's tables."""
    found = [SparseFeat("item", rows["item"], dim), SparseFeat("cat", rows["category"], dim)]
    for prefix in ("hist", "neg_hist") if auxiliary else ("hist",):
        for name, table in (("item", "item"), ("cat", "category")):
            feature = SparseFeat(f"{prefix}_{name}", rows[table], dim, embedding_name=name)
            found.append(VarLenSparseFeat(feature, maxlen=window, length_name="seq_length"))
    return found


def build(job: Job, train: Arrays, sizes: dict[str, int]) -> Trainer:
    """The library's model, compiled with Adam."""
    auxiliary = job.model == "dien" and job.auxiliary
    features = columns(sizes, dim=job.dim, window=train["history_item"].shape[1], auxiliary=auxiliary)
    common = {
        "dnn_hidden_units": tuple(job.hidden), "dnn_activation": "prelu", "dnn_dropout": job.dropout, "l2_reg_embedding": job.l2,
        "seed": job.seed,
    }  # fmt: skip
    if job.model == "dien":
        model = DIEN(
            features, ["item", "cat"], gru_type="AUGRU", use_negsampling=auxiliary, att_hidden_units=(80, 40),
            att_activation="sigmoid", att_weight_normalization=True, **common,
        )  # fmt: skip
    else:
        model = DIN(features, ["item", "cat"], att_hidden_size=(80, 40), att_activation="sigmoid", **common)
    model.compile(
        torch.optim.Adam(model.parameters(), lr=job.learning_rate), "binary_crossentropy", metrics=[]
    )
    x = inputs(train, auxiliary=auxiliary)
    return Trainer(
        epoch=lambda: model.fit(dict(x), train["label"], batch_size=job.batch_size, epochs=1, verbose=0),
        score=lambda arrays: model.predict(inputs(arrays, auxiliary=auxiliary), 4096).ravel(),
    )


if __name__ == "__main__":
    main(build)
