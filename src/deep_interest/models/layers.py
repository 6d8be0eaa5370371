"""Layers that several models share: row-sparse embeddings, activations, MLP, jagged pooling."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, pairwise
from types import MappingProxyType
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_interest.logs.encoding import GOODS
from deep_interest.logs.schema import FeatureSchema, Field, Group, Pooling
from deep_interest.models.batch import Cells
from deep_interest.ops.activations import dice, prelu
from deep_interest.ops.bounds import check_codes
from deep_interest.ops.embedding import lookup
from deep_interest.ops.jagged import Jagged
from deep_interest.ops.mlp import Layer, Layers, mlp
from deep_interest.ops.segments import segment_sum

NO_CELLS: Cells = MappingProxyType({})
Activation = Literal["dice", "prelu", "relu", "sigmoid"]


class Table(nn.Embedding):
    """Vectors of a field's codes; its gradients are row-sparse.

    Args:
        field: whose codes.
        dim: width.
        groups: the feature groups whose codes look it up; regularisers count their occurrences.
        std: standard deviation of the initial values.
        keep_top: codes that keep a row of their own, see `keep_most_frequent`; 0 for all.
    """

    def __init__(
        self, field: Field, dim: int, *, groups: Sequence[Group], std: float, keep_top: int = 0
    ) -> None:
        super().__init__(field.size, dim, sparse=True)
        self.field, self.groups, self.keep_top = field.name, tuple(groups), keep_top
        if keep_top:
            self.register_buffer("kept", torch.ones(field.size, dtype=torch.bool))
        nn.init.normal_(self.weight, std=std) if std else nn.init.zeros_(self.weight)

    def forward(self, codes: Tensor) -> Tensor:
        return lookup([self.weight], [{0: self.rows_of(codes)}], names=[self.field])[0]

    def rows_of(self, codes: Tensor) -> Tensor:
        """The rows that codes look up: their own, or the unknown's. Shape: ``(n,) -> (n,)``.

        Raises:
            InputError: a code on the CPU is outside the table.
        """
        if not self.keep_top:
            return codes
        if codes.is_cpu:
            check_codes(codes.numpy(), self.num_embeddings, self.field)
        return codes * self.kept[codes]

    def keep_most_frequent(self, occurrences: Tensor) -> None:
        """Let all codes but the ``keep_top`` most frequent share the row of the unknown (DIN §6.5, filter).

        Args:
            occurrences: ``(rows,)`` of each code in training; of equal ones the lower code is kept.
        """
        order = occurrences.argsort(descending=True, stable=True)
        self.kept.zero_()[order[: self.keep_top]] = True


class Embeddings(nn.Module):
    """One table for each feature group; candidate and behaviours share theirs. Gradients are row-sparse.

    The vectors of a multi-hot field's values are pooled, so that every field is one vector (DIN §4.1).

    Args:
        schema: the feature groups.
        dim: width of every table.
        std: standard deviation of the initial values.
        keep_top: goods that keep a row of their own; 0 for all.
    """

    def __init__(self, schema: FeatureSchema, *, dim: int, std: float = 0.01, keep_top: int = 0) -> None:
        super().__init__()
        self.tables = nn.ModuleDict(
            {
                name: Table(
                    Field(name=name, size=size),
                    dim,
                    groups=schema.groups_of(name),
                    std=std,
                    keep_top=keep_top if name == GOODS else 0,
                )
                for name, size in schema.tables.items()
            }
        )

    def forward(
        self, codes: Mapping[str, Tensor], fields: Sequence[Field], cells: Cells = NO_CELLS
    ) -> Tensor:
        """Look up and concatenate the fields' vectors.

        Args:
            codes: ``{field: (n,)}``, of a multi-hot field the numbers of cells.
            fields: which, in their order.
            cells: of the multi-hot fields.

        Returns:
            ``(n, len(fields) * dim)``.
        """
        return self.together((codes, fields), cells=cells)[0]

    def together(
        self, *groups: tuple[Mapping[str, Tensor], Sequence[Field]], cells: Cells = NO_CELLS
    ) -> list[Tensor]:
        """As ``forward`` for each group of codes; one operation, whose gradient has each row once."""
        parts = [_parts(codes, fields, cells) for codes, fields in groups]
        found = iter(self._rows([part.codes for of_group in parts for part in of_group]))
        return [_side_by_side([part.pooled(next(found)) for part in of_group]) for of_group in parts]

    def _rows(self, groups: Sequence[Mapping[str, Tensor]]) -> list[Tensor]:
        names = list(dict.fromkeys(name for group in groups for name in group))
        tables: list[Table] = [self.tables[name] for name in names]
        place = {name: number for number, name in enumerate(names)}
        rows = [
            {place[name]: self.tables[name].rows_of(codes) for name, codes in group.items()}
            for group in groups
        ]
        return lookup([table.weight for table in tables], rows, names=names)


class _Part(NamedTuple):
    """Fields of one lookup: neighbouring one-hot fields, or the values of a multi-hot one with its cells."""

    codes: dict[str, Tensor]
    cells: Jagged | None = None
    pooling: Pooling | None = None

    def pooled(self, rows: Tensor) -> Tensor:
        return rows if self.cells is None else pool(rows, self.cells, self.pooling)


def _parts(codes: Mapping[str, Tensor], fields: Sequence[Field], cells: Cells) -> list[_Part]:
    if not cells:
        return [_Part({field.name: codes[field.name] for field in fields})]
    parts = []
    for multi_hot, neighbours in groupby(fields, key=lambda field: field.pooling is not None):
        if multi_hot:
            for field in neighbours:
                values, runs = cells[field.name].of(codes[field.name], field.name)
                parts.append(_Part({field.name: values}, runs, field.pooling))
        else:
            parts.append(_Part({field.name: codes[field.name] for field in neighbours}))
    return parts


def _side_by_side(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


class Dice(nn.Module):
    """Data-adaptive activation (DIN eq. 9): PReLU whose bend follows the input's distribution.

    Args:
        channels: size of the last dimension.
        eps: added to the variance.

    Shape: ``(N, channels) -> (N, channels)``; statistics are over the N rows in training, moving averages in evaluation.
    """

    def __init__(self, channels: int, *, eps: float = 1e-8) -> None:
        super().__init__()
        self.standardize = nn.BatchNorm1d(channels, eps=eps, affine=False)
        self.alpha = nn.Parameter(torch.zeros(channels))

    def forward(self, s: Tensor) -> Tensor:
        if self.training and len(s) < 2:  # one row is its own mean: (s - E[s]) / sqrt(Var[s] + eps) = 0
            return (s + self.alpha * s) / 2
        norm = self.standardize
        return dice(
            s, self.alpha, norm.running_mean, norm.running_var, training=self.training, momentum=norm.momentum, eps=norm.eps
        )  # fmt: skip


class PReLU(nn.PReLU):
    """PReLU with a slope for each channel (DIN eq. 8).

    Shape: ``(N, channels) -> (N, channels)``.
    """

    def forward(self, x: Tensor) -> Tensor:
        return prelu(x, self.weight)


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation with the same bits for any number of threads; a batch of one row, which has no variance, takes the moving averages.

    torch's own operation partitions the rows by the number of threads, and so rounds its sums differently. Here all sums over
    the rows are column-wise reductions, which torch partitions by column.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Shape: ``(N, channels) -> (N, channels)``."""
        if not self.training or len(x) < 2:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        variance, mean = torch.var_mean(x, 0, correction=0)
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * (len(x) / (len(x) - 1)), self.momentum)
            self.num_batches_tracked += 1
        return torch.addcmul(self.bias, (x - mean) * (variance + self.eps).rsqrt(), self.weight)


