"""Layers that several models share: embeddings with row-sparse gradients, activations, normalisation, MLP, pooling."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, pairwise
from types import MappingProxyType
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_interest.logs.encoding import ITEM_ID
from deep_interest.logs.schema import FeatureSchema, Field, Group, Pooling
from deep_interest.models.batch import ValueSetsByField
from deep_interest.ops.activations import dice, prelu
from deep_interest.ops.bounds import check_codes
from deep_interest.ops.embedding import lookup
from deep_interest.ops.gradients import GradientAccumulator
from deep_interest.ops.jagged import Jagged
from deep_interest.ops.mlp import Layer, LayerActivation, Layers, mlp
from deep_interest.ops.segments import segment_sum

NO_VALUE_SETS: ValueSetsByField = MappingProxyType({})
Activation = Literal["dice", "prelu", "relu", "sigmoid"]


class Table(nn.Embedding):
    """Embedding table of a field, with row-sparse gradients.

    Args:
        field: field whose codes are the rows.
        dim: embedding width.
        groups: feature groups that use the table; regularisers count the occurrences of codes in them.
        std: standard deviation of the initial embeddings.
        keep_top: number of codes that keep their own row, see `keep_most_frequent`; 0 for all.
    """

    kept: Tensor

    accumulator: GradientAccumulator | None = None  # during a training step, see `Optimizer.accumulate`

    def __init__(
        self, field: Field, dim: int, *, groups: Sequence[Group], std: float, keep_top: int = 0
    ) -> None:
        super().__init__(field.size, dim, sparse=True)
        self.field, self.groups, self.keep_top = field.name, tuple(groups), keep_top
        if keep_top:
            self.register_buffer("kept", torch.ones(field.size, dtype=torch.bool))
        nn.init.normal_(self.weight, std=std) if std else nn.init.zeros_(self.weight)

    def forward(self, codes: Tensor) -> Tensor:
        groups = [{0: self.rows_of(codes)}]
        return lookup([self.weight], groups, names=[self.field], accumulator=self.accumulator)[0]

    def rows_of(self, codes: Tensor) -> Tensor:
        """Return the row of each code: its own, or the unknown row. Shape: ``(n,) -> (n,)``.

        Raises:
            InputError: a code on the CPU is outside the table.
        """
        if not self.keep_top:
            return codes
        if codes.is_cpu:
            check_codes(codes.numpy(), self.num_embeddings, self.field)
        return codes * self.kept[codes]

    def keep_most_frequent(self, occurrences: Tensor) -> None:
        """Make all codes except the ``keep_top`` most frequent share the unknown row (DIN §6.5, filter).

        Args:
            occurrences: ``(rows,)`` number of occurrences of each code in training; ties keep the lower code.
        """
        order = occurrences.argsort(descending=True, stable=True)
        self.kept.zero_()[order[: self.keep_top]] = True


class Embeddings(nn.Module):
    """One embedding table per field; candidate and behaviours share tables. Gradients are row-sparse.

    The vectors of the values of a multi-hot field are pooled, so that every field is one vector (DIN §4.1).

    Args:
        schema: feature groups.
        dim: embedding width of every table.
        std: standard deviation of the initial embeddings.
        keep_top: number of items that keep their own row; 0 for all.
    """

    accumulator: GradientAccumulator | None = None  # during a training step, see `Optimizer.accumulate`

    def __init__(self, schema: FeatureSchema, *, dim: int, std: float = 0.01, keep_top: int = 0) -> None:
        super().__init__()
        self.tables = nn.ModuleDict(
            {
                name: Table(
                    Field(name=name, size=size),
                    dim,
                    groups=schema.groups_of(name),
                    std=std,
                    keep_top=keep_top if name == ITEM_ID else 0,
                )
                for name, size in schema.tables.items()
            }
        )

    def forward(
        self,
        codes: Mapping[str, Tensor],
        fields: Sequence[Field],
        value_sets: ValueSetsByField = NO_VALUE_SETS,
    ) -> Tensor:
        """Look up and concatenate the fields' vectors.

        Args:
            codes: ``{field: (n,)}``; for a multi-hot field, indices of value sets.
            fields: fields to look up, in order.
            value_sets: value sets of the multi-hot fields.

        Returns:
            ``(n, len(fields) * dim)``.
        """
        return self.lookup_groups((codes, fields), value_sets=value_sets)[0]

    def lookup_groups(
        self,
        *groups: tuple[Mapping[str, Tensor], Sequence[Field]],
        value_sets: ValueSetsByField = NO_VALUE_SETS,
    ) -> list[Tensor]:
        """Apply ``forward`` to several groups of codes in one operation, so that the gradient contains each row once."""
        parts = [_parts(codes, fields, value_sets) for codes, fields in groups]
        rows = iter(self._rows([part.codes for group in parts for part in group]))
        return [_concatenate([part.pooled(next(rows)) for part in group]) for group in parts]

    def _rows(self, groups: Sequence[Mapping[str, Tensor]]) -> list[Tensor]:
        names = list(dict.fromkeys(name for group in groups for name in group))
        tables = {name: self._table(name) for name in names}
        index = {name: position for position, name in enumerate(names)}
        rows = [
            {index[name]: tables[name].rows_of(codes) for name, codes in group.items()} for group in groups
        ]
        return lookup(
            [table.weight for table in tables.values()], rows, names=names, accumulator=self.accumulator
        )

    def _table(self, name: str) -> Table:
        table = self.tables[name]
        assert isinstance(table, Table)
        return table


class _Part(NamedTuple):
    """Fields of one lookup: consecutive one-hot fields, or one multi-hot field with its value sets."""

    codes: dict[str, Tensor]
    value_sets: Jagged | None = None
    pooling: Pooling | None = None

    def pooled(self, rows: Tensor) -> Tensor:
        if self.value_sets is None or self.pooling is None:
            return rows
        return pool(rows, self.value_sets, self.pooling)


def _parts(codes: Mapping[str, Tensor], fields: Sequence[Field], value_sets: ValueSetsByField) -> list[_Part]:
    if not value_sets:
        return [_Part({field.name: codes[field.name] for field in fields})]
    parts = []
    for multi_hot, neighbours in groupby(fields, key=lambda field: field.pooling is not None):
        if multi_hot:
            for field in neighbours:
                values, runs = value_sets[field.name].of(codes[field.name], field.name)
                parts.append(_Part({field.name: values}, runs, field.pooling))
        else:
            parts.append(_Part({field.name: codes[field.name] for field in neighbours}))
    return parts


def _concatenate(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


class Dice(nn.Module):
    """Data-adaptive activation (DIN eq. 9): a PReLU whose rectification point follows the distribution of the input.

    Args:
        channels: size of the last dimension.
        eps: added to the variance.

    Shape: ``(N, channels) -> (N, channels)``; statistics are those of the N rows in training, moving averages in evaluation.
    """

    def __init__(self, channels: int, *, eps: float = 1e-8) -> None:
        super().__init__()
        self.standardize = nn.BatchNorm1d(channels, eps=eps, affine=False)
        self.alpha = nn.Parameter(torch.zeros(channels))

    def forward(self, s: Tensor) -> Tensor:
        if self.training and len(s) < 2:  # one row is its own mean: (s - E[s]) / sqrt(Var[s] + eps) = 0
            return (s + self.alpha * s) / 2
        norm = self.standardize
        assert norm.running_mean is not None and norm.running_var is not None and norm.momentum is not None
        return dice(
            s, self.alpha, norm.running_mean, norm.running_var, training=self.training, momentum=norm.momentum, eps=norm.eps
        )  # fmt: skip


class PReLU(nn.PReLU):
    """PReLU with a slope per channel (DIN eq. 8).

    Shape: ``(N, channels) -> (N, channels)``.
    """

    def forward(self, x: Tensor) -> Tensor:
        return prelu(x, self.weight)


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation that is bit-identical for any number of threads.

    torch's own operation partitions rows by the number of threads, so that rounding depends on it. Here all sums over rows are
    column-wise reductions, which torch partitions by column. A batch of one row has no variance and uses the moving averages.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Shape: ``(N, channels) -> (N, channels)``."""
        if not self.training or len(x) < 2:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        variance, mean = torch.var_mean(x, 0, correction=0)
        assert self.running_mean is not None and self.running_var is not None and self.momentum is not None
        assert self.num_batches_tracked is not None
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * (len(x) / (len(x) - 1)), self.momentum)
            self.num_batches_tracked += 1
        return torch.addcmul(self.bias, (x - mean) * (variance + self.eps).rsqrt(), self.weight)


