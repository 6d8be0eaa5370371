"""The models written once more in NumPy, sample by sample, from the papers' equations."""

from dataclasses import replace

import numpy as np


def parameters(model) -> dict[str, np.ndarray]:
    return {name: tensor.detach().numpy().astype(np.float64) for name, tensor in model.state_dict().items()}


def vector(table, field, code):
    """The row of a code; for a dense field, row 0 if the number is missing, otherwise z times row 1."""
    if not field.dense:
        return table[code]
    return table[0] if code == 0 else ((code - 1) / 4096 - 8) * table[1]


def embed(p, codes, fields, row):
    return np.concatenate(
        [vector(p[f"embeddings.tables.{f.name}.weight"], f, int(codes[f.name][row])) for f in fields]
    )


def shared_histories(p, batch, schema):
    """The vectors of the fields that each sample's behaviours share with the candidate, a list of (length, width)."""
    width = sum(p[f"embeddings.tables.{f.name}.weight"].shape[1] for f in schema.shared)
    out = []
    for b in range(batch.size):
        rows = range(int(batch.offsets[b]), int(batch.offsets[b + 1]))
        out.append(np.array([embed(p, batch.history, schema.shared, row) for row in rows]).reshape(-1, width))
    return out


def histories(p, batch, schema):
    """Each sample's behaviour vectors: shared fields, scaled and shifted by the own fields, then the own fields' embeddings."""
    out = []
    for b, shared in enumerate(shared_histories(p, batch, schema)):
        width, rows = shared.shape[1], []
        for j, e in enumerate(shared):
            row = int(batch.offsets[b]) + j
            scale, shift = np.ones(width), np.zeros(width)
            for field in (field for field in schema.own if not field.dense):
                modulation = p[f"own_fields.scales.{field.name}.weight"][int(batch.history[field.name][row])]
                scale, shift = scale + modulation[:width], shift + modulation[width:]
            own = [embed(p, batch.history, schema.own, row)] if schema.own else []
            rows.append(np.concatenate([e * scale + shift, *own]))
        own_width = sum(p[f"embeddings.tables.{f.name}.weight"].shape[1] for f in schema.own)
        out.append(np.array(rows).reshape(-1, width + own_width))
    return out


def compared_candidate(p, batch, schema, b):
    """The candidate as a behaviour's counterpart: 0 in the fields that only a behaviour has."""
    own_width = sum(p[f"embeddings.tables.{f.name}.weight"].shape[1] for f in schema.own)
    return np.concatenate([embed(p, batch.candidate, schema.item, b), np.zeros(own_width)])


def prelu(x, slope):
    return np.where(x > 0, x, slope * x)


def sigmoid(x, _slope=None):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(initial=-np.inf))
    return e / e.sum()


def layer_norm(p, prefix, x):
    normal = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
    return p[f"{prefix}.weight"] * normal + p[f"{prefix}.bias"]


def mlp(p, prefix, x, *, layers, activation=prelu):
    """Linear and activation in turn, the last linear alone."""
    for k in range(0, 2 * layers, 2):
        x = p[f"{prefix}.{k}.weight"] @ x + p[f"{prefix}.{k}.bias"]
        if k < 2 * (layers - 1):
            x = activation(x, p.get(f"{prefix}.{k + 1}.weight"))
    return x


def inputs(p, batch, schema, user_vectors):
    """The MLP's input of each sample: user, candidate, profile, context."""
    rows = []
    for b, user in enumerate(user_vectors):
        parts = [user, embed(p, batch.candidate, schema.item, b)]
        if schema.profile:
            parts.append(embed(p, batch.profile, schema.profile, b))
        if schema.context:
            parts.append(embed(p, batch.context, schema.context, b))
        rows.append(np.concatenate(parts))
    return rows


def tail(p, batch, schema, user_vectors):
    """Concatenate user, candidate, profile, context; MLP; logits (B,)."""
    return np.array([mlp(p, "mlp.layers", x, layers=3)[0] for x in inputs(p, batch, schema, user_vectors)])


def pooled(p, batch, schema, pooling):
    return [h.sum(0) / (max(len(h), 1) if pooling == "mean" else 1) for h in histories(p, batch, schema)]


def base_model(p, batch, schema, *, pooling):
    return tail(p, batch, schema, pooled(p, batch, schema, pooling))


def user_only(p, batch, schema, *, pooling):
    """The user's vectors and the profile alone."""
    logits = []
    for b, user in enumerate(pooled(p, batch, schema, pooling)):
        profile = [embed(p, batch.profile, schema.profile, b)] if schema.profile else []
        logits.append(mlp(p, "mlp.layers", np.concatenate([user, *profile]), layers=3)[0])
    return np.array(logits)


