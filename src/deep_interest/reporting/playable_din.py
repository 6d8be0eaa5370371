"""A trained DIN that a page can compute: its parameters, a user's history and candidates, as JSON for ``assets/din.js``."""

import base64
import html
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.models.batch import Batch
from deep_interest.models.din import DIN
from deep_interest.models.layers import BatchNorm, Dice, PReLU
from deep_interest.models.registry import find_model
from deep_interest.reporting.dataset_view import DatasetView
from deep_interest.reporting.item_embeddings import item_vectors, items_of_largest_categories
from deep_interest.training.runs import Checkpoint, restore

logger = logging.getLogger(__name__)

MAX_ITEMS = 60  # that a reader can choose from
MAX_HISTORY = 20  # behaviours that a reader can put into the history
INITIAL_HISTORY = 10  # of the user's newest behaviours
MAX_PARAMETERS = 160_000  # of 4 bytes; Base64 makes them 0.85 MB

Array = NDArray[np.float32]


def playable_din(checkpoint: Checkpoint, view: DatasetView) -> dict[str, Any]:
    """Return the first seed's DIN with the history, profile and context of a user of the test set.

    Args:
        checkpoint: checkpoint of a DIN, with any activation and normalisation, but without positions and own fields of behaviours.
        view: the dataset that the model was trained on.

    Returns:
        Plain values; empty if the page cannot compute the model, which is logged. ``parameters`` are float32 numbers in Base64:
        the vectors of the items ``(items, width)``, the vector of profile and context, and for each layer of ``attention`` and
        ``mlp`` weights ``(outputs, inputs)``, biases, and the parameters of the activation (`_layers`).
    """
    seed, name = checkpoint["seeds"][0], find_model(checkpoint["model"]).name
    model = restore(checkpoint, seed).eval()
    if not isinstance(model, DIN) or any(
        (model.positions is not None, model.own_fields, model.match_counts, model.product)
    ):
        logger.info(
            "%s: the report omits the playable DIN, which supports neither positions, nor what happened in a behaviour, nor match counts, "
            "nor interest_product, nor other models",
            name,
        )
        return {}
    rows = torch.from_numpy(view.typical_user())
    user = view.test.batch(rows[:1])
    history = _known_items(view, user.history)[-INITIAL_HISTORY:]
    candidates = _known_items(view, view.test.batch(rows).candidate)
    items = _choose_items(view, [*history, *candidates])
    unit = model.attention
    attention, attention_arrays = _layers([unit.first, unit.activation, *unit.rest.layers])
    mlp, mlp_arrays = _layers(model.mlp.layers)
    arrays = [
        item_vectors(model, view, items),
        _other_fields(model, view, user),
        *attention_arrays,
        *mlp_arrays,
    ]
    numbers = np.concatenate([array.ravel() for array in arrays]).astype("<f4")
    if len(numbers) > MAX_PARAMETERS or not len(items):
        logger.info("%s: the report omits the playable DIN: found %s items and %s parameters, at most %s are supported", name, len(items),
                    f"{len(numbers):,}", f"{MAX_PARAMETERS:,}")  # fmt: skip
        return {}
    position = {int(item): index for index, item in enumerate(items)}
    return {
        "name": name, "seed": seed, "user": str(view.user_ids["id"].iat[int(view.test.user[rows[0]]) - 1]),
        "items": [view.item_name(int(item)) for item in items], "width": model.item_width, "others": len(arrays[1]),
        "behavior": _behavior_columns(model), "normalize": model.normalize,
        "difference": unit.first.in_features == 4 * model.behavior_width, "attention": attention, "mlp": mlp,
        "history": [position[item] for item in history], "candidate": position[candidates[0]] if candidates else 0,
        "max_history": MAX_HISTORY, "parameters": base64.b64encode(numbers.tobytes()).decode(),
    }  # fmt: skip


def playable_html(din: Mapping[str, Any]) -> str:
    """Return the controls, which ``assets/din.js`` fills."""
    weights = (
        "The weights add up to 1."
        if din["normalize"] == "softmax"
        else "The weights are not normalised (DIN §4.3): they need not add up to 1, and may be negative."
    )
    return (
        f"<p>{html.escape(din['name'])} as trained (seed {din['seed']}), computed in this page. Profile and context are those of a test "
        f"sample of user {html.escape(din['user'])}, whose newest behaviours are the history at first. Choose another candidate, remove "
        f"behaviours or add some, and see how prediction and attention change. {weights}</p>" + PLAYABLE
    )


