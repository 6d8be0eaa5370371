"""The first layer over pairs of a behaviour and its candidate, factorised."""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.compiled import arrays, compiled, fits, run, share
from deep_interest.ops.runs import Runs


def pair_layer(
    values: Tensor, queries: Tensor, per_run: Tensor, value_weight: Tensor, product_weight: Tensor, runs: Runs
) -> Tensor:
    """``W_v e + W_p (e∘v) + c`` of each row e with its run's query v and constant c; nothing is concatenated.

    Args:
        values: ``(N, D)`` rows e.
        queries: ``(B, D)`` the runs' v.
        per_run: ``(B, H)`` the runs' c.
        value_weight, product_weight: ``(H, D)``.
        runs: whose rows they are.

    Returns:
        ``(N, H)``.
    """
    if fits(values, queries, per_run, value_weight):
        return _PairLayer.apply(values, queries, per_run, value_weight, product_weight, runs.offsets)
    products = values * queries.index_select(0, runs.segments)
    hidden = torch.addmm(per_run.index_select(0, runs.segments), values, value_weight.t())
    return torch.addmm(hidden, products, product_weight.t())


class _PairLayer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, queries, per_run, value_weight, product_weight, offsets) -> Tensor:
        products = values.new_empty(values.shape)
        hidden = values.new_empty(len(values), per_run.shape[1])
        run(
            _prepare, *arrays(values, queries, per_run, offsets, products, hidden),
            work=values.numel() + hidden.numel(),
        )  # fmt: skip
        hidden.addmm_(values, value_weight.t()).addmm_(products, product_weight.t())
        ctx.save_for_backward(values, queries, products, value_weight, product_weight, offsets)
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        values, queries, products, value_weight, product_weight, offsets = ctx.saved_tensors
        grad = grad.contiguous()
        to_values, to_products = grad @ value_weight, grad @ product_weight
        to_queries, to_constant = (
            queries.new_empty(queries.shape),
            grad.new_empty(len(queries), grad.shape[1]),
        )
        run(
            _collect, *arrays(grad, values, queries, to_products, offsets, to_values, to_queries, to_constant),
            work=values.numel() + grad.numel(),
        )  # fmt: skip
        return to_values, to_queries, to_constant, grad.t() @ values, grad.t() @ products, None


@compiled
def _prepare(values, queries, per_run, offsets, products, hidden, part, parts):
    first, last = share(len(queries), part, parts)
    for b in range(first, last):
        query, constant = queries[b], per_run[b]
        for p in range(offsets[b], offsets[b + 1]):
            value, product, start = values[p], products[p], hidden[p]
            for j in range(len(query)):
                product[j] = value[j] * query[j]
            for j in range(len(constant)):
                start[j] = constant[j]


@compiled
def _collect(grad, values, queries, to_products, offsets, to_values, to_queries, to_constant, part, parts):
    first, last = share(len(queries), part, parts)
    for b in range(first, last):
        query, query_total, total = queries[b], to_queries[b], to_constant[b]
        query_total[:] = 0
        total[:] = 0
        for p in range(offsets[b], offsets[b + 1]):
            value, out, product, flow = values[p], to_values[p], to_products[p], grad[p]
            for j in range(len(query)):
                out[j] += product[j] * query[j]
                query_total[j] += product[j] * value[j]
            for j in range(len(total)):
                total[j] += flow[j]
