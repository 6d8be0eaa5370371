"""One fit of a model: epochs, selection on validation data, exact resume."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from deep_interest.errors import InputError
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.layers import relies_on_torch
from deep_interest.ops.compilation import CompilationTimer
from deep_interest.ops.loss import log_loss
from deep_interest.ops.runtime.engine import current_engine
from deep_interest.ops.runtime.memory import BufferPool, use_pool
from deep_interest.ops.runtime.parallel import threads_for_kernels
from deep_interest.training.data import SampleSet
from deep_interest.training.dropout import drop_behaviors
from deep_interest.training.evaluation import predict, validate, watch
from deep_interest.training.log_lines import log_compilation, log_evaluation
from deep_interest.training.optimizers import Optimizer
from deep_interest.training.order import SampleOrder
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.position import PositionEffect
from deep_interest.training.position_weights import with_position_weights
from deep_interest.training.random_histories import RandomHistories
from deep_interest.training.stacking import check_stacking, stack
from deep_interest.training.state import Progress, load_state, save_state
from deep_interest.training.unknown import UnknownRows, negative_fields

logger = logging.getLogger(__name__)


class DivergedError(InputError):
    """Raised if the loss of a fit is no longer finite."""


@dataclass
class Fit:
    """One fit of one model with one seed.

    A fit that was killed resumes from its last saved state and ends with the same parameters, bit for bit on CPU: the order
    of the samples, moments, random state and the state of the selection are all restored.

    Attributes:
        label: name in the progress bar, the log and errors, such as ``simulated.din, seed 1``.
        model: newly initialised model; has the selected parameters at the end.
        train, validation: samples; with an empty validation set the last epoch is selected (``paper`` mode).
        options: training options.
        seed: seed of the order of the samples and of everything that the model samples.
        state_file: file of the saved state.
        fingerprint: hash of everything that determines the result; a state with another fingerprint is not resumed.
        occurrences: n_j of the tables, for the ``mba`` penalty.
        unknown: sets untrained embedding rows before each evaluation, so that the selected parameters include them; None
            keeps their initial values.
        watched: samples whose metrics are added to the learning curves; never used for selection.
        evaluation_batch_size: samples per batch in evaluation.
        checkpoint_seconds: interval in seconds at which the state is saved.
        keep_optimizer: whether the state of a finished fit includes the optimiser, for a later fit that continues from it.
        after_evaluation: called with all evaluations so far after each evaluation; may end the fit by an exception.
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
        _check_booster(self.model, self.train)
        check_stacking(self.model, self.validation)
        self.device = self.train.labels.device
        plain = current_engine() == "plain" or relies_on_torch(self.model)
        self._threads = nullcontext if plain else threads_for_kernels
        self._scratch = BufferPool()
        self.optimizer = self._make_optimizer()
        self.negative_fields = negative_fields(self.model)
        random = self.options.histories == "random"
        self.random_histories = RandomHistories.build(self.train) if random else None
        self.progress = Progress()
        self.best_model: dict[str, Tensor] | None = None
        self.steps = math.ceil(len(self.train) / self.options.batch_size)  # per epoch
        parts = min(self.options.evaluations_per_epoch, self.steps)
        self.evaluation_steps = {round(self.steps * (k + 1) / parts) for k in range(parts)}
        self.position: PositionEffect | None = None
        if self.options.position == "weights":
            self.train = with_position_weights(
                self.train, self.options.position_weights, reference=self.options.position_reference, label=self.label
            )  # fmt: skip
        elif self.options.position != "ignore":
            self.position = PositionEffect.of(
                self.train, form=self.options.position, reference=self.options.position_reference, window=self.steps // 2
            )  # fmt: skip
        self._loss_sums = torch.zeros(2, dtype=torch.float64, device=self.device)  # target and auxiliary loss

    def _make_optimizer(self) -> Optimizer:
        return Optimizer(self.model, self.options, occurrences=self.occurrences)

    def run(self) -> Progress:
        """Train, or resume an interrupted fit; afterwards the model has the selected parameters."""
        torch.manual_seed(self.seed)
        self._resume()
        self._last_save = time.monotonic()
        if not self.progress.done:
            _import_autograd(self.device)
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
            desc=f"{self.label}, epoch {progress.epoch + 1} of {options.epochs}", leave=False,
        )  # fmt: skip
        with bar, closing(order):
            while progress.step < self.steps and not progress.done:
                until = min(step for step in self.evaluation_steps if step > progress.step)
                self._train_steps(order, until, bar)
                if progress.step == until:
                    self._evaluate()
                self._save(force=progress.done)
        if progress.step == self.steps and not progress.done:
            progress.epoch, progress.step = progress.epoch + 1, 0

    def _order(self, epoch: int) -> SampleOrder:
        """Return the order of the samples in an epoch."""
        together: Literal["sample", "request", "user"] = (
            "request" if self.options.shuffle == "requests" else "sample"
        )
        return SampleOrder(
            self.train, seed=self.seed, epoch=epoch, window=self.options.shuffle_window,
            together=together if self.random_histories is None else "user",
        )  # fmt: skip

    def _train_steps(self, order: SampleOrder, until: int, bar: tqdm) -> None:
        """Train up to step ``until``, or until the state is due to be saved; compilation does not count as training time."""
        progress, size = self.progress, self.options.batch_size
        self.model.train()
        compilation = CompilationTimer(on_compile=lambda: log_compilation(self.label))
        start = time.perf_counter()
        with compilation:
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
                if self._is_save_due():
                    break
        progress.loss_sum, progress.auxiliary_sum = self._loss_sums.tolist()
        progress.seconds += time.perf_counter() - start - compilation.seconds

    def train_step(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Train one step on the samples with indices ``rows (B,)`` (on the CPU).

        Returns:
            The target loss, and the weighted auxiliary loss if there is one.
        """
        with self._threads(), use_pool(self._scratch):
            return self._step(rows)

    def _step(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        batch = (self.random_histories or self.train).batch(rows, negatives=self.negative_fields)
        if self.options.behavior_dropout:
            batch = drop_behaviors(batch, self.options.behavior_dropout)
        self._begin_batch(batch)
        with self.optimizer.accumulate():
            output = self.model(batch)
            loss, grad_logits = self._loss(output.logits, batch)
            self._backward(output, loss, grad_logits)
            self.optimizer.step(batch)
        auxiliary = output.auxiliary_loss
        return loss, None if auxiliary is None else auxiliary.detach()

    def _loss(self, logits: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the target loss, and its gradient with respect to the logits; learn the effect of the slots."""
        if self.position is None or batch.slots is None:
            return log_loss(logits, batch.labels, batch.weights, batch.arrived)
        shown = self.position.shown(logits, batch.slots)
        loss, gradient = log_loss(shown.logits, batch.labels, batch.weights)
        self.position.step(shown, batch.slots, batch.labels, batch.weights)
        return loss, gradient * shown.by_logit

    def _begin_batch(self, batch: Batch) -> None:
        """Called with the batch of each step before the model sees it."""

    def _backward(self, output: ModelOutput, loss: Tensor, grad_logits: Tensor) -> None:
        if output.auxiliary_loss is None:
            output.logits.backward(grad_logits)
        else:
            torch.autograd.backward([output.logits, output.auxiliary_loss], [grad_logits, None])

    def learning_rate(self) -> float:
        """Return the learning rate of the next step."""
        options, progress = self.options, self.progress
        decays = progress.total_steps // options.decay_steps if options.decay_steps else progress.epoch
        return options.learning_rate * options.decay_rate**decays * progress.learning_rate_factor

    def _evaluate(self) -> None:
        """Validate and keep the best parameters; without improvement, reduce the learning rate or stop."""
        progress, options = self.progress, self.options
        if self.unknown is not None:
            self.unknown.fill()
        scores = None
        if len(self.validation):
            scores = stack(self.model, self.validation, self._predict, selection=options.selection)
        self._check_finite(scores)
        row = {
            "epoch": progress.epoch + progress.step / self.steps,
            "learning_rate": self.learning_rate(),
            "train_loss": progress.loss_sum / progress.loss_samples,
            "samples": progress.samples,
            "seconds": progress.seconds,
        }
        if self.negative_fields:
            row["auxiliary_loss"] = progress.auxiliary_sum / progress.loss_samples
        if self.position is not None:
            row |= self.position.named()
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
            metrics = watch(self._predict(self.watched), self.watched)
            row |= {f"test_{name}": value for name, value in metrics.items()}
        progress.history.append(row)
        progress.loss_sum, progress.auxiliary_sum, progress.loss_samples = 0.0, 0.0, 0
        self._loss_sums.zero_()
        last = progress.step == self.steps and progress.epoch + 1 == options.epochs
        progress.done = last or progress.bad_evaluations >= options.patience
        self._report(row)
        if self.after_evaluation is not None:
            self.after_evaluation(progress.history)

    def _predict(self, samples: SampleSet) -> np.ndarray:
        return predict(self.model, samples, batch_size=self.evaluation_batch_size)

    def _parameters_are_finite(self) -> bool:
        return all(bool(parameter.isfinite().all()) for parameter in self.model.parameters())

    def _check_finite(self, scores: np.ndarray | None) -> None:
        finite = self._parameters_are_finite()
        finite = finite and (scores is None or bool(np.isfinite(scores).all()))
        if not finite or not math.isfinite(self.progress.loss_sum):
            raise DivergedError(
                f"{self.label}: training diverged in epoch {self.progress.epoch + 1} (loss, parameters or scores are not "
                "finite); reduce learning_rate or the penalty, or set gradient_norm"
            )

    def _report(self, row: dict[str, float]) -> None:
        speed = self.progress.samples / max(self.progress.seconds, 1e-9)
        log_evaluation(self.label, row, epochs=self.options.epochs, samples_per_second=speed)

    def _is_save_due(self) -> bool:
        return time.monotonic() - self._last_save > self.checkpoint_seconds

    def _save(self, *, force: bool) -> None:
        if not force and not self._is_save_due():
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
            if self.position is not None:
                tensors["position"] = self.position.state_dict()
        elif self.best_model is None:
            tensors["best_model"] = self.model.state_dict()
        if self.progress.done and self.keep_optimizer:
            tensors["optimizer"] = self.optimizer.state_dict()
        self._write_state(tensors)
        self._last_save = time.monotonic()

    def _write_state(self, tensors: dict[str, Any]) -> None:
        save_state(self.state_file, fingerprint=self.fingerprint, progress=self.progress, tensors=tensors)

    def _read_state(self) -> dict[str, Any] | None:
        return load_state(self.state_file, fingerprint=self.fingerprint, device=self.device)

    def _resume(self) -> None:
        state = self._read_state()
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
        if self.position is not None:
            self.position.load_state_dict(state["position"])
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


def _import_autograd(device: torch.device) -> None:
    """Run a backward pass: the first one of a process imports modules for a second, which is not training."""
    torch.zeros(1, device=device, requires_grad=True).clone().backward(torch.ones(1, device=device))


def _check_booster(model: nn.Module, train: SampleSet) -> None:
    """Check that a light net that learns from the logits of a booster has them."""
    if getattr(model, "needs_booster_logits", False) and train.booster_logits is None:
        raise InputError(
            "booster: with `frozen` a light net learns from a booster that `kedro run` trains before it, and retraining has none; set "
            "booster to joint or none"
        )