PLAYABLE = """<div class="din" id="din">
<p><label for="din-candidate">Candidate</label> <select id="din-candidate"></select></p>
<p class="ctr">Predicted CTR <output id="din-ctr" for="din-candidate"></output> <span class="soft" id="din-without"></span></p>
<table class="text"><caption><span>History, oldest behaviour first</span></caption>
<thead><tr><th scope="col">Behaviour</th><th scope="col">Attention weight</th><th scope="col">Effect on CTR (points)</th>\
<th scope="col"><span class="hidden">Remove</span></th></tr></thead><tbody id="din-history"></tbody></table>
<p><label for="din-item">Another behaviour</label> <select id="din-item"></select> <button type="button" id="din-add">Add</button></p>
<p><button type="button" id="din-reset">Original history</button> <button type="button" id="din-clear">Remove all</button></p>
<h3>Highest predicted CTR for this history</h3>
<ol id="din-best"></ol>
</div>"""


def _known_items(view: DatasetView, codes: Mapping[str, Tensor]) -> list[int]:
    """Return the item codes of behaviours or candidates, without unknown items."""
    return [int(item) for item in view.items_of(codes[ITEM_ID].numpy()) if item]


def _choose_items(view: DatasetView, first: Iterable[int]) -> NDArray[np.int64]:
    """Return at most `MAX_ITEMS` item codes, ordered by category and name: ``first``, then the items with most behaviours."""
    popular, _ = items_of_largest_categories(view)
    chosen = list(dict.fromkeys([*first, *map(int, popular)]))[:MAX_ITEMS]
    return np.array(
        sorted(chosen, key=lambda item: _natural(f"{view.category[item]} {view.item_name(item)}")), np.int64
    )


def _natural(text: str) -> list[tuple[int, str]]:
    """Return a key that sorts numbers in texts by value."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text)]


def _other_fields(model: DIN, view: DatasetView, batch: Batch) -> Array:
    """Return the vector of profile and context of a batch of one sample."""
    fields = ((batch.profile, model.schema.profile), (batch.context, model.schema.context))
    groups = [(codes, names) for codes, names in fields if names]
    if not groups:
        return np.zeros(0, np.float32)
    with torch.inference_mode():
        vectors = model.embeddings.lookup_groups(*groups, value_sets=view.test.store.value_sets)
    return torch.cat(vectors, dim=1)[0].numpy()


def _behavior_columns(model: DIN) -> list[int]:
    """Return the columns of an item's vector that are the vector of a behaviour."""
    columns = torch.arange(model.item_width, dtype=torch.float32)[None]
    return [int(column) for column in model.same_fields(columns)[0]]


def _layers(modules: Iterable[nn.Module]) -> tuple[list[dict[str, Any]], list[Array]]:
    """Describe linear layers with their activations, batch normalisation folded into the weights.

    Returns:
        ``outputs``, ``inputs`` and ``activation`` of each layer; and its arrays: weights, biases, and for ``prelu`` the slopes, for
        ``dice`` mean, deviation and slopes (DIN eq. 9).
    """
    layers: list[dict[str, Any]] = []
    arrays: list[list[Array]] = []
    for module in modules:
        if isinstance(module, nn.Linear):
            layers.append(
                {"outputs": module.out_features, "inputs": module.in_features, "activation": "linear"}
            )
            arrays.append([_array(module.weight), _array(module.bias)])
        elif isinstance(module, BatchNorm):
            weight, bias = arrays[-1]
            mean, variance = _array(module.running_mean), _array(module.running_var)
            scale = _array(module.weight) / np.sqrt(variance + module.eps)
            arrays[-1] = [weight * scale[:, None], (bias - mean) * scale + _array(module.bias)]
        else:
            layers[-1]["activation"], parameters = _activation(module)
            arrays[-1] += parameters
    return layers, [array for of_layer in arrays for array in of_layer]


def _activation(module: nn.Module) -> tuple[str, Sequence[Array]]:
    if isinstance(module, PReLU):
        return "prelu", [_array(module.weight)]
    if isinstance(module, Dice):
        norm = module.standardize
        deviation = np.sqrt(_array(norm.running_var) + norm.eps)
        return "dice", [_array(norm.running_mean), deviation, _array(module.alpha)]
    return type(module).__name__.lower(), []


def _array(tensor: Tensor | None) -> Array:
    assert tensor is not None
    return tensor.detach().cpu().numpy()
