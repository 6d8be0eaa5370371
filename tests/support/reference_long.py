"""The models of long histories written once more in NumPy, sample by sample, from the papers' equations."""

import numpy as np
from support.reference import (
    compared_candidate,
    embed,
    histories,
    layer_norm,
    mlp,
    prelu,
    shared_histories,
    softmax,
    tail,
)


def multi_head(p, prefix, query, behaviors, *, heads, bias=None, project=True):
    """Multi-head target attention with keys and values for each behaviour; ``bias (heads, T)`` is added to the scores."""
    outputs = []
    for h in range(heads):
        key = p[f"{prefix}.key"][h]
        head_width, keyed = key.shape
        q = p[f"{prefix}.query.weight"][h * head_width : (h + 1) * head_width] @ query
        scores = np.array([q @ (key @ x[:keyed]) / np.sqrt(head_width) for x in behaviors])
        if bias is not None:
            scores = scores + bias[h]
        weights = softmax(scores) if len(scores) else scores
        values = [p[f"{prefix}.value"][h] @ x if project else x for x in behaviors]
        zero = np.zeros(head_width if project else behaviors.shape[1])
        outputs.append(sum((w * v for w, v in zip(weights, values, strict=True)), zero))
    joined = np.concatenate(outputs)
    return p[f"{prefix}.output.weight"] @ joined if project else joined


def din_unit(p, prefix, behaviors, candidate):
    """DIN eq. 3 over the newest behaviours."""
    total = np.zeros(behaviors.shape[1])
    for e in behaviors:
        first = (
            p[f"{prefix}.first.weight"] @ np.concatenate([e, candidate, e * candidate])
            + p[f"{prefix}.first.bias"]
        )
        hidden = prelu(first, p[f"{prefix}.activation.weight"])
        total = total + mlp(p, f"{prefix}.rest.layers", hidden, layers=2)[0] * e
    return total


def short(p, batch, schema, b, history, *, length, kind, heads=4):
    """The representation of the newest behaviours."""
    newest = history[max(0, len(history) - length) :]
    if kind == "din":
        return din_unit(p, "short.attention", newest, compared_candidate(p, batch, schema, b))
    return multi_head(p, "short.attention", embed(p, batch.candidate, schema.item, b), newest, heads=heads)


def newest_with(codes, wanted, count):
    """Positions of the newest ``count`` codes that equal ``wanted``, which is not the unknown."""
    return [j for j in range(len(codes)) if codes[j] == wanted and wanted > 0][-count:]


def best(scores, count):
    """Positions of the highest scores; of equal ones the newest."""
    ranked = sorted(range(len(scores)), key=lambda j: (-scores[j], -j))
    return sorted(ranked[:count])


def codes_of(batch, field, b):
    return batch.history[field].numpy()[int(batch.offsets[b]) : int(batch.offsets[b + 1])]


def sim_hard(p, batch, schema, *, count, length, heads):
    users = []
    for b, history in enumerate(histories(p, batch, schema)):
        found = newest_with(codes_of(batch, "category", b), int(batch.candidate["category"][b]), count)
        candidate = embed(p, batch.candidate, schema.item, b)
        long = multi_head(p, "attention", candidate, history[found], heads=heads, project=False)
        users.append(np.concatenate([long, short(p, batch, schema, b, history, length=length, kind="din")]))
    return tail(p, batch, schema, users)


def sim_soft(p, batch, schema, *, count, length, heads):
    """The search's own loss is the log loss of an MLP over ``Σ_j r_j e_j`` and the candidate."""
    users, losses = [], []
    for b, (history, shared) in enumerate(
        zip(histories(p, batch, schema), shared_histories(p, batch, schema), strict=True)
    ):
        candidate = embed(p, batch.candidate, schema.item, b)
        target = p["soft.candidate.weight"] @ candidate
        relevance = np.array([(p["soft.behavior.weight"] @ e) @ target for e in shared])
        found = best(relevance, count)
        long = multi_head(p, "attention", candidate, history[found], heads=heads, project=False)
        users.append(np.concatenate([long, short(p, batch, schema, b, history, length=length, kind="din")]))
        user = sum((r * e for r, e in zip(relevance, shared, strict=True)), np.zeros(shared.shape[1]))
        z = mlp(p, "soft.mlp.layers", np.concatenate([user, candidate]), layers=3)[0]
        losses.append(np.logaddexp(0, z) - batch.labels[b].item() * z)
    return tail(p, batch, schema, users), np.mean(losses)


