"""Fitting one model once: epochs, selection on validation data, exact resume."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from deep_interest.errors import InputError
from deep_interest.models.layers import leans_on_torch
from deep_interest.ops.gradients import adding_to_gradients
from deep_interest.ops.loss import log_loss
from deep_interest.ops.runtime.engine import current_engine
from deep_interest.ops.runtime.memory import BufferPool, use_pool
from deep_interest.ops.runtime.parallel import threads_for_kernels
from deep_interest.training.data import SampleSet
from deep_interest.training.dropout import drop_behaviors
from deep_interest.training.evaluation import predict, validate, watch
from deep_interest.training.optimizers import Optimizer
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.state import Progress, load_state, save_state
from deep_interest.training.unknown import UnknownRows, drawn_fields

logger = logging.getLogger(__name__)


class DivergedError(InputError):
    """The loss of a fit is no longer a finite number."""


@dataclass
class Fit:
    """One fit of one model with one seed.

    A fit that was killed and is run again goes on from its last saved state and ends with the same parameters, bit
    for bit on CPU: order of the samples, moments, random state and what selection remembers are all restored.

    Attributes:
        label: what the progress bar and the log call it.
        model: freshly initialised; holds the selected parameters in the end.
        train, validation: samples; an empty validation set means that the last epoch is taken (``paper`` mode).
        options: how to fit.
        seed: of the order of the samples and of whatever the model draws.
        state_file: where the state is saved.
        fingerprint: of everything that decides the result; a state of another fingerprint is not resumed.
        occurrences: n_j of the tables, for the ``mba`` penalty.
        unknown: sets untrained embedding rows before each evaluation, so that the selected parameters have them; None leaves
            them at their initial values.
        watched: samples whose figures the learning curves show too; nothing is selected by them.
        evaluation_batch_size: samples scored at once.
        checkpoint_seconds: the state is saved this often.
        keep_optimizer: the state of a finished fit holds the optimiser's too, for a later fit that goes on from there.
        after_evaluation: is given all evaluations so far after each of them; it may end the fit by an exception.
    """

    label: str
    model: nn.Module
    train: SampleSet
    validation: SampleSet
    options: TrainingOptions
    seed: int
    state_file: Path
    fingerprint: str
    occurrences: Mapping[str, Tensor] | None = None
    unknown: UnknownRows | None = None
    watched: SampleSet | None = None
    evaluation_batch_size: int = 4096
    checkpoint_seconds: float = 60.0
    keep_optimizer: bool = False
    after_evaluation: Callable[[list[dict[str, float]]], None] | None = None

    def __post_init__(self) -> None:
        self.device = self.train.labels.device
        plain = current_engine() == "plain" or leans_on_torch(self.model)
        self._threads = nullcontext if plain else threads_for_kernels
        self._scratch = BufferPool()
        self.optimizer = Optimizer(self.model, self.options, occurrences=self.occurrences)
        self.drawn_fields = drawn_fields(self.model)
        self.progress = Progress()
        self.best_model: dict[str, Tensor] | None = None
        self.steps = math.ceil(len(self.train) / self.options.batch_size)  # an epoch
        parts = min(self.options.evaluations_per_epoch, self.steps)
        self.evaluation_steps = {round(self.steps * (k + 1) / parts) for k in range(parts)}
        self._loss_sums = torch.zeros(2, dtype=torch.float64, device=self.device)  # target and auxiliary loss

    def run(self) -> Progress:
        """Fit, or finish a fit that was interrupted; the model ends with the selected parameters."""
        torch.manual_seed(self.seed)
        self._resume()
        self._last_save = time.monotonic()
        while not self.progress.done:
            self._epoch()
        if self.best_model is not None:
            self.model.load_state_dict(self.best_model)
        return self.progress

    def _epoch(self) -> None:
        progress, options = self.progress, self.options
        order = self._order(progress.epoch)
        bar = tqdm(
            total=len(self.train), initial=progress.step * options.batch_size, unit=" samples", unit_scale=True, disable=None,
            desc=f"{self.label} epoch {progress.epoch + 1}/{options.epochs}", leave=False,
        )  # fmt: skip
        with bar:
            while progress.step < self.steps and not progress.done:
                until = min(step for step in self.evaluation_steps if step > progress.step)
                self._train_steps(order, until, bar)
                if progress.step == until:
                    self._evaluate()
                self._save(force=progress.done)
        if progress.step == self.steps and not progress.done:
            progress.epoch, progress.step = progress.epoch + 1, 0

    def _order(self, epoch: int) -> Tensor:
        """The samples in the order of an epoch, ``(n,)``."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        if self.options.shuffle == "samples":
            return torch.randperm(len(self.train), generator=generator)
        requests = self.train.requests
        place = torch.randperm(int(requests.max()) + 1, generator=generator)
        return place[requests].argsort(stable=True)

    def _train_steps(self, order: Tensor, until: int, bar: tqdm) -> None:
        """Train up to step ``until``, or until it is time to save."""
        progress, size = self.progress, self.options.batch_size
        self.model.train()
        start = time.perf_counter()
        while progress.step < until:
            rows = order[progress.step * size : (progress.step + 1) * size]
            self.optimizer.learning_rate = self.learning_rate()
            losses = self.train_step(rows)
            for total, loss in zip(self._loss_sums, losses, strict=True):
                if loss is not None:
                    total.add_(loss, alpha=len(rows))
            progress.step += 1
            progress.total_steps += 1
            progress.samples += len(rows)
            progress.loss_samples += len(rows)
            if bar.update(len(rows)):
                bar.set_postfix_str(f"loss {losses[0].item():.4f}", refresh=False)
            if time.monotonic() - self._last_save > self.checkpoint_seconds:
                break
        progress.loss_sum, progress.auxiliary_sum = self._loss_sums.tolist()
        progress.seconds += time.perf_counter() - start

    def train_step(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """One step on the samples ``rows (B,)``, numbered on the CPU; the target loss, and the auxiliary loss with its weight if there is one."""
        with self._threads(), use_pool(self._scratch):
            return self._step(rows)

    def _step(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        batch = self.train.batch(rows, negatives=self.drawn_fields)
        if self.options.behavior_dropout:
            batch = drop_behaviors(batch, self.options.behavior_dropout)
        output = self.model(batch)
        loss, to_logits = log_loss(output.logits, batch.labels)
        auxiliary = output.auxiliary_loss
        with adding_to_gradients():
            if auxiliary is None:
                output.logits.backward(to_logits)
            else:
                torch.autograd.backward([output.logits, auxiliary], [to_logits, None])
        self.optimizer.step(batch)
        return loss, None if auxiliary is None else auxiliary.detach()

    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        options, progress = self.options, self.progress
        decays = progress.total_steps // options.decay_steps if options.decay_steps else progress.epoch
        return options.learning_rate * options.decay_rate**decays * progress.learning_rate_factor

    def _evaluate(self) -> None:
        """Validate; remember the best parameters; drop the learning rate, or stop, when there is no improvement."""
        progress, options = self.progress, self.options
        if self.unknown is not None:
            self.unknown.fill()
        scores = None
        if len(self.validation):
            scores = predict(self.model, self.validation, batch_size=self.evaluation_batch_size)
        self._check_finite(scores)
        row = {
            "epoch": progress.epoch + progress.step / self.steps,
            "learning_rate": self.learning_rate(),
            "train_loss": progress.loss_sum / progress.loss_samples,
            "samples": progress.samples,
            "seconds": progress.seconds,
        }
        if self.drawn_fields:
            row["auxiliary_loss"] = progress.auxiliary_sum / progress.loss_samples
        if scores is not None:
            row["validation_loss"], value = validate(scores, self.validation, selection=options.selection)
            row[f"validation_{options.selection}"] = abs(value)
            if progress.best is None or value > progress.best:
                progress.best, progress.bad_evaluations = value, 0
                self.best_model = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
            else:
                progress.bad_evaluations += 1
                progress.learning_rate_factor *= options.plateau_factor
        if self.watched is not None:
            figures = watch(self.model, self.watched, batch_size=self.evaluation_batch_size)
            row |= {f"test_{name}": value for name, value in figures.items()}
        progress.history.append(row)
        progress.loss_sum, progress.auxiliary_sum, progress.loss_samples = 0.0, 0.0, 0
        self._loss_sums.zero_()
        last = progress.step == self.steps and progress.epoch + 1 == options.epochs
        progress.done = last or progress.bad_evaluations >= options.patience
        self._report(row)
        if self.after_evaluation is not None:
            self.after_evaluation(progress.history)

    def _check_finite(self, scores: np.ndarray | None) -> None:
        finite = all(bool(parameter.isfinite().all()) for parameter in self.model.parameters())
        finite = finite and (scores is None or bool(np.isfinite(scores).all()))
        if not finite or not math.isfinite(self.progress.loss_sum):
            raise DivergedError(
                f"{self.label}: the training diverged in epoch {self.progress.epoch + 1} (loss, parameters or scores are no longer "
                "finite); lower learning_rate or the penalty, or set gradient_norm"
            )

    def _report(self, row: dict[str, float]) -> None:
        figures = ", ".join(
            f"{name.replace('_', ' ')} {value:.4f}"
            for name, value in row.items()
            if name not in ("epoch", "learning_rate")
        )
        speed = self.progress.samples / max(self.progress.seconds, 1e-9)
        logger.info("%s: epoch %.4g, %s, %s samples/s", self.label, row["epoch"], figures, f"{speed:,.0f}")

    def _save(self, *, force: bool) -> None:
        if not force and time.monotonic() - self._last_save <= self.checkpoint_seconds:
            return
        tensors: dict[str, Any] = {"best_model": self.best_model}
        if not self.progress.done:
            random = [torch.get_rng_state()]
            if self.device.type == "cuda":
                random.append(torch.cuda.get_rng_state(self.device))
            tensors |= {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "random": random,
            }
        elif self.best_model is None:
            tensors["best_model"] = self.model.state_dict()
        if self.progress.done and self.keep_optimizer:
            tensors["optimizer"] = self.optimizer.state_dict()
        save_state(self.state_file, fingerprint=self.fingerprint, progress=self.progress, tensors=tensors)
        self._last_save = time.monotonic()

    def _resume(self) -> None:
        state = load_state(self.state_file, fingerprint=self.fingerprint, device=self.device)
        if state is None:
            return
        self.progress = Progress(**state["progress"])
        self.best_model = state["best_model"]
        self._loss_sums[:] = torch.tensor(
            [self.progress.loss_sum, self.progress.auxiliary_sum], dtype=torch.float64
        )
        if "optimizer" in state:
            self.optimizer.load_state_dict(state["optimizer"])
        if self.progress.done:
            return
        self.model.load_state_dict(state["model"])
        cpu, *cuda = state["random"]
        torch.set_rng_state(cpu.cpu())
        if cuda:
            torch.cuda.set_rng_state(cuda[0].cpu(), self.device)
        logger.info(
            "%s: resumed at epoch %d, step %d of %d",
            self.label,
            self.progress.epoch + 1,
            self.progress.step,
            self.steps,
        )
