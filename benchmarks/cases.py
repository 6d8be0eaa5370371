"""What `compare.py` trains: the cases, and the options with which our models do the same work as a peer's."""

from dataclasses import dataclass
from typing import Any

DIN = {"difference": True, "attention_activation": "sigmoid"}
"""DIN as all peers build it: the activation unit sees ``[e, v, e - v, e * v]``, its hidden layers have sigmoids."""

AUTHORS_DIEN = {"attention": "din", "aux_score": "net", "aux_weight": 1.0}
"""DIEN as its authors' code and most peers build it: attention net 80-40, auxiliary net 100-50-1."""

PAPER_DIEN = {"attention": "bilinear", "aux_score": "inner", "aux_weight": 1.0}
"""DIEN as its paper describes it: bilinear attention (eq. 9), auxiliary loss on inner products (eq. 7)."""

NO_AUX_DIEN = {"attention": "din", "aux_weight": 0.0}

LIKE_FOR_LIKE = {"din": DIN, "dien": AUTHORS_DIEN}
_OTHERS = {("torch_rechub", "dien"): PAPER_DIEN, ("fuxictr", "dien"): NO_AUX_DIEN}


@dataclass(frozen=True)
class Case:
    """What both sides train.

    Attributes:
        model: ``din`` or ``dien``.
        batch_size: samples per step.
        dim: embedding width of item and of category.
        full: every history has 100 behaviours, instead of 9 on average.
    """

    model: str
    batch_size: int
    dim: int = 64
    full: bool = False

    @property
    def name(self) -> str:
        return "full" if self.full else "jagged"


CASES = (
    Case("din", 1024), Case("dien", 1024), Case("din", 128), Case("dien", 128), Case("din", 32), Case("dien", 128, dim=18),
    Case("din", 128, full=True), Case("dien", 128, full=True),
)  # fmt: skip
"""In the order of their worth to a reader."""


@dataclass(frozen=True)
class Form:
    """One form of our model.

    Attributes:
        name: ``like for like`` (the same layers as the peer's model) or ``paper``.
        layers: what its attention and its auxiliary loss are.
        options: of our model.
    """

    name: str
    layers: str
    options: dict[str, Any]


def forms(model: str, peer: str) -> list[Form]:
    """The forms of our model that are compared with a peer's: like for like first, then DIEN as in the paper if that differs."""
    options = _OTHERS.get((peer, model), LIKE_FOR_LIKE[model])
    found = [Form("like for like", _layers(model, options), options)]
    if model == "dien" and options != PAPER_DIEN:
        found.append(Form("paper", _layers(model, PAPER_DIEN), PAPER_DIEN))
    return found


def _layers(model: str, options: dict[str, Any]) -> str:
    if model == "din":
        return "attention net 80-40"
    attention = "attention net 80-40" if options["attention"] == "din" else "bilinear attention"
    if not options["aux_weight"]:
        return f"{attention}, no auxiliary loss"
    auxiliary = "auxiliary net 100-50-1" if options["aux_score"] == "net" else "inner-product auxiliary loss"
    return f"{attention}, {auxiliary}"


PAPER_LAYERS = _layers("dien", PAPER_DIEN)
