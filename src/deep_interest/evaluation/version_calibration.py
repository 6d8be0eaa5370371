"""Calibration of a version: the step from the click probabilities of its model to those that are served."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_interest.errors import InputError
from deep_interest.evaluation.calibration import IsotonicCalibration, correct_for_sampling


@dataclass(frozen=True)
class Calibration:
    """Correction of the log-odds for sampled negatives, followed by an isotonic map; by default neither.

    Both are strictly increasing, so that the order of candidates stays. Calibrated probabilities are float64: as float32, neighbouring
    scores of the model could become equal where the map is flat.

    Attributes:
        negatives: share of the negatives that the model was trained on, in (0, 1].
        isotonic: map of the corrected probabilities; None for none.
    """

    negatives: float = 1.0
    isotonic: IsotonicCalibration | None = None

    @property
    def changes(self) -> bool:
        """Whether probabilities are changed at all."""
        return self.negatives < 1 or self.isotonic is not None

    def __call__(self, ctr: np.ndarray) -> np.ndarray:
        """Return the calibrated probabilities of the model's ``ctr``, of the same shape, in float64; unchanged without a calibration."""
        if not self.changes:
            return ctr
        corrected = correct_for_sampling(ctr, negatives=self.negatives)
        return corrected if self.isotonic is None else self.isotonic(corrected)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as for a JSON file."""
        isotonic = None if self.isotonic is None else self.isotonic.to_dict()
        return {"negatives_kept": self.negatives, "isotonic": isotonic}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Calibration":
        """Read what `to_dict` returned.

        Raises:
            InputError: the values are not those of a calibration.
        """
        negatives, isotonic = values.get("negatives_kept"), values.get("isotonic")
        if not isinstance(negatives, int | float) or not 0 < negatives <= 1:
            raise InputError(
                f"calibration.negatives_kept: found {negatives}, expected a share above 0 and at most 1"
            )
        return cls(negatives, None if isotonic is None else IsotonicCalibration.from_dict(isotonic))