def wide_deep(p, batch, schema, *, pooling):
    """BaseModel plus one weight for each (behaviour, candidate) pair of codes."""
    wide = np.zeros(batch.size)
    for field in (field for field in schema.shared if not field.dense):
        weights = p[f"wide.weights.{field.name}.weight"][:, 0].reshape(field.size, field.size)
        for b in range(batch.size):
            behaviors = batch.history[field.name].numpy()[int(batch.offsets[b]) : int(batch.offsets[b + 1])]
            crossed = weights[behaviors, int(batch.candidate[field.name][b])]
            wide[b] += crossed.sum() / (max(len(behaviors), 1) if pooling == "mean" else 1)
    return base_model(p, batch, schema, pooling=pooling) + wide


def fields_of(x, dim):
    return [x[k : k + dim] for k in range(0, len(x), dim)]


def pnn(p, batch, schema, *, dim):
    logits = []
    for x in inputs(p, batch, schema, pooled(p, batch, schema, "sum")):
        fields = fields_of(x, dim)
        products = [fields[i] @ fields[j] for i in range(len(fields)) for j in range(i + 1, len(fields))]
        logits.append(mlp(p, "mlp.layers", np.concatenate([x, products]), layers=3)[0])
    return np.array(logits)


def fm(p, batch, schema, *, dim):
    pairs = []
    for x in inputs(p, batch, schema, pooled(p, batch, schema, "sum")):
        fields = fields_of(x, dim)
        pairs.append(
            sum(fields[i] @ fields[j] for i in range(len(fields)) for j in range(i + 1, len(fields)))
        )
    linear = {name.removeprefix("linear."): value for name, value in p.items() if name.startswith("linear.")}
    return np.array(pairs) + lr(linear, batch, schema)


def deepfm(p, batch, schema, *, dim):
    return tail(p, batch, schema, pooled(p, batch, schema, "sum")) + fm(p, batch, schema, dim=dim)


def activation_unit(p, e, v, *, difference, prefix="attention", activation=prelu):
    """a(e_j, v_A) of DIN eq. 3 on the concatenated input."""
    parts = [e, v, e * v] + ([e - v] if difference else [])
    first = p[f"{prefix}.first.weight"] @ np.concatenate(parts) + p[f"{prefix}.first.bias"]
    hidden = activation(first, p.get(f"{prefix}.activation.weight"))
    return mlp(p, f"{prefix}.rest.layers", hidden, layers=2, activation=activation)[0]


def din(p, batch, schema, *, normalize, difference, positions=False):
    """DIN eq. 3, its softmax form, and the one with distances to the candidate."""
    users = []
    for b, history in enumerate(histories(p, batch, schema)):
        candidate = compared_candidate(p, batch, schema, b)
        if positions:
            candidate = candidate + p["positions"][0]
            farthest = len(p["positions"]) - 1
            distance = [min(len(history) - j, farthest) for j in range(len(history))]
            vectors = history + p["positions"][distance]
        else:
            vectors = history
        scores = np.array([activation_unit(p, e, candidate, difference=difference) for e in vectors])
        if normalize == "softmax" and len(scores):
            scores = softmax(scores / np.sqrt(history.shape[1]))
        users.append(sum((w * e for w, e in zip(scores, vectors, strict=True)), np.zeros(history.shape[1])))
    return tail(p, batch, schema, users)


def gru_states(p, prefix, inputs, value_set="gru", attention=None):
    """The states (T, H) of one history by DIEN eq. 3-6 and 10-13; gates are stacked reset, update, candidate."""
    w, u, bias = (p[f"{prefix}.{name}"] for name in ("input_weight", "state_weight", "bias"))
    hidden = u.shape[1]
    gates = {"reset": 0, "update": 1, "candidate": 2} if value_set != "agru" else {"reset": 0, "candidate": 1}

    def part(matrix, gate):
        return matrix[gates[gate] * hidden : (gates[gate] + 1) * hidden]

    h, states = np.zeros(hidden), []
    for t, x in enumerate(inputs):
        r = sigmoid(part(w, "reset") @ x + part(u, "reset") @ h + part(bias, "reset"))
        new = np.tanh(part(w, "candidate") @ x + r * (part(u, "candidate") @ h) + part(bias, "candidate"))
        if value_set != "agru":
            z = sigmoid(part(w, "update") @ x + part(u, "update") @ h + part(bias, "update"))
        if value_set == "agru":
            h = (1 - attention[t]) * h + attention[t] * new
        elif value_set == "augru":
            z = attention[t] * z
            h = (1 - z) * h + z * new
        elif value_set == "augru_code":  # keeps (1 - a) of what a GRU keeps
            keep = (1 - attention[t]) * (1 - z)
            h = keep * h + (1 - keep) * new
        else:
            h = (1 - z) * h + z * new
        states.append(h)
    return np.array(states).reshape(-1, hidden)


