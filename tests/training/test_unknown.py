"""Embedding rows that no training sample looks up: the unknown id's, and those of ids without a sample."""

import numpy as np
import pytest
import torch
from support.training import sample_set, small_data, with_tags

from deep_interest.logs.schema import Field
from deep_interest.models.embeddings import Table, embedding_tables
from deep_interest.models.registry import build_model, model_config
from deep_interest.training.loop import Fit
from deep_interest.training.occurrences import occurrences_of
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.unknown import UnknownRows

COMMON = {"embedding_dim": 4, "hidden": (8, 4), "attention_hidden": (8, 4)}
UNSEEN = {3, 7}  # items that no training sample holds


def table(values: list[list[float]], *groups: str) -> Table:
    made = Table(Field(name="item_id", size=len(values)), len(values[0]), groups=groups or ("item",), std=0.0)
    made.weight.data = torch.tensor(values)
    return made


def test_untrained_rows_are_the_mean_of_the_trained_each_counted_once():
    """Rows 1 and 3 occur 3 times and once: the mean of their vectors is ((1, 2) + (5, -2)) / 2 = (3, 0)."""
    item_ids = table([[9.0, 9.0], [1.0, 2.0], [8.0, 8.0], [5.0, -2.0]])
    UnknownRows([item_ids], {"item_id:item": torch.tensor([0, 3, 0, 1])}).fill()
    assert item_ids.weight.tolist() == [[3.0, 0.0], [1.0, 2.0], [3.0, 0.0], [5.0, -2.0]]


def test_a_row_of_the_unknown_that_training_holds_is_kept():
    item_ids = table([[9.0], [1.0], [8.0]])
    UnknownRows([item_ids], {"item_id:item": torch.tensor([1, 3, 0])}).fill()
    assert item_ids.weight.tolist() == [[9.0], [1.0], [(9.0 + 1.0) / 2]]


def test_rows_that_negatives_or_an_earlier_model_have_trained_are_kept():
    counts = {"item_id:item": torch.tensor([0, 2, 0, 0])}
    drawn, earlier = table([[9.0], [1.0], [8.0], [7.0]]), table([[9.0], [1.0], [8.0], [7.0]])
    UnknownRows([drawn], counts, negative_fields=["item_id"]).fill()
    assert drawn.weight.squeeze(1).tolist() == [1.0, 1.0, 8.0, 7.0]
    UnknownRows([earlier], counts, trained_before={"item_id:item": 3}).fill()
    assert earlier.weight.squeeze(1).tolist() == [1.0, 1.0, 8.0, 1.0]


def test_tables_of_crosses_and_tables_without_a_sample_are_left_alone():
    crosses, unused = table([[9.0], [1.0]]), table([[9.0], [1.0]])
    crosses.groups = ()
    UnknownRows([crosses, unused], {"item_id:item": torch.tensor([0, 0])}).fill()
    assert crosses.weight.tolist() == unused.weight.tolist() == [[9.0], [1.0]]


def test_the_mean_has_the_same_bits_with_one_and_with_more_threads():
    torch.manual_seed(0)
    values = torch.randn(100_000, 1)
    counts = {"item_id:item": torch.randint(1, 9, (100_000,)).index_fill_(0, torch.tensor([0]), 0)}
    means, threads = [], torch.get_num_threads()
    for number in (1, 4):
        torch.set_num_threads(number)
        item_ids = table([[0.0]])
        item_ids.weight.data = values.clone()
        UnknownRows([item_ids], counts).fill()
        means.append(item_ids.weight[0].item())
    torch.set_num_threads(threads)
    assert means[0] == means[1]


def data_without_unseen_items(*, tags: bool = False):
    data = with_tags(small_data()) if tags else small_data()
    data.samples["item"] = data.samples["item"].where(
        ~(data.samples["item"].isin(UNSEEN) & (data.samples["split"] == "train")), 1
    )
    item_ids = data.log.fields["item_id"]
    for unseen in UNSEEN:
        item_ids[item_ids == unseen] = 1
    return data


def fitted(folder, key: str, *, unknown: bool, **options) -> tuple[torch.nn.Module, Fit]:
    data = data_without_unseen_items(tags=key in ("base", "lr", "fm"))
    train = sample_set(data)
    torch.manual_seed(1)
    model = build_model(key, model_config(key, {}, common=COMMON), train.store.schema)
    settings = {"batch_size": 32, "epochs": 2, "patience": 9, "learning_rate": 0.02} | options
    fit = Fit(
        label="test", model=model, train=train, validation=sample_set(data, "validation"), options=TrainingOptions(**settings),
        seed=1, state_file=folder / f"{unknown}.pt", fingerprint="f", unknown=UnknownRows.of(model, occurrences_of(embedding_tables(model), train)) if unknown else None,
    )  # fmt: skip
    fit.run()
    return model, fit


@pytest.mark.parametrize("key", ["base", "lr", "fm", "din", "din_dice", "wide_deep", "deepfm", "bst"])
def test_a_fit_changes_untrained_rows_only(tmp_path, key):
    """The network and the trained rows are those of a fit without it, bit for bit; all other rows are the mean of these."""
    model, fit = fitted(tmp_path, key, unknown=True, selection="logloss", epochs=1)
    plain, _ = fitted(tmp_path, key, unknown=False, selection="logloss", epochs=1)
    tables = {table.weight.data_ptr() for table in embedding_tables(model)}
    for mine, other in zip(embedding_tables(model), embedding_tables(plain), strict=True):
        if not mine.groups:
            continue
        changed = set((mine.weight != other.weight).any(1).nonzero().squeeze(1).tolist())
        if mine.field in ("item_id", "category"):
            held, expected = _rows_by_hand(fit, mine)
            assert changed == set(range(mine.num_embeddings)) - held
            assert changed >= ({0} | UNSEEN if mine.field == "item_id" else {0})
            for row in changed:
                np.testing.assert_allclose(mine.weight[row].detach(), expected, rtol=1e-6, atol=1e-9)
    for mine, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert mine.data_ptr() in tables or torch.equal(mine, other)


def _rows_by_hand(fit: Fit, table: Table) -> tuple[set[int], np.ndarray]:
    """The rows that training samples look up, and their mean."""
    train, store = fit.train, fit.train.store
    looked_up = set()
    for user, item, end in zip(
        train.user.tolist(), train.item.tolist(), train.history_end.tolist(), strict=True
    ):
        start = int(store.offsets[user])
        if "item" in table.groups:
            looked_up.add(int(store.items[table.field][item]))
        if "behavior" in table.groups:
            looked_up |= set(store.history[table.field][start : start + end].tolist())
    return looked_up, table.weight[sorted(looked_up)].detach().double().numpy().mean(0)


def test_every_evaluation_scores_with_the_mean_as_it_is_then(tmp_path):
    """The validation candidates have ids that training lacks, so each evaluation's loss depends on their rows; training does not."""
    with_mean = fitted(tmp_path, "base", unknown=True)[1].progress.history
    without = fitted(tmp_path, "base", unknown=False)[1].progress.history
    assert [row["train_loss"] for row in with_mean] == [row["train_loss"] for row in without]
    _, fit = fitted(tmp_path, "base", unknown=True, epochs=1)
    assert with_mean[0]["validation_loss"] == fit.progress.history[0]["validation_loss"]
    assert all(
        one["validation_loss"] != other["validation_loss"]
        for one, other in zip(with_mean, without, strict=True)
    )


def test_the_default_is_the_mean():
    assert TrainingOptions().unknown == "mean"
