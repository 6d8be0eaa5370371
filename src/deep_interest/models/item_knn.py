"""Item kNN: a neighbourhood of items that knows what happened in the history, in closed form."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from pydantic import Field as Option
from torch import Tensor

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.closed_form import FittedModel, TrainingSamples, batches, number_of_items
from deep_interest.models.config import ModelConfig
from deep_interest.models.history_counts import Pairs, one_hot
from deep_interest.models.logistic import fit_logistic
from deep_interest.models.popularity import prior_strength
from deep_interest.ops.bounds import check_codes
from deep_interest.ops.segments import expand, segment_sum

_SMALLEST_RATE = 1e-6  # if all labels are equal
_PRIOR_STRENGTH = 1.0  # of the coefficients
_MEAN_STRENGTH = 5.0  # behaviours by which an item's mean value is shrunk to the mean of all
_FOLDS = 10  # by user; the coefficients are fitted on the first, the neighbourhoods without it


class ItemKNNConfig(ModelConfig):
    """Options of ItemKNN.

    Attributes:
        neighbors: number of items that each candidate keeps: those that change its rate most.
        shrinkage: number of pairs that a neighbour's weight is shrunk by.
        normalize: exponent of the length of the history that the sum over neighbours is divided by.
    """

    neighbors: int = Option(1000, ge=1)
    shrinkage: float = Option(100.0, ge=0)
    normalize: float = Option(0.5, ge=0, le=1)


@dataclass(frozen=True)
class PairSums:
    """Sums over the training samples of candidate i with item j in the history.

    Attributes:
        keys: ``(k,)`` int64 ascending, i · items + j.
        sums: ``(k, 3 · channels)`` sums of label times outcome, of outcomes, and of squared outcomes.
    """

    keys: np.ndarray
    sums: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray, values: np.ndarray) -> "PairSums":
        """Add the rows of ``values (n, 3 · channels)`` with equal keys."""
        distinct, index = np.unique(keys, return_inverse=True)
        sums = [np.bincount(index, weights=column, minlength=len(distinct)) for column in values.T]
        return cls(distinct, np.stack(sums, axis=1))


class ItemKNN(FittedModel):
    """The candidate's rate, moved by each item of the history and by what happened in that behaviour.

    For candidate i and a behaviour with item j, each channel c has an outcome ``o_c``: 1 in the first channel (presence), and in
    one channel per own field (rating, action) the value of its code, centred by the item's mean. The weight of j for i is the
    shrunken regression coefficient of i's label on the outcome, over the n_ij training samples of i with j in the history::

        w_ijc = Σ (y - p_i) o_c / (Σ o_c² + λ m_c)      p_i: smoothed rate of i, m_c: mean of o_c², λ: shrinkage
        s_c   = |h|^(-α) Σ_{j in h} w_ijc o_c           h: history, α: normalize
        logit = β_0 + β_1 logit(p_i) + Σ_c β_{2+c} s_c

    The value of a code is the positive rate of the samples with that code in their history. β is a logistic regression on the
    users of one fold, whose labels are not in the rates and weights it is fitted with.
    """

    Config = ItemKNNConfig
    sized_by_fit = ("keys", "weights")
    keys: Tensor
    weights: Tensor
    rates: Tensor
    scale: Tensor
    coefficients: Tensor

    def __init__(self, config: ItemKNNConfig, schema: FeatureSchema) -> None:
        super().__init__()
        self.config, self.schema = config, schema
        self.items = number_of_items(schema, "item_knn")
        if ITEM_ID not in {field.name for field in schema.shared}:
            raise InputError(
                f"features.behavior: item_knn compares the items of the history with the candidate, but the fields of a behaviour are "
                f"{', '.join(field.name for field in schema.behavior)}; add {ITEM_ID}, or remove item_knn from models"
            )
        self.own = one_hot(schema.own)
        self.register_buffer("rates", torch.zeros(self.items))
        self.register_buffer("keys", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("weights", torch.zeros(0, 1 + len(self.own)))
        self.register_buffer("scale", torch.ones(1 + len(self.own)))
        self.register_buffer("coefficients", torch.zeros(3 + len(self.own)))
        for field in self.own:
            self.register_buffer(f"value_{field.name}", torch.zeros(field.size))
            self.register_buffer(f"mean_{field.name}", torch.zeros(self.items))

    def fit(self, samples: TrainingSamples) -> None:
        """Compute rates, values of the codes and neighbourhoods; the coefficients on users without a part in them."""
        held_out = samples.user.cpu().numpy() % _FOLDS == 0
        columns = self.coefficients.shape[0]
        self.coefficients.copy_(torch.tensor([0.0] + [1.0] * (columns - 1)))
        if held_out.any() and not held_out.all():
            self._fit_neighbors(samples, torch.from_numpy(np.flatnonzero(~held_out)))
            rows = torch.from_numpy(np.flatnonzero(held_out))
            design = torch.cat([self._columns(batch).double() for _, batch in batches(samples, rows)])
            labels = samples.labels[rows.to(samples.labels.device)].double()
            prior = self.coefficients.double()
            self.coefficients.copy_(fit_logistic(design, labels, towards=prior, strength=_PRIOR_STRENGTH))
        self._fit_neighbors(samples, torch.arange(len(samples)))

    def forward(self, batch: Batch) -> ModelOutput:
        return ModelOutput(self._columns(batch) @ self.coefficients)

    def _columns(self, batch: Batch) -> Tensor:
        """Return 1, the logit of the candidate's rate and the scores ``s_c``, ``(B, 2 + channels)``."""
        candidate, items = batch.candidate[ITEM_ID], batch.history[ITEM_ID]
        for codes in (candidate, items):
            if codes.is_cpu:
                check_codes(codes.numpy(), self.items, ITEM_ID)
        pairs = batch.pairs
        key = candidate.long()[pairs.segments] * self.items + expand(items.long(), pairs)
        position = torch.searchsorted(self.keys, key).clamp(max=max(len(self.keys) - 1, 0))
        terms = expand(self._outcomes(batch), pairs)
        if len(self.keys):
            terms = terms * self.weights[position] * (self.keys[position] == key).unsqueeze(1)
        else:
            terms = torch.zeros_like(terms)
        scores = segment_sum(terms, pairs.gathered)
        scores = scores * pairs.lengths.clamp(min=1).unsqueeze(1).to(scores.dtype).pow(-self.config.normalize)
        rate = torch.logit(self.rates[candidate.long()], eps=_SMALLEST_RATE).unsqueeze(1)
        return torch.cat([torch.ones_like(rate), rate, scores], dim=1)

    def _outcomes(self, batch: Batch) -> Tensor:
        """Return the outcome of each behaviour in each channel, ``(N, channels)``; the first is 1."""
        items = batch.history[ITEM_ID].long()
        columns = [self.rates.new_ones(len(items))]
        for field in self.own:
            codes = batch.history[field.name]
            if codes.is_cpu:
                check_codes(codes.numpy(), field.size, field.name)
            value, mean = getattr(self, f"value_{field.name}"), getattr(self, f"mean_{field.name}")
            columns.append(value[codes.long()] - mean[items])
        return torch.stack(columns, dim=1)

    def _fit_neighbors(self, samples: TrainingSamples, rows: Tensor) -> None:
        """Compute everything but the coefficients from the samples ``rows (m,)``."""
        candidate = samples.candidates()[ITEM_ID].long().cpu()
        labels = samples.labels.double().cpu()[rows]
        counts = torch.bincount(candidate[rows], minlength=self.items).double()
        positives = torch.bincount(candidate[rows], weights=labels, minlength=self.items)
        strength = prior_strength(positives, counts)
        self.rates.copy_((positives + strength * labels.mean()) / (counts + strength))
        if self.own:
            self._fit_values(samples, rows)
        order = rows[candidate[rows].argsort(stable=True)]
        kept = [self._weights_of(sums) for sums in self._pair_sums(samples, order)]
        self.keys = torch.from_numpy(np.concatenate([keys for keys, _ in kept])).to(self.keys.device)
        self.weights = torch.from_numpy(np.concatenate([w for _, w in kept])).to(self.weights)

    def _fit_values(self, samples: TrainingSamples, rows: Tensor) -> None:
        """Compute the value of each code of the own fields, and the mean value of each item."""
        for field in self.own:
            positives, total = np.zeros(field.size), np.zeros(field.size)
            flat = np.zeros(self.items * field.size)
            for _, batch in batches(samples, rows):
                pairs = Pairs(batch)
                codes = pairs.codes(field.name)
                labels = batch.labels.double().cpu().numpy()[pairs.sample]
                total += np.bincount(codes, minlength=field.size)
                positives += np.bincount(codes, weights=labels, minlength=field.size)
                flat += np.bincount(pairs.codes(ITEM_ID) * np.int64(field.size) + codes, minlength=len(flat))
            mean = positives.sum() / max(total.sum(), 1)
            value = (positives + mean) / (total + 1) - mean
            by_item = flat.reshape(self.items, field.size)
            mean_of_item = (by_item @ value) / (by_item.sum(1) + _MEAN_STRENGTH)
            spread = (by_item * (value - mean_of_item[:, None]) ** 2).sum() / max(total.sum(), 1)
            self.scale[1 + self.own.index(field)] = float(spread)
            getattr(self, f"value_{field.name}").copy_(torch.from_numpy(value))
            getattr(self, f"mean_{field.name}").copy_(torch.from_numpy(mean_of_item))

    def _weights_of(self, pairs: PairSums) -> tuple[np.ndarray, np.ndarray]:
        """Return keys and weights ``(k, channels)`` of the strongest neighbours of each candidate, ascending by key."""
        candidate = pairs.keys // self.items
        with_label, outcome, squared = np.split(pairs.sums, 3, axis=1)
        rate = self.rates.double().cpu().numpy()[candidate]
        covariance = with_label - rate[:, None] * outcome
        shrunken = squared + self.config.shrinkage * self.scale.double().cpu().numpy()
        weights = np.divide(covariance, shrunken, out=np.zeros_like(covariance), where=shrunken > 0)
        gain = (covariance * weights).sum(1)
        order = np.lexsort((-gain, candidate))
        rank = np.arange(len(order)) - np.searchsorted(candidate, candidate)
        kept = np.sort(order[rank < self.config.neighbors])
        return pairs.keys[kept], weights[kept]

    def _pair_sums(self, samples: TrainingSamples, order: Tensor) -> Iterator[PairSums]:
        """Yield the sums of all pairs of candidate and item of the history, ascending by key.

        Args:
            samples: training samples.
            order: ``(m,)`` samples in the order of their candidates, so that only one candidate's pairs are unfinished.
        """
        pending = None
        for _, batch in batches(samples, order):
            pairs = Pairs(batch)
            candidate = batch.candidate[ITEM_ID].cpu().numpy().astype(np.int64)
            outcomes = self._outcomes(batch).double().cpu().numpy()[pairs.rows]
            labels = batch.labels.double().cpu().numpy()[pairs.sample]
            sums = PairSums.of(
                candidate[pairs.sample] * self.items + pairs.codes(ITEM_ID),
                np.concatenate([outcomes * labels[:, None], outcomes, outcomes**2], axis=1),
            )
            if pending is not None:
                sums = PairSums.of(
                    np.concatenate([pending.keys, sums.keys]), np.concatenate([pending.sums, sums.sums])
                )
            finished = int(np.searchsorted(sums.keys, candidate[-1] * self.items))
            yield PairSums(sums.keys[:finished], sums.sums[:finished])
            pending = PairSums(sums.keys[finished:], sums.sums[finished:])
        if pending is not None:
            yield pending
