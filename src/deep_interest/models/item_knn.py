"""Item kNN: a neighbourhood of items that knows what happened in the history, in closed form."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.closed_form import FittedModel, TrainingSamples, batches, number_of_items
from deep_interest.models.configs.item_knn import ItemKNNConfig
from deep_interest.models.history_counts import Pairs, one_hot
from deep_interest.models.logistic import fit_logistic
from deep_interest.models.outcomes import Outcomes
from deep_interest.models.pair_sums import PairSums, add_by_pairs, look_up
from deep_interest.models.popularity import item_rates
from deep_interest.ops.bounds import check_codes
from deep_interest.ops.segments import expand, segment_sum

SMALLEST_RATE = 1e-6  # if all labels are equal
_PRIOR_STRENGTH = 1.0  # of the coefficients
_FOLDS = 10  # by user; the coefficients are fitted on the first


class ItemKNN(FittedModel):
    """The candidate's rate, moved by each item of the history and by what happened in that behaviour.

    Items are similar by the labels of the training samples, by their occurrence in the same histories, and by their outcomes
    there. For candidate i and item j::

        l_ij  = Σ (y - p_i) / (n + λ)                      over the n training samples of i with j in the history
        c_ij  = n_ij / sqrt((n_i + λ) (n_j + λ))            n_ij: histories whose newest behaviour is i and that contain j, or
                                                            the reverse; n_i: histories whose newest behaviour is i
        x_ijf = Σ o_if o_jf / sqrt((v_if + λ m_f) (v_jf + λ m_f))   over these n_ij; v_if: sum of o_if² over the n_i; m_f: mean

    ``p_i`` is the smoothed rate of i, ``o_jf`` the outcome of a behaviour in own field f (`Outcomes`), λ the shrinkage. Each
    similarity gives a sum over the history h, divided by ``|h|^α``: of ``l_ij``, ``c_ij``, and for each own field of
    ``c_ij o_jf`` and ``x_ijf o_jf``. The logit is a linear function of these sums and of ``logit(p_i)``. Its coefficients are
    a logistic regression on the users of one fold, without whose samples rates and similarities are computed for it. If
    behaviours have no item id, their first one-hot field that the candidate shares takes its place in the similarities.
    """

    Config = ItemKNNConfig
    sized_by_fit = ("label_keys", "label_weights", "keys", "similarities")
    rates: Tensor
    label_keys: Tensor
    label_weights: Tensor
    keys: Tensor
    similarities: Tensor
    coefficients: Tensor

    def __init__(self, config: ItemKNNConfig, schema: FeatureSchema) -> None:
        super().__init__()
        self.config, self.schema = config, schema
        shared = {field.name: field.size for field in one_hot(schema.shared)}
        if not shared:
            raise InputError(
                "features.behavior: item_knn compares the items of the history with the candidate, but behaviours share no one-hot "
                f"field with it; add {ITEM_ID} or another item field, or remove item_knn from models"
            )
        self.field = ITEM_ID if ITEM_ID in shared else next(iter(shared))
        self.items = shared[self.field]
        self.outcomes = Outcomes(one_hot(schema.own), item=self.field, items=self.items)
        own = len(self.outcomes.fields)
        self.register_buffer("rates", torch.zeros(number_of_items(schema, "item_knn")))
        self.register_buffer("label_keys", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("label_weights", torch.zeros(0, 1))
        self.register_buffer("keys", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("similarities", torch.zeros(0, 1 + own))
        self.register_buffer("coefficients", torch.zeros(4 + 2 * own))

    def forward(self, batch: Batch) -> ModelOutput:
        return ModelOutput(self._columns(batch) @ self.coefficients)

    def fit(self, samples: TrainingSamples) -> None:
        """Compute outcomes, then the coefficients with the similarities of all users but a fold, then those of all users."""
        codes = samples.candidates()
        item_ids, candidate = (codes[name].long().cpu() for name in (ITEM_ID, self.field))
        labels = samples.labels.double().cpu()
        held_out = samples.user.cpu() % _FOLDS == 0
        if held_out.all():
            held_out[:] = False
        self.outcomes.fit(samples, torch.nonzero(~held_out).squeeze(1))
        by_label = self._label_sums(samples, candidate, held_out)
        by_behavior, norms = self._behavior_sums(samples, held_out)
        self.coefficients.zero_()
        self.coefficients[1] = 1
        for part, used in enumerate((~held_out, torch.ones_like(held_out))):
            self.rates.copy_(item_rates(item_ids[used], labels[used], items=len(self.rates)))
            rates = item_rates(candidate[used], labels[used], items=self.items)
            self._set_label_weights(by_label, rates.numpy(), part)
            self._set_similarities(by_behavior, norms[part], part)
            if held_out.any() and not used.all():
                self._fit_coefficients(samples, torch.nonzero(held_out).squeeze(1))

    def _fit_coefficients(self, samples: TrainingSamples, rows: Tensor) -> None:
        design = torch.cat([self._columns(batch).double() for _, batch in batches(samples, rows)])
        labels = samples.labels[rows.to(samples.labels.device)].double()
        prior = self.coefficients.double()
        self.coefficients.copy_(fit_logistic(design, labels, towards=prior, strength=_PRIOR_STRENGTH))

    def _columns(self, batch: Batch) -> Tensor:
        """Return 1, the logit of the candidate's rate and the sums over the history, ``(B, 4 + 2 · own fields)``."""
        item_ids, candidate, items = (
            batch.candidate[ITEM_ID], batch.candidate[self.field], batch.history[self.field],
        )  # fmt: skip
        for codes, size, name in (
            (item_ids, len(self.rates), ITEM_ID), (candidate, self.items, self.field), (items, self.items, self.field),
        ):  # fmt: skip
            if codes.is_cpu:
                check_codes(codes.numpy(), size, name)
        pairs = batch.pairs
        i, j = candidate.long()[pairs.segments], expand(items.long(), pairs)
        similar = look_up(self.keys, self.similarities, i * self.items + j)
        similar = similar + look_up(self.keys, self.similarities, j * self.items + i)
        outcomes = expand(self.outcomes(batch), pairs)
        by_label = look_up(self.label_keys, self.label_weights, i * self.items + j)
        terms = [by_label, similar[:, :1], similar[:, :1] * outcomes, similar[:, 1:] * outcomes]
        sums = segment_sum(torch.cat(terms, dim=1), pairs.gathered)
        sums = sums * pairs.lengths.clamp(min=1).unsqueeze(1).to(sums.dtype).pow(-self.config.normalize)
        rate = torch.logit(self.rates[item_ids.long()], eps=SMALLEST_RATE).unsqueeze(1)
        return torch.cat([torch.ones_like(rate), rate, sums], dim=1)

    def _label_sums(self, samples: TrainingSamples, candidate: Tensor, held_out: Tensor) -> PairSums:
        """Return sums by pairs of candidate and item of the history: labels and number of samples.

        There are two columns for the samples that are not held out, and two for all.
        """

        def stream() -> Iterator[PairSums]:
            for rows, batch in batches(samples, candidate.argsort(stable=True)):
                pairs = Pairs(batch)
                keys = candidate[rows].numpy()[pairs.sample] * self.items + pairs.codes(self.field)
                labels = batch.labels.double().cpu().numpy()[pairs.sample]
                values = np.stack([labels, np.ones_like(labels)], axis=1)
                yield PairSums(keys, _used_and_all(values, ~held_out[rows].numpy()[pairs.sample]))

        return self._strongest(stream(), column=3, columns=4)

    def _behavior_sums(self, samples: TrainingSamples, held_out: Tensor) -> tuple[PairSums, list[np.ndarray]]:
        """Return sums by pairs of a history's newest behaviour and an earlier one, and the norms of both items.

        The sums are the number of pairs and of products of their outcomes, of the users that are not held out, then of all. The
        norms are two arrays ``(items, 1 + own fields)`` likewise.
        """
        rows, newest, squares = self._newest_behaviors(samples)
        kept = ~held_out[rows].numpy()
        norms = [self._norms(newest[used], squares[used]) for used in (kept, np.ones_like(kept))]
        order = torch.from_numpy(rows[np.argsort(newest, kind="stable")])

        def stream() -> Iterator[PairSums]:
            for chosen, batch in batches(samples, order):
                pairs = Pairs(batch)
                outcomes = self.outcomes(batch).double().cpu().numpy()[pairs.rows]
                last, items = pairs.newest[pairs.sample], pairs.codes(self.field).astype(np.int64)
                values = np.concatenate([np.ones((len(last), 1)), outcomes * outcomes[last]], axis=1)
                values = _used_and_all(values, ~held_out[chosen].numpy()[pairs.sample])
                earlier = pairs.age > 0
                yield PairSums((items[last] * self.items + items)[earlier], values[earlier])

        channels = 1 + len(self.outcomes.fields)
        return self._strongest(stream(), column=channels, columns=2 * channels), norms

    def _strongest(self, stream: Iterator[PairSums], *, column: int, columns: int) -> PairSums:
        """Add by pairs, and keep the pairs of each first item that are largest in one of the columns."""
        parts = [(np.zeros(0, np.int64), np.zeros((0, columns)))]
        for sums in add_by_pairs(stream, items=self.items):
            rows = sums.largest(sums.sums[:, column], self.config.neighbors, items=self.items)
            parts.append((sums.keys[rows], sums.sums[rows]))
        return PairSums(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _norms(self, newest: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """Return ``n_i + λ`` and ``v_if + λ m_f`` of each item, ``(items, 1 + own fields)``."""
        columns = np.concatenate([np.ones((len(newest), 1)), squares], axis=1)
        totals = [np.bincount(newest, weights=column, minlength=self.items) for column in columns.T]
        means = columns.sum(0) / max(len(newest), 1)
        return np.stack(totals, axis=1) + self.config.shrinkage * means

    def _set_label_weights(self, sums: PairSums, rates: np.ndarray, part: int) -> None:
        positives, number = np.split(sums.sums, 2, axis=1)[part].T
        weights = _divide(positives - rates[sums.keys // self.items] * number, number + self.config.shrinkage)
        self.label_keys = torch.from_numpy(sums.keys).to(self.rates.device)
        self.label_weights = torch.from_numpy(weights[:, None]).to(self.rates)

    def _set_similarities(self, sums: PairSums, norms: np.ndarray, part: int) -> None:
        i, j = np.divmod(sums.keys, self.items)
        similarities = _divide(np.split(sums.sums, 2, axis=1)[part], np.sqrt(norms[i] * norms[j]))
        self.keys = torch.from_numpy(sums.keys).to(self.rates.device)
        self.similarities = torch.from_numpy(similarities).to(self.rates)

    def _newest_behaviors(self, samples: TrainingSamples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a sample of each history with behaviours, the item of its newest one, and its squared outcomes ``(m, own fields)``.

        Samples that share a history in a batch count once.
        """
        parts = []
        for rows, batch in batches(samples, torch.arange(len(samples))):
            pairs = Pairs(batch)
            first = np.ones(batch.size, bool)
            if batch.owner is not None:
                first[1:] = np.diff(batch.owner.cpu().numpy()) > 0
            chosen = np.flatnonzero(first & (pairs.lengths > 0))
            newest = pairs.newest[chosen]
            outcomes = self.outcomes(batch).double().cpu().numpy()[pairs.rows[newest]]
            parts.append((rows.numpy()[chosen], pairs.codes(self.field)[newest], outcomes**2))
        samples_of, items, squares = (np.concatenate(part) for part in zip(*parts, strict=True))
        return samples_of, items, squares


def _divide(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Divide; 0 where the divisor is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def _used_and_all(values: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Return values of the used rows, 0 elsewhere, next to all values. Shape: ``(n, k), (n,) -> (n, 2 k)``."""
    return np.concatenate([values * used[:, None], values], axis=1)