def bits_of(p, vector):
    return vector @ p["planes"] > 0


def eta(p, batch, schema, *, count, length):
    users = []
    for b, (history, shared) in enumerate(
        zip(histories(p, batch, schema), shared_histories(p, batch, schema), strict=True)
    ):
        candidate = embed(p, batch.candidate, schema.item, b)
        distances = [np.sum(bits_of(p, e) != bits_of(p, candidate)) for e in shared]
        found = best([-d for d in distances], count)
        long = multi_head(p, "attention", candidate, history[found], heads=4)
        users.append(
            np.concatenate([long, short(p, batch, schema, b, history, length=length, kind="target")])
        )
    return tail(p, batch, schema, users)


def sdim(p, batch, schema, *, rounds, bits, length):
    users = []
    for b, (history, shared) in enumerate(
        zip(histories_without_modulation(p, batch, schema), shared_histories(p, batch, schema), strict=True)
    ):
        target = bits_of(p, embed(p, batch.candidate, schema.item, b)).reshape(rounds, bits)
        total = np.zeros(history.shape[1])
        for r in range(rounds):
            in_bucket = [np.array_equal(bits_of(p, e).reshape(rounds, bits)[r], target[r]) for e in shared]
            bucket = history[np.array(in_bucket, bool)].sum(0)
            total = total + bucket / max(np.sqrt(bucket @ bucket), 1e-12)
        recent = short(p, batch, schema, b, history, length=length, kind="din")
        users.append(np.concatenate([total / rounds, recent]))
    return tail(p, batch, schema, users)


def twin(p, batch, schema, *, count, length, heads):
    """Score: inherent fields by projections, own fields by ``Σ_c β_c (w_c · x_c)``; the search ranks by the sum over heads."""
    users = []
    for b, history in enumerate(histories_without_modulation(p, batch, schema)):
        candidate = embed(p, batch.candidate, schema.item, b)
        inherent = shared_width(p, schema)
        bias = np.zeros((heads, len(history)))
        for c in range(len(schema.own)):
            dim = p["attention.compress"].shape[1]
            part = history[:, inherent + c * dim : inherent + (c + 1) * dim]
            bias += np.outer(p["attention.beta"][:, c], part @ p["attention.compress"][c])
        scores = bias.sum(0)
        for h in range(heads):
            key = p["attention.key"][h]
            q = p["attention.query.weight"][h * len(key) : (h + 1) * len(key)] @ candidate
            scores = scores + history[:, :inherent] @ key.T @ q / np.sqrt(len(key))
        found = best(scores, count)
        long = multi_head(p, "attention", candidate, history[found], heads=heads, bias=bias[:, found])
        users.append(np.concatenate([long, short(p, batch, schema, b, history, length=length, kind="din")]))
    return tail(p, batch, schema, users)


def shared_width(p, schema):
    return sum(p[f"embeddings.tables.{field.name}.weight"].shape[1] for field in schema.shared)


def histories_without_modulation(p, batch, schema):
    out, width = [], sum(p[f"embeddings.tables.{field.name}.weight"].shape[1] for field in schema.behavior)
    for b, shared in enumerate(shared_histories(p, batch, schema)):
        rows = [int(batch.offsets[b]) + j for j in range(len(shared))]
        own = [embed(p, batch.history, schema.own, row) for row in rows] if schema.own else []
        out.append(np.concatenate([shared, np.array(own).reshape(len(shared), -1)], axis=1) if rows and schema.own else
                   np.zeros((0, width)) if not rows else shared)  # fmt: skip
    return out


def swiglu(p, prefix, x):
    gate, value = np.split(p[f"{prefix}.gates.weight"] @ x, 2)
    return layer_norm(
        p, f"{prefix}.norm", p[f"{prefix}.output.weight"] @ (gate / (1 + np.exp(-gate)) * value)
    )


def stca(p, batch, schema, *, layers):
    users = []
    for b, history in enumerate(histories(p, batch, schema)):
        candidate = embed(p, batch.candidate, schema.item, b)
        query, outputs = swiglu(p, "query", candidate), []
        for i in range(layers):
            if i:
                query = p[f"fused.{i - 1}.weight"] @ np.concatenate([candidate, *outputs])
            fed = np.array([swiglu(p, f"layers.{i}.feed", e) for e in history]).reshape(history.shape)
            outputs.append(multi_head(p, f"layers.{i}.attention", query, fed, heads=4))
        users.append(np.concatenate(outputs))
    return tail(p, batch, schema, users)
