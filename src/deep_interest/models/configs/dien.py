"""Options of DIEN and its variants."""

from typing import Literal

from pydantic import Field

from deep_interest.models.config import OneInterestConfig
from deep_interest.models.configs.auxiliary import AuxiliaryConfig

Evolution = Literal["attention", "aigru", "agru", "augru", "augru_code"]


class DIENConfig(AuxiliaryConfig, OneInterestConfig):
    """Options of DIEN.

    Attributes:
        evolution: how attention enters the second GRU: ``attention`` pools its states (Two-layer GRU attention),
            ``aigru`` scales its input (eq. 10), ``agru`` replaces its update gate (eq. 11), ``augru`` scales the update
            gate (eq. 12, 13), ``augru_code`` scales the gate that keeps the state (the authors' code).
        attention: ``bilinear`` (eq. 9), or DIN's activation unit, ``din`` (the authors' code).
        gru_size: width of both GRUs; that of the fields which behaviours share with the candidate if None (36 in DIEN: two of 18).
    """

    evolution: Evolution = "augru"
    attention: Literal["bilinear", "din"] = "bilinear"
    gru_size: int | None = Field(None, ge=1)
