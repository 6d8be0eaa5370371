"""Output of the samples pipeline, and its fingerprint, which identifies the data that results were made from."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.samples import SPLITS


@dataclass(frozen=True)
class Data:
    """Output of the samples pipeline for a dataset.

    Attributes:
        log: behaviours of all users.
        features: schema and feature codes.
        samples: canonical table of samples.
    """

    log: BehaviorLog
    features: FeatureTables
    samples: pd.DataFrame

    def fingerprint(self) -> str:
        """Hash all values, at each call; takes about a second per GB."""
        return _fingerprint(self.features.schema.model_dump_json(), self.arrays())

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays by name: ``samples.<column>``, ``log.<field>``, ``items.<field>``, …"""
        samples, features = self.samples, self.features
        columns = {name: samples[name].to_numpy() for name in samples if name != "split"}
        split = samples["split"].map({name: code for code, name in enumerate(SPLITS)}).to_numpy(np.int8)
        groups = {
            "samples": columns | {"split": split},
            "log": _arrays_of(self.log),
            "items": features.items,
            "users": features.users,
            "value_sets": {name: value_sets.values for name, value_sets in features.value_sets.items()},
            "value_set_offsets": {
                name: value_sets.offsets for name, value_sets in features.value_sets.items()
            },
        }
        groups |= {f"sequence.{name}": _arrays_of(log) for name, log in self.log.sequences.items()}
        return {
            f"{group}.{name}": array for group, arrays in groups.items() for name, array in arrays.items()
        }


def _arrays_of(log: BehaviorLog) -> dict[str, np.ndarray]:
    optional = {"times": log.times, "negatives": log.negatives}
    return (
        log.fields
        | {"": log.offsets}
        | {name: array for name, array in optional.items() if array is not None}
    )


def _fingerprint(description: str, arrays: Mapping[str, np.ndarray]) -> str:
    """Hash named arrays, independently of their order.

    Args:
        description: additional text to hash.
        arrays: numeric arrays by name.
    """
    digest = hashlib.blake2b(description.encode(), digest_size=16)
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