class LayerNorm(nn.LayerNorm):
    """Layer normalisation that is bit-identical for any number of threads.

    torch's own gradient of weight and bias partitions rows by the number of threads; here it is a column-wise sum.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Shape: ``(N, width) -> (N, width)``."""
        return torch.addcmul(self.bias, F.layer_norm(x, self.normalized_shape, eps=self.eps), self.weight)


class MLP(nn.Module):
    """Fully connected hidden layers with an activation each, and a linear output layer.

    Args:
        inputs: width of the input.
        hidden: widths of the hidden layers.
        outputs: width of the output.
        activation: activation of the hidden layers.
        batch_norm: whether batch normalisation precedes each activation.
    """

    accumulator: GradientAccumulator | None = None  # during a training step, see `Optimizer.accumulate`

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        *,
        outputs: int = 1,
        activation: Activation = "prelu",
        batch_norm: bool = False,
    ) -> None:
        super().__init__()
        widths = [inputs, *hidden]
        layers: list[nn.Module] = []
        for width, next_width in pairwise(widths):
            layers += [nn.Linear(width, next_width), *([BatchNorm(next_width)] if batch_norm else [])]
            layers.append(make_activation(activation, next_width))
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], outputs))

    @cached_property
    def _stages(self) -> list[Layers | nn.Module]:
        return fuse_layers(self.layers)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: ``(n, inputs) -> (n, outputs)``."""
        return apply_stages(self._stages, x, self.accumulator)


def fuse_layers(modules: Iterable[nn.Module]) -> list[Layers | nn.Module]:
    """Group consecutive linear layers and activations that `ops.mlp` supports into `Layers`; keep other modules."""
    stages: list[Layers | nn.Module] = []
    fused: list[Layer] = []
    for part in _with_activations(modules):
        if isinstance(part, Layer):
            fused.append(part)
            continue
        if fused:
            stages.append(Layers(fused))
        stages.append(part)
        fused = []
    return [*stages, Layers(fused)] if fused else stages


def _with_activations(modules: Iterable[nn.Module]) -> Iterator[Layer | nn.Module]:
    """Yield each linear layer with the activation that follows it, if `ops.mlp` supports that."""
    remaining = list(modules)
    while remaining:
        module = remaining.pop(0)
        if not isinstance(module, nn.Linear):
            yield module
            continue
        activation = remaining.pop(0) if remaining and type(remaining[0]) in _FUSED_ACTIVATIONS else None
        slope = activation.weight if isinstance(activation, PReLU) else None
        yield Layer(module.weight, module.bias, _FUSED_ACTIVATIONS.get(type(activation), "linear"), slope)


def apply_stages(
    stages: Iterable[Layers | nn.Module], x: Tensor, accumulator: GradientAccumulator | None = None
) -> Tensor:
    """Apply the result of `fuse_layers`."""
    for stage in stages:
        x = mlp(x, stage, accumulator=accumulator) if isinstance(stage, Layers) else stage(x)
    return x


def make_activation(name: Activation, channels: int) -> nn.Module:
    """Build an activation; PReLU and Dice learn a slope per channel (DIN eq. 8 and 9)."""
    if name == "dice":
        return Dice(channels)
    if name == "prelu":
        return PReLU(channels)
    return {"relu": nn.ReLU, "sigmoid": nn.Sigmoid}[name]()


_FUSED_ACTIVATIONS: dict[type[nn.Module] | type[None], LayerActivation] = {
    PReLU: "prelu",
    nn.ReLU: "relu",
    nn.Sigmoid: "sigmoid",
}


def pool(values: Tensor, segments: Jagged, pooling: Pooling) -> Tensor:
    """Return the sum or mean of the rows of each segment; 0 for an empty one. Shape: ``(N, D) -> (B, D)``."""
    sums = segment_sum(values, segments)
    return sums if pooling == "sum" else mean_by_length(sums, segments.lengths)


def mean_by_length(sums: Tensor, lengths: Tensor) -> Tensor:
    """Divide each sum by the length of its segment; an empty segment stays 0.

    Shape: ``sums (B, D)``, ``lengths (B,)`` -> ``(B, D)``.
    """
    return sums / lengths.clamp(min=1).unsqueeze(-1).to(sums.dtype)


def embedding_tables(module: nn.Module) -> list[Table]:
    """Return the embedding tables of a model; their gradients are row-sparse."""
    return [child for child in module.modules() if isinstance(child, Table)]


def relies_on_torch(module: nn.Module) -> bool:
    """Whether a large part of a model's work is in PyTorch's own operations, whose bits do not depend on the number of threads.

    Transformers (BST, DMIN) are not among them: MKL splits the product that is the gradient of a linear layer's weight by the number of
    threads on some CPUs, so PyTorch has one thread in their steps.
    """
    kinds = (BatchNorm, nn.LSTM)
    return any(isinstance(child, kinds) for child in module.modules())