def dien_attention(p, states, candidate, kind):
    if not len(states):
        return np.zeros(0)
    if kind == "bilinear":
        return softmax(np.array([h @ p["attention.weight"] @ candidate for h in states]))
    query = p["attention.query.layers.0.weight"] @ candidate + p["attention.query.layers.0.bias"]
    query = prelu(query, p["attention.activation.weight"])
    scores = [
        activation_unit(p, h, query, difference=True, prefix="attention.unit", activation=sigmoid)
        for h in states
    ]
    return softmax(np.array(scores))


def dien(p, batch, schema, *, evolution, attention="bilinear", aux=None):
    """DIEN and its relatives; with ``aux`` (a function of all states and histories) also the auxiliary loss."""
    users, all_states, all_histories = [], [], histories(p, batch, schema)
    for b, history in enumerate(all_histories):
        candidate = embed(p, batch.candidate, schema.item, b)
        states = gru_states(p, "extractor", history)
        all_states.append(states)
        if evolution == "attention":
            states = gru_states(p, "evolution_gru", states)
            users.append(dien_attention(p, states, candidate, attention) @ states)
            continue
        a = dien_attention(p, states, candidate, attention)
        if evolution == "aigru":
            evolved = gru_states(p, "evolution_gru", a[:, None] * states)
        else:
            evolved = gru_states(p, "evolution_gru", states, evolution, a)
        users.append(evolved[-1] if len(evolved) else np.zeros(states.shape[1]))
    logits = tail(p, batch, schema, users)
    return (logits, aux(p, batch, schema, all_states)) if aux else logits


def drawn_histories(p, batch, schema):
    return shared_histories(p, replace(batch, history=batch.negatives), schema)


def binary_auxiliary(p, batch, schema, states, *, net=False):
    """DIEN eq. 7, averaged over the positions that have a next behaviour."""
    behaviors = shared_histories(p, batch, schema)

    def score(h, e):
        if net:
            return mlp(p, "auxiliary.net.layers", np.concatenate([h, e]), layers=3, activation=sigmoid)[0]
        return h @ e

    losses = []
    for h, e, wrong in zip(states, behaviors, drawn_histories(p, batch, schema), strict=True):
        for t in range(len(h) - 1):
            losses.append(
                -np.log(sigmoid(score(h[t], e[t + 1]))) - np.log(1 - sigmoid(score(h[t], wrong[t + 1])))
            )
    return np.mean(losses)


def infonce_auxiliary(p, batch, schema, states, *, negatives, net=False):
    """Each state against the next behaviour and the items drawn at the next positions of the batch."""
    behaviors = shared_histories(p, batch, schema)

    def score(h, e):
        if net:
            return mlp(p, "auxiliary.net.layers", np.concatenate([h, e]), layers=3, activation=sigmoid)[0]
        return h @ e

    drawn = np.concatenate(drawn_histories(p, batch, schema))
    names = list(batch.negatives)
    losses = []
    for b, (h, e) in enumerate(zip(states, behaviors, strict=True)):
        for t in range(len(h) - 1):
            at = int(batch.offsets[b]) + t + 1
            scores = [score(h[t], e[t + 1])]
            for shift in range(negatives):
                lent = (at + shift) % len(drawn)
                if any(batch.negatives[n][lent] != batch.history[n][at] for n in names):
                    scores.append(score(h[t], drawn[lent]))
            losses.append(-np.log(softmax(np.array(scores))[0]))
    return np.mean(losses)


