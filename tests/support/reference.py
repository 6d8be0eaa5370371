"""The models written once more in NumPy, sample by sample, from the papers' equations."""

import numpy as np


def parameters(model) -> dict[str, np.ndarray]:
    return {name: tensor.detach().numpy().astype(np.float64) for name, tensor in model.state_dict().items()}


def embed(p, codes, fields, row):
    return np.concatenate([p[f"embeddings.tables.{f.name}.weight"][int(codes[f.name][row])] for f in fields])


def histories(p, batch, schema):
    """Each sample's behaviour vectors, a list of (length, width)."""
    width = sum(p[f"embeddings.tables.{f.name}.weight"].shape[1] for f in schema.behavior)
    out = []
    for b in range(batch.size):
        rows = range(int(batch.offsets[b]), int(batch.offsets[b + 1]))
        out.append(
            np.array([embed(p, batch.history, schema.behavior, row) for row in rows]).reshape(-1, width)
        )
    return out


def prelu(x, slope):
    return np.where(x > 0, x, slope * x)


def mlp(p, prefix, x, *, layers, activation=prelu):
    """Linear and activation in turn, the last linear alone."""
    for k in range(0, 2 * layers, 2):
        x = p[f"{prefix}.{k}.weight"] @ x + p[f"{prefix}.{k}.bias"]
        if k < 2 * (layers - 1):
            x = activation(x, p[f"{prefix}.{k + 1}.weight"])
    return x


def tail(p, batch, schema, user_vectors):
    """Concatenate user, candidate, profile, context; MLP; logits (B,)."""
    logits = []
    for b, user in enumerate(user_vectors):
        parts = [user, embed(p, batch.candidate, schema.item, b)]
        if schema.profile:
            parts.append(embed(p, batch.profile, schema.profile, b))
        if schema.context:
            parts.append(embed(p, batch.context, schema.context, b))
        logits.append(mlp(p, "mlp.layers", np.concatenate(parts), layers=3)[0])
    return np.array(logits)


def base_model(p, batch, schema, *, pooling):
    users = [h.sum(0) / (max(len(h), 1) if pooling == "mean" else 1) for h in histories(p, batch, schema)]
    return tail(p, batch, schema, users)


def activation_unit(p, e, v, *, difference):
    """a(e_j, v_A) of DIN eq. 3 on the concatenated input."""
    parts = [e, v, e * v] + ([e - v] if difference else [])
    first = p["attention.first.weight"] @ np.concatenate(parts) + p["attention.first.bias"]
    hidden = prelu(first, p["attention.activation.weight"])
    return mlp(p, "attention.rest.layers", hidden, layers=2)[0]


def din(p, batch, schema, *, normalize, difference):
    """DIN eq. 3, and its softmax form."""
    users = []
    for b, history in enumerate(histories(p, batch, schema)):
        candidate = embed(p, batch.candidate, schema.item, b)
        scores = np.array([activation_unit(p, e, candidate, difference=difference) for e in history])
        if normalize == "softmax" and len(scores):
            scores = scores / np.sqrt(history.shape[1])
            scores = np.exp(scores - scores.max())
            scores = scores / scores.sum()
        users.append(sum((w * e for w, e in zip(scores, history, strict=True)), np.zeros(history.shape[1])))
    return tail(p, batch, schema, users)


def lr(p, batch, schema):
    """One weight an id, the history's weights averaged."""
    logits = np.full(batch.size, p["bias"])
    for group, codes, fields in (
        ("item", batch.candidate, schema.item),
        ("profile", batch.profile, schema.profile),
        ("context", batch.context, schema.context),
    ):
        for field in fields:
            logits = logits + p[f"weights.{group}_{field.name}.weight"][codes[field.name].numpy(), 0]
    for b in range(batch.size):
        rows = slice(int(batch.offsets[b]), int(batch.offsets[b + 1]))
        for field in schema.behavior:
            visited = p[f"weights.behavior_{field.name}.weight"][batch.history[field.name].numpy()[rows], 0]
            logits[b] += visited.sum() / max(len(visited), 1)
    return logits
