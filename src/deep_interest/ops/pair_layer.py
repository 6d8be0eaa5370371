"""The first layer over pairs of a behaviour and its candidate, factorised."""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.compiled import arrays, compiled, fits, run, share
from deep_interest.ops.runs import Runs


def pair_layer(
    values: Tensor, queries: Tensor, per_value: Tensor, per_run: Tensor, weight: Tensor, runs: Runs
) -> Tensor:
    """``W (e∘v) + a + c`` of each row e with its run's query v, a term a of its own and the run's c; nothing is concatenated.

    Args:
        values: ``(N, D)`` rows e.
        queries: ``(B, D)`` the runs' v.
        per_value: ``(N, H)`` the rows' a.
        per_run: ``(B, H)`` the runs' c.
        weight: ``(H, D)``.
        runs: whose rows they are.

    Returns:
        ``(N, H)``.
    """
    if fits(values, queries, per_value, weight):
        return _PairLayer.apply(values, queries, per_value, per_run, weight, runs.offsets)
    products = values * queries.index_select(0, runs.segments)
    return torch.addmm(per_value + per_run.index_select(0, runs.segments), products, weight.t())


class _PairLayer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, queries, per_value, per_run, weight, offsets) -> Tensor:
        products, hidden = values.new_empty(values.shape), values.new_empty(per_value.shape)
        run(
            _prepare, *arrays(values, queries, per_value, per_run, offsets, products, hidden),
            work=values.numel() + hidden.numel(),
        )  # fmt: skip
        hidden.addmm_(products, weight.t())
        ctx.save_for_backward(values, queries, products, weight, offsets)
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        values, queries, products, weight, offsets = ctx.saved_tensors
        grad = grad.contiguous()
        to_values, to_queries = grad @ weight, queries.new_empty(queries.shape)
        to_constant = grad.new_empty(len(queries), grad.shape[1])
        run(
            _collect, *arrays(grad, values, queries, offsets, to_values, to_queries, to_constant),
            work=values.numel() + grad.numel(),
        )  # fmt: skip
        return to_values, to_queries, grad, to_constant, grad.t() @ products, None


@compiled
def _prepare(values, queries, per_value, per_run, offsets, products, hidden, part, parts):
    first, last = share(len(queries), part, parts)
    for b in range(first, last):
        query, constant = queries[b], per_run[b]
        for p in range(offsets[b], offsets[b + 1]):
            value, product, given, start = values[p], products[p], per_value[p], hidden[p]
            for j in range(len(query)):
                product[j] = value[j] * query[j]
            for j in range(len(constant)):
                start[j] = given[j] + constant[j]


@compiled
def _collect(grad, values, queries, offsets, to_values, to_queries, to_constant, part, parts):
    """``to_values`` comes as the gradient of the products."""
    first, last = share(len(queries), part, parts)
    for b in range(first, last):
        query, query_total, total = queries[b], to_queries[b], to_constant[b]
        query_total[:] = 0
        total[:] = 0
        for p in range(offsets[b], offsets[b + 1]):
            value, out, flow = values[p], to_values[p], grad[p]
            for j in range(len(query)):
                query_total[j] += out[j] * value[j]
                out[j] *= query[j]
            for j in range(len(total)):
                total[j] += flow[j]
