"""What a trained model costs when it scores: parameters, bytes, and time per sample."""

import time

import torch

from deep_interest.evaluation.smallest_model import ModelCost
from deep_interest.training.content import Data
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.evaluation import predict
from deep_interest.training.parameters import RunParameters, TrainingOptions
from deep_interest.training.runs import Checkpoint, prepare_device, restore

SAMPLES = 4096  # that are scored to measure the time
REPETITIONS = 3


def model_cost(checkpoint: Checkpoint, run: RunParameters, data: Data) -> ModelCost:
    """Measure the first fit of a checkpoint, without the parts that only training needs.

    The time is that of the fastest of three repetitions, after one that compiles; it includes looking up the histories.

    Args:
        checkpoint: trained parameters.
        run: device, threads and batch size.
        data: data with the test samples, of which the first ones are scored.
    """
    device = prepare_device(run)
    model = restore(checkpoint, checkpoint["seeds"][0]).to(device)
    for part in getattr(model, "training_only", ()):
        setattr(model, part, None)
    options = TrainingOptions.model_validate_json(checkpoint["training"])
    samples = data.samples[data.samples["split"] == "test"].head(SAMPLES).reset_index(drop=True)
    test = SampleSet.build(
        FeatureStore.build(data.log, data.features, device), samples, "test", max_len=options.max_len
    )
    seconds = [_seconds(model, test, run.evaluation_batch_size) for _ in range(REPETITIONS + 1)][1:]
    return ModelCost(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        bytes=sum(tensor.nbytes for tensor in model.state_dict().values()),
        microseconds=1e6 * min(seconds) / len(test),
    )


def _seconds(model: torch.nn.Module, samples: SampleSet, batch_size: int) -> float:
    begin = time.perf_counter()
    predict(model, samples, batch_size=batch_size)
    return time.perf_counter() - begin
