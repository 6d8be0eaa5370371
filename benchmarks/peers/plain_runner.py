"""DIN and DIEN in plain PyTorch; ``python plain_runner.py JOB.json [--compile]`` in the project's environment. For speed only.

``--compile`` passes DIN's dense part, and the step, attention and auxiliary loss of DIEN, to `torch.compile` with dynamic
shapes, since every batch has its own number of behaviours; table lookups keep their sparse gradients, which it lacks.
"""

import sys
from functools import partial
from pathlib import Path

import torch
from job import Arrays, Job, Trainer, main

sys.path.append(str(Path(__file__).parents[1]))

from plain_batches import PlainSamples
from plain_dien import PlainDIEN, gru_step
from plain_din import PlainDIN, optimizers, train


def build(job: Job, arrays: Arrays, sizes: dict[str, int]) -> Trainer:
    """The model, its optimisers and one epoch over shuffled batches."""
    torch.set_flush_denormal(True)
    torch.set_default_device(job.device)
    samples = PlainSamples.from_padded(arrays, sizes["item"])
    dien = job.model == "dien"
    model = (PlainDIEN if dien else PlainDIN)(sizes["item"], sizes["category"], job.dim)
    if "--compile" in sys.argv:
        compile_parts(model)
    steppers, gather = optimizers(model, job.learning_rate), samples.packed_batch if dien else samples.batch

    def epoch() -> None:
        train(model, steppers, map(gather, torch.randperm(len(samples.label)).split(job.batch_size)))

    return Trainer(epoch=epoch)


def compile_parts(model: PlainDIN | PlainDIEN) -> None:
    """Replace the parts that `torch.compile` can take; DIEN's step has more variants (with and without attention, of one and of more
    samples, at the first step) than it compiles by default."""
    torch._dynamo.config.recompile_limit = 64
    compiled = partial(torch.compile, dynamic=True)
    if isinstance(model, PlainDIN):
        model.dense = compiled(model.dense)
        return
    model.extractor.step = model.augru.step = compiled(gru_step)
    model.attention, model.auxiliary = compiled(model.attention), compiled(model.auxiliary)


if __name__ == "__main__":
    main(build)