def lstm(p, batch, schema):
    w, u = p["lstm.weight_ih_l0"], p["lstm.weight_hh_l0"]
    bias = p["lstm.bias_ih_l0"] + p["lstm.bias_hh_l0"]
    users = []
    for history in histories(p, batch, schema):
        h = c = np.zeros(u.shape[1])
        for x in history:
            i, f, g, o = np.split(w @ x + u @ h + bias, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        users.append(h)
    return tail(p, batch, schema, users)


def heads(p, prefix, x, *, number, causal=False):
    """Multi-head self-attention of one history (T, width): the result of each head, a list of (T, head width)."""
    w = p[f"{prefix}.inputs.weight"]
    part = len(w) // (3 * number)
    results = []
    for k in range(number):
        q, key, v = (x @ w[(g * number + k) * part : (g * number + k + 1) * part].T for g in range(3))
        out = np.zeros((len(x), part))
        for t in range(len(x)):
            seen = slice(0, t + 1) if causal else slice(0, len(x))
            out[t] = softmax(q[t] @ key[seen].T / np.sqrt(part)) @ v[seen]
        results.append(out)
    return results


def self_attention(p, prefix, x, *, number, causal=False):
    """The heads side by side and projected, (T, width)."""
    mixed = np.concatenate(heads(p, f"{prefix}.heads", x, number=number, causal=causal), axis=1)
    return mixed @ p[f"{prefix}.outputs.weight"].T


def transformer_block(p, prefix, x, *, number):
    out = []
    for row in x + self_attention(p, f"{prefix}.attention", x, number=number):
        row = layer_norm(p, f"{prefix}.first_norm", row)  # noqa: PLW2901
        hidden = prelu(p[f"{prefix}.feed_forward.0.weight"] @ row + p[f"{prefix}.feed_forward.0.bias"], 0.01)
        fed = p[f"{prefix}.feed_forward.2.weight"] @ hidden + p[f"{prefix}.feed_forward.2.bias"]
        out.append(layer_norm(p, f"{prefix}.second_norm", row + fed))
    return np.array(out)


def bst(p, batch, schema, *, number, blocks, length, output):
    """The newest behaviours and the candidate; outputs from the candidate back, zeros for what a history lacks."""
    users = []
    for b, history in enumerate(histories(p, batch, schema)):
        newest = list(history)[-(length - 1) :]
        rows = [*newest, compared_candidate(p, batch, schema, b)]
        x = np.array([np.concatenate([row, p["positions"][len(rows) - 1 - j]]) for j, row in enumerate(rows)])
        for k in range(blocks):
            x = transformer_block(p, f"blocks.{k}", x, number=number)
        padded = np.zeros((length, x.shape[1]))
        padded[: len(x)] = x[::-1]
        users.append(padded.ravel() if output == "all" else x[-1])
    return tail(p, batch, schema, users)


def relu(x, _slope=None):
    return np.maximum(x, 0)


def normed_and_fed(p, norm, feed, x):
    """Layer normalisation, then a feed-forward net with a residual; of each row of (T, width)."""
    rows = [layer_norm(p, norm, row) for row in x]
    fed = [row + mlp(p, f"{feed}.net.layers", row, layers=2, activation=relu) for row in rows]
    return np.array(fed).reshape(x.shape)


def dmin(p, batch, schema, *, number, aux=None):
    """DMIN as its authors' code has it, with positions counted from the newest behaviour."""
    users, all_refined = [], []
    shared = sum(p[f"embeddings.tables.{f.name}.weight"].shape[1] for f in schema.shared)
    for b, history in enumerate(histories(p, batch, schema)):
        candidate = compared_candidate(p, batch, schema, b)
        mixed = self_attention(p, "refiner", history, number=number, causal=True)
        refined = normed_and_fed(p, "refiner_norm", "refiner_feed", history + mixed)
        all_refined.append(refined[:, :shared])
        farthest = len(p["positions"]) - 1
        parts = []
        for k, result in enumerate(heads(p, "extractor", refined, number=number, causal=True)):
            name = f"interests.{k}"
            back = result @ p[f"{name}.back.weight"].T + p[f"{name}.back.bias"]
            outputs = normed_and_fed(p, f"{name}.norm", f"{name}.feed", refined + back)
            scores = []
            for j, row in enumerate(outputs):
                position = p["positions"][min(len(history) - 1 - j, farthest)]
                query = p[f"{name}.unit.query.weight"] @ np.concatenate([candidate, position])
                query = query + p[f"{name}.unit.query.bias"]
                seen = np.concatenate([query, row, query - row, query * row])
                scores.append(mlp(p, f"{name}.unit.net.layers", seen, layers=3, activation=sigmoid)[0])
            parts.append(softmax(np.array(scores)) @ outputs if len(outputs) else np.zeros(history.shape[1]))
        total = history.sum(0)
        users.append(np.concatenate([*parts, total, candidate * total]))
    logits = tail(p, batch, schema, users)
    return (logits, aux(p, batch, schema, all_refined)) if aux else logits


def lr(p, batch, schema):
    """One weight an id, the history's weights averaged."""
    logits = np.full(batch.size, p["bias"])
    for group, codes, fields in (
        ("item", batch.candidate, schema.item),
        ("profile", batch.profile, schema.profile),
        ("context", batch.context, schema.context),
    ):
        for field in fields:
            weight = p[f"weights.{group}_{field.name}.weight"]
            logits = logits + [vector(weight, field, int(code))[0] for code in codes[field.name]]
    for b in range(batch.size):
        rows = slice(int(batch.offsets[b]), int(batch.offsets[b + 1]))
        for field in schema.behavior:
            weight = p[f"weights.behavior_{field.name}.weight"]
            visited = [vector(weight, field, int(code))[0] for code in batch.history[field.name][rows]]
            logits[b] += sum(visited) / max(len(visited), 1)
    return logits
