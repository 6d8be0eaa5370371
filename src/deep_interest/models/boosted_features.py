"""The inputs of `Boosted`: named columns of rates, counts, matches and codes of a batch."""

from collections.abc import Iterator, Mapping

import numpy as np

from deep_interest.logs.schema import GROUPS, FeatureSchema, Field
from deep_interest.logs.standardised import LIMIT, decode
from deep_interest.models.batch import Batch
from deep_interest.models.history_counts import (
    MOST_COUNTED_CODES,
    MOST_PLAIN_CODES,
    WINDOWS,
    Pairs,
    Rates,
    candidate_fields,
    categorical,
    one_hot,
    values_by_row,
)
from deep_interest.ops.bounds import check_codes

Columns = dict[str, np.ndarray]
MISSING = -1.0  # below all rates, codes and ages; scikit-learn cannot bin a column that is NaN everywhere
MISSING_NUMBER = -LIMIT - 1.0  # of a dense field, below all its values


def rate_sizes(schema: FeatureSchema) -> dict[str, int]:
    """Return the number of codes of each table of rates, by key.

    The keys are ``<group>_<field>`` for candidate, profile and context, ``history_by_<own>`` for the codes of an own field in the
    history, and ``<shared>_by_<own>`` for its codes in behaviours that match the candidate in a shared field. Those of a
    further sequence begin with ``<sequence>_``. Dense fields have no rates.
    """
    sizes = {
        f"{group}_{field.name}": field.size for group, field in candidate_fields(schema) if not field.dense
    }
    for sequence, part in _sequences(schema):
        for own in one_hot(part.own):
            for key in ("history", *(field.name for field in categorical(part.shared))):
                sizes[_key(sequence, f"{key}_by_{own.name}")] = own.size
    return sizes


def count_labels(rates: Mapping[str, Rates], batch: Batch, schema: FeatureSchema, folds: np.ndarray) -> None:
    """Add a batch of training samples to the rates.

    Args:
        rates: tables to add to, with the keys of `rate_sizes`.
        batch: training samples.
        schema: feature groups.
        folds: ``(B,)`` fold of each sample.
    """
    _check_codes(batch, schema)
    labels = batch.labels.double().cpu().numpy()
    for group, field in candidate_fields(schema):
        if field.dense:
            continue
        rows, codes = values_by_row(batch, group, field)
        rates[f"{group}_{field.name}"].add(folds[rows], codes, labels[rows])
    for sequence, part in _sequences(schema):
        pairs = Pairs(_batch_of(batch, sequence))
        chosen = {"history": np.arange(len(pairs.sample))}
        chosen |= {field.name: np.flatnonzero(pairs.matches(field)) for field in categorical(part.shared)}
        for own in one_hot(part.own):
            codes = pairs.codes(own.name)
            for key, rows in chosen.items():
                samples = pairs.sample[rows]
                table = rates[_key(sequence, f"{key}_by_{own.name}")]
                table.add(folds[samples], codes[rows], labels[samples])


def _check_codes(batch: Batch, schema: FeatureSchema) -> None:
    """Check that every code of a field that is not multi-hot is one of the codes of its field.

    Raises:
        InputError: a code is out of range.
    """
    for sequence, part in _sequences(schema):
        chosen = _batch_of(batch, sequence)
        for group in GROUPS:
            for field in part.fields(group):
                if field.pooling is None:
                    check_codes(chosen.codes(group, field.name).cpu().numpy(), field.codes, field.name)


def _sequences(schema: FeatureSchema) -> Iterator[tuple[str, FeatureSchema]]:
    """Yield the history, under the empty name, and further sequences, each with its own schema."""
    yield "", schema
    for name in schema.sequences:
        yield name, schema.of_sequence(name)


def _rates_of(rates: Mapping[str, np.ndarray], sequence: str) -> dict[str, np.ndarray]:
    """Return the rates of a sequence, by their keys without its name."""
    prefix = _key(sequence, "")
    return {key.removeprefix(prefix): values for key, values in rates.items() if key.startswith(prefix)}


def _batch_of(batch: Batch, sequence: str) -> Batch:
    return batch.sequences[sequence] if sequence else batch


def _key(sequence: str, key: str) -> str:
    return f"{sequence}_{key}" if sequence else key


