"""Plain distillation: a booster is trained as a model of its own, and a light net learns from its logits.

The booster of ``din_distilled`` is the fit of ``din`` with the same recipe and seed; if that is finished, it is loaded.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch

from deep_interest.models.configs.rocket import LightDIENConfig, LightDINConfig
from deep_interest.models.registry import build_model
from deep_interest.training.data import SampleSet
from deep_interest.training.evaluation import predict_logits
from deep_interest.training.experiment import Experiment
from deep_interest.training.parameters import RowOptions


def booster_of(experiment: Experiment) -> Experiment | None:
    """Return the experiment that trains the booster of a light net before it; None if the model learns from no such booster."""
    config, _ = experiment.config_and_options()
    if not isinstance(config, LightDINConfig | LightDIENConfig) or config.booster != "frozen":
        return None
    options = {**config.of_booster().model_dump(), "training": experiment.options.training}
    return replace(experiment, model=config.booster_key, options=RowOptions(options), variant="")


def with_booster_logits(
    samples: SampleSet, booster: Experiment, state: Mapping[str, np.ndarray]
) -> SampleSet:
    """Return samples with the logits of a booster.

    Args:
        samples: samples of the light net.
        booster: experiment that has trained the booster.
        state: parameters of the booster by name.
    """
    config, options = booster.config_and_options()
    model = build_model(booster.model, config, samples.store.schema)
    model.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
    logits = predict_logits(
        model.to(samples.labels.device),
        replace(samples, max_len=options.max_len),
        batch_size=booster.run.evaluation_batch_size,
    )
    return replace(samples, booster_logits=logits)
