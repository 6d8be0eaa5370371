"""Rocket Launching once more in NumPy: two nets over the same embeddings, and the loss of both."""

import numpy as np


def nets(p):
    """Parameters of the light net and of the booster, which has the embeddings of the light net."""
    light = {name: value for name, value in p.items() if not name.startswith("booster.")}
    tables = {name: value for name, value in light.items() if name.startswith(("embeddings.", "own_fields."))}
    own = {name.removeprefix("booster."): p[name] for name in p if name not in light}
    return light, tables | own


def cross_entropy(z, y):
    """The mean of -y log σ(z) - (1 - y) log(1 - σ(z))."""
    return np.mean(np.logaddexp(0, z) - y * z)


def light_net(p, batch, schema, *, net, hint_weight, aux=None, target=None):
    """Logits of the light net, and what training adds to their cross entropy.

    Args:
        net: logits of a net by its parameters.
        hint_weight: λ.
        aux: auxiliary loss of the booster, an argument of ``net``.
        target: logits that the hint loss compares with; those of the booster if None.
    """
    light, booster = nets(p)
    logits = net(light, batch, schema)
    z, of_booster = net(booster, batch, schema, aux=aux) if aux else (net(booster, batch, schema), 0.0)
    labels = batch.labels.numpy()
    hint = np.mean((logits - (z if target is None else target)) ** 2)
    return logits, cross_entropy(z, labels) + hint_weight * hint + of_booster
