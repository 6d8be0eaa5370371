"""A fit on several ranks: each computes its part of every batch, of every evaluation and of every saved state."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deep_interest.distributed import group
from deep_interest.distributed.exchange import RowExchange, ShardedTable
from deep_interest.distributed.normalisation import share_statistics
from deep_interest.distributed.optimizer import BatchCounter, ShardedOptimizer
from deep_interest.distributed.state import ShardedStates
from deep_interest.errors import InputError
from deep_interest.models.batch import ModelOutput
from deep_interest.models.embeddings import Table
from deep_interest.ops.runtime.memory import BufferPool, use_pool
from deep_interest.training.data import SampleSet
from deep_interest.training.loop import Fit
from deep_interest.training.update_rules import Adam

_RANDOM_STEP = 7_368_787  # between the seeds of neighbouring steps


def share_tables(model: nn.Module) -> RowExchange:
    """Let the tables of a model, which have the rows of this rank, look up the rows of all ranks."""
    exchange = RowExchange()
    for name, module in model.named_modules():
        if isinstance(module, Table):
            module.source = ShardedTable(name, module, exchange)
    return exchange


def sharded_parameters(model: nn.Module) -> dict[str, int]:
    """Return the number of rows of each whole table, by the name of its parameter."""
    return {
        f"{name}.weight": module.num_embeddings
        for name, module in model.named_modules()
        if isinstance(module, Table)
    }


@dataclass
class RankFit(Fit):
    """One fit of one model with one seed, on all ranks.

    Batches, order and learning rates are those of one process; the ranks divide each batch. Random choices within a step (negatives
    of an auxiliary loss, dropout of behaviours) are functions of the seed, the step and the rank, so that they need no saved state.

    Attributes:
        exchange: carries the rows of the model, from `share_tables`.
    """

    exchange: RowExchange = field(default_factory=RowExchange)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.position is not None:
            raise InputError(
                f"training.position: {self.options.position} learns the effect of slots on one process only; set it to weights or ignore, or "
                "train without torchrun"
            )
        self._part, self._due = 1.0, False
        self._states = ShardedStates(Path(self.state_file), self.fingerprint)
        share_statistics(self.model, lambda: self._part)

    def _make_optimizer(self) -> ShardedOptimizer:
        return ShardedOptimizer(
            self.model, self.options, occurrences=self.occurrences, exchange=self.exchange
        )

    def train_step(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Train one step on the samples ``rows (B,)``, of which this rank computes a part; return the losses of all of them."""
        begin, end = group.bounds_of(len(rows), group.rank(), group.size())
        own = rows[begin:end] if begin < end else rows[:1]  # every rank has a sample, if one without weight
        self._part = (end - begin) / len(rows)
        step = self.progress.total_steps * group.size() + group.rank()
        # of the CPU only: `torch.manual_seed` also seeds devices, which takes as long as an exchange of rows
        torch.default_generator.manual_seed(self.seed * 1_000_003 + step * _RANDOM_STEP)
        _, auxiliary = super().train_step(own)
        loss, total_auxiliary, saves = self._rank_optimizer.sums.clone()
        self._due = bool(saves)
        return loss, None if auxiliary is None else total_auxiliary

    @property
    def _rank_optimizer(self) -> ShardedOptimizer:
        assert isinstance(self.optimizer, ShardedOptimizer)
        return self.optimizer

    def _begin_batch(self, batch: Any) -> None:
        counts = self._rank_optimizer.counts_occurrences
        self.exchange.begin_step(BatchCounter(batch) if counts else None)

    def _backward(self, output: ModelOutput, loss: Tensor, grad_logits: Tensor) -> None:
        due = time.monotonic() - self._last_save > self.checkpoint_seconds
        auxiliary = 0.0 if output.auxiliary_loss is None else float(output.auxiliary_loss)
        self._rank_optimizer.sums[:] = torch.tensor(
            [float(loss) * self._part, auxiliary * self._part, float(due)]
        )
        grads: list[Tensor | None] = [grad_logits * self._part]
        tensors = [output.logits]
        if output.auxiliary_loss is not None:
            tensors.append(output.auxiliary_loss)
            grads.append(torch.full_like(output.auxiliary_loss, self._part))
        torch.autograd.backward(tensors, grads)

    def _predict(self, samples: SampleSet) -> np.ndarray:
        return predict_on_ranks(self.model, samples, batch_size=self.evaluation_batch_size)

    def _parameters_are_finite(self) -> bool:
        return group.all_agree(super()._parameters_are_finite())

    def _is_save_due(self) -> bool:
        return self._due

    def _report(self, row: dict[str, float]) -> None:
        if group.rank() == 0:
            super()._report(row)

    def _write_state(self, tensors: dict[str, Any]) -> None:
        rows: dict[str, Tensor] = {}
        common: dict[str, Any] = {}
        for name in ("model", "best_model"):
            common[name], own = self._divide(name, tensors.get(name))
            rows |= own
        if "optimizer" in tensors and isinstance(self.optimizer.rule, Adam):
            steps, moments = (tensors["optimizer"][key] for key in ("steps", "moments"))
            common["optimizer"] = {"steps": steps, "moments": moments[0]}
            rows |= self._by_name(moments[1:])
        self._states.write(self.progress, common, rows)
        self._due = False

    def _divide(
        self, name: str, state: Mapping[str, Tensor] | None
    ) -> tuple[dict[str, Tensor] | None, dict[str, Tensor]]:
        """Divide the parameters of a model into those that all ranks have and the rows of this rank."""
        if state is None:
            return None, {}
        sharded = sharded_parameters(self.model)
        own = {f"{name}.{key}": tensor for key, tensor in state.items() if key in sharded}
        return {key: tensor for key, tensor in state.items() if key not in sharded}, own

    def _by_name(self, moments: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
        tables = sharded_parameters(self.model)
        return {
            f"moment_{order}.{name}": moment
            for name, pair in zip(tables, moments, strict=True)
            for order, moment in enumerate(pair)
        }

    def _read_state(self) -> dict[str, Any] | None:
        common = self._states.read_common()
        if common is None:
            return None
        state: dict[str, Any] = {"progress": common["progress"], "random": [torch.get_rng_state()]}
        tables = sharded_parameters(self.model)
        for name in ("model", "best_model"):
            state[name] = common[name]
            if common[name] is not None:
                rows = self._states.read_rows({f"{name}.{key}": count for key, count in tables.items()})
                state[name] |= {key: rows[f"{name}.{key}"] for key in tables}
        if "optimizer" in common:
            orders = [
                self._states.read_rows({f"moment_{order}.{name}": rows for name, rows in tables.items()})
                for order in range(2)
            ]
            pairs = zip(*(moments.values() for moments in orders), strict=True)
            state["optimizer"] = {
                "steps": common["optimizer"]["steps"], "moments": [common["optimizer"]["moments"], *pairs],
            }  # fmt: skip
        elif not common["progress"]["done"]:
            state["optimizer"] = {}
        return state

    def whole_state(self, folder: Path) -> dict[str, np.ndarray]:
        """Return the selected parameters with all rows of the tables, mapped from files that no name refers to; on rank 0 only.

        Args:
            folder: folder with space for the tables.
        """
        common = self._states.read_common_again()
        parameters = {name: tensor.numpy() for name, tensor in common["best_model"].items()}
        for name, rows in sharded_parameters(self.model).items():
            dim = self.model.get_parameter(name).shape[1]
            parameters[name] = mapped_array(folder / "whole.npy", (rows, dim))
            self._states.read_whole(f"best_model.{name}", rows, torch.from_numpy(parameters[name]))
        order = self.model.state_dict()
        return {name: parameters[name] for name in order}


def mapped_array(path: Path, shape: tuple[int, int]) -> np.ndarray:
    """Return a float32 array in a file without a name: the system can write it to disk when memory is short."""
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    path.unlink()
    return array


@torch.no_grad()
def predict_on_ranks(model: nn.Module, samples: SampleSet, *, batch_size: int) -> np.ndarray:
    """Predict the CTR of every sample, ``(n,)`` float32, on all ranks: each computes a contiguous part in as many batches."""
    return torch.sigmoid(logits_on_ranks(model, samples, batch_size=batch_size)).numpy()


@torch.no_grad()
def logits_on_ranks(model: nn.Module, samples: SampleSet, *, batch_size: int) -> Tensor:
    """Compute the logit of every sample, ``(n,)``, on all ranks, as `predict_on_ranks` does."""
    model.eval()
    parts = [group.bounds_of(len(samples), rank, group.size()) for rank in range(group.size())]
    sizes = [end - begin for begin, end in parts]
    begin, end = parts[group.rank()]
    logits = torch.zeros(end - begin)
    with use_pool(BufferPool()):
        for first in range(0, max(sizes), batch_size):
            rows = torch.arange(begin + first, min(begin + first + batch_size, end))
            found = model(samples.batch(rows if len(rows) else torch.zeros(1, dtype=torch.int64))).logits
            logits[first : first + len(rows)] = found[: len(rows)]
    return group.gather_parts(logits, sizes)