class BoostedFeatures:
    """Compute the columns of a batch from rates that exclude one fold each.

    Args:
        schema: feature groups.
        rates: ``{key: (folds, size)}`` by `rate_sizes`, one row of rates per fold.
        counts: ``{field: (size,)}`` number of training samples by code of the candidate's fields.
    """

    def __init__(
        self, schema: FeatureSchema, rates: Mapping[str, np.ndarray], counts: Mapping[str, np.ndarray]
    ) -> None:
        self.schema, self.rates, self.counts = schema, rates, counts

    def __call__(self, batch: Batch, folds: np.ndarray) -> Columns:
        """Return the columns by name, ``(B,)`` each; those of a further sequence begin with its name.

        Args:
            batch: samples.
            folds: ``(B,)`` row of the rates to use for each sample.
        """
        _check_codes(batch, self.schema)
        columns = self._sample_columns(batch, folds)
        for sequence, schema in _sequences(self.schema):
            pairs = Pairs(_batch_of(batch, sequence))
            rates = _rates_of(self.rates, sequence)
            found = {"history length": pairs.lengths} | _history_columns(pairs, schema, rates, folds)
            for field in categorical(schema.shared):
                found |= _match_columns(pairs, field, schema, rates, folds)
            columns |= {f"{sequence}: {name}" if sequence else name: column for name, column in found.items()}
        return columns

    def _sample_columns(self, batch: Batch, folds: np.ndarray) -> Columns:
        """Rates and counts of the candidate, rates or codes of profile and context, and the numbers of dense fields."""
        columns: Columns = {}
        for group, field in candidate_fields(self.schema):
            rows, codes = values_by_row(batch, group, field)
            name = f"{group} {field.name}"
            if field.dense:
                columns[f"{name}: number"] = decode(codes, missing=MISSING_NUMBER)
                continue
            if group != "item" and field.pooling is None and field.size <= MOST_PLAIN_CODES:
                columns[f"{name}: code"] = codes
                continue
            rates = self.rates[f"{group}_{field.name}"][folds[rows], codes]
            columns[f"{name}: rate"] = _mean(rows, rates, batch.size)
            if group == "item":
                columns[f"{name}: samples"] = _mean(rows, self.counts[field.name][codes], batch.size)
        return columns


def _history_columns(
    pairs: Pairs, schema: FeatureSchema, rates: Mapping[str, np.ndarray], folds: np.ndarray
) -> Columns:
    """The newest behaviour's own codes and numbers, the mean rate of the own codes in the history, and the mean of the numbers."""
    columns: Columns = {}
    for field in (field for field in schema.behavior if field.dense):
        codes = pairs.codes(field.name)
        numbers, present = decode(codes), pairs.total((codes > 0).astype(np.float64))
        columns[f"newest behaviour: {field.name}"] = _at(
            decode(codes, missing=MISSING_NUMBER), pairs.newest, missing=MISSING_NUMBER
        )
        columns[f"history: mean of {field.name}"] = _ratio(
            pairs.total(numbers), present, missing=MISSING_NUMBER
        )
    for own in one_hot(schema.own):
        codes = pairs.codes(own.name)
        rate = rates[f"history_by_{own.name}"][folds[pairs.sample], codes]
        columns[f"newest behaviour: {own.name}"] = _at(codes, pairs.newest)
        columns[f"history: mean rate of {own.name}"] = _ratio(pairs.total(rate), pairs.lengths)
    return columns


def _match_columns(
    pairs: Pairs, field: Field, schema: FeatureSchema, rates: Mapping[str, np.ndarray], folds: np.ndarray
) -> Columns:
    """Matches with the history in a shared field: by recency, by own code, and of the newest one."""
    matches, name = pairs.matches(field), f"matches in {field.name}"
    total, newest = pairs.total(matches), pairs.newest_match(matches)
    columns = {f"{name}: all": total, f"{name}: age of newest": _at(pairs.age, newest)}
    for window in WINDOWS:
        columns[f"{name}: newest {window}"] = pairs.total(matches * (pairs.age < window))
    for own in (own for own in schema.own if own.dense):
        numbers = decode(pairs.codes(own.name), missing=MISSING_NUMBER)
        columns[f"{name}: {own.name} of newest"] = _at(numbers, newest, missing=MISSING_NUMBER)
    for own in one_hot(schema.own):
        codes = pairs.codes(own.name)
        rate = rates[f"{field.name}_by_{own.name}"][folds[pairs.sample], codes]
        columns[f"{name}: {own.name} of newest"] = _at(codes, newest)
        columns[f"{name}: mean rate of {own.name}"] = _ratio(pairs.total(matches * rate), total)
        if own.size <= MOST_COUNTED_CODES:
            for code in range(1, own.size):
                columns[f"{name}: {own.name} is {code}"] = pairs.total(matches * (codes == code))
    return columns


def _mean(rows: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """Return the mean of the values of each row, ``(size,)``; every row has at least one value."""
    return np.bincount(rows, weights=values, minlength=size) / np.bincount(rows, minlength=size)


def _ratio(sums: np.ndarray, totals: np.ndarray, *, missing: float = MISSING) -> np.ndarray:
    """Divide; ``missing`` where the divisor is 0."""
    return np.divide(sums, totals, out=np.full(len(sums), missing), where=totals > 0)


def _at(values: np.ndarray, rows: np.ndarray, *, missing: float = MISSING) -> np.ndarray:
    """Return ``values[rows]``; ``missing`` where the row is -1."""
    found = np.full(len(rows), missing)
    found[rows >= 0] = values[rows[rows >= 0]]
    return found