class LayerNorm(nn.LayerNorm):
    """Layer normalisation with the same bits for any number of threads.

    torch's own gradient of weight and bias partitions the rows by the number of threads; here it is a column-wise sum.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Shape: ``(N, width) -> (N, width)``."""
        return torch.addcmul(self.bias, F.layer_norm(x, self.normalized_shape, eps=self.eps), self.weight)


class MLP(nn.Module):
    """Fully connected layers, each with an activation, and a last linear one without.

    Args:
        inputs: width of the input.
        hidden: widths of the hidden layers.
        outputs: width of the last layer.
        activation: of the hidden layers.
        batch_norm: normalise before each activation.
    """

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
        return stages(self.layers)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: ``(n, inputs) -> (n, outputs)``."""
        return through(self._stages, x)


def stages(modules: Iterable[nn.Module]) -> list[Layers | nn.Module]:
    """Linear layers and what follows them, in their order: neighbours that `ops.mlp` knows are one operation, its `Layers`."""
    found: list[Layers | nn.Module] = []
    for known, neighbours in groupby(_with_activations(modules), key=lambda part: isinstance(part, Layer)):
        parts = list(neighbours)
        found += [Layers(parts)] if known else parts
    return found


def _with_activations(modules: Iterable[nn.Module]) -> Iterator[Layer | nn.Module]:
    """Each linear layer with the activation after it, if `ops.mlp` knows that."""
    left = list(modules)
    while left:
        module = left.pop(0)
        if not isinstance(module, nn.Linear):
            yield module
            continue
        activation = left.pop(0) if left and type(left[0]) in _KNOWN else None
        slope = activation.weight if isinstance(activation, PReLU) else None
        yield Layer(module.weight, module.bias, _KNOWN.get(type(activation), "linear"), slope)


def through(parts: Iterable[Layers | nn.Module], x: Tensor) -> Tensor:
    """Apply `stages`."""
    for part in parts:
        x = mlp(x, part) if isinstance(part, Layers) else part(x)
    return x


def make_activation(name: Activation, channels: int) -> nn.Module:
    """An activation over ``channels``; PReLU and Dice learn their slope per channel (DIN eq. 8 and 9)."""
    if name == "dice":
        return Dice(channels)
    if name == "prelu":
        return PReLU(channels)
    return {"relu": nn.ReLU, "sigmoid": nn.Sigmoid}[name]()


_KNOWN = {PReLU: "prelu", nn.ReLU: "relu", nn.Sigmoid: "sigmoid"}


def pool(values: Tensor, runs: Jagged, how: Pooling) -> Tensor:
    """Sum or mean of each run's rows; 0 for an empty one. Shape: ``(N, D) -> (B, D)``."""
    sums = segment_sum(values, runs)
    return sums if how == "sum" else mean_by_length(sums, runs.lengths)


def mean_by_length(sums: Tensor, lengths: Tensor) -> Tensor:
    """Divide each row's sum by its length; an empty history stays 0.

    Shape: ``sums (B, D)``, ``lengths (B,)`` -> ``(B, D)``.
    """
    return sums / lengths.clamp(min=1).unsqueeze(-1).to(sums.dtype)


def embedding_tables(module: nn.Module) -> list[Table]:
    """The embedding tables of a model, whose gradients are row-sparse."""
    return [child for child in module.modules() if isinstance(child, Table)]


def leans_on_torch(module: nn.Module) -> bool:
    """Whether a good part of a model's work is in PyTorch's own operations, whose bits do not depend on the number of threads.

    Transformers (BST, DMIN) are not among them: MKL splits the product that is the gradient of a linear layer's weight by the number of
    threads on some CPUs, so PyTorch has one thread in their steps.
    """
    kinds = (BatchNorm, nn.LSTM)
    return any(isinstance(child, kinds) for child in module.modules())
