"""What a fit remembers between its steps and its lives, down to the states of a GPU, which is imitated here."""

import pytest
import torch
from support.training import sample_set, small_data, with_tags

from deep_interest.models.embeddings import Table
from deep_interest.models.registry import build_model, model_config
from deep_interest.ops.gradients import CoalescedGrad
from deep_interest.ops.runtime.parallel import threads_for_kernels
from deep_interest.training import loop
from deep_interest.training.data import FeatureStore
from deep_interest.training.dropout import drop_behaviors
from deep_interest.training.loop import Fit
from deep_interest.training.optimizers import Optimizer
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.state import Progress

SMALL = {"embedding_dim": 4, "hidden": (8, 4), "attention_hidden": (8, 4)}


def make_fit(folder, options=None, *, key="base", model_options=None, **more):
    train, validation = (sample_set(small_data(), split) for split in ("train", "validation"))
    torch.manual_seed(0)
    model = build_model(key, model_config(key, model_options or {}, common=SMALL), train.store.schema)
    settings = TrainingOptions(**({"batch_size": 100, "epochs": 2, "patience": 9} | (options or {})))
    return Fit(
        label="test", model=model, train=train, validation=validation, options=settings, seed=4, state_file=folder / "state.pt",
        fingerprint="f", **more,
    )  # fmt: skip


def test_a_fit_starts_with_nothing_done(tmp_path):
    fit = make_fit(tmp_path)
    assert fit.progress == Progress()
    assert fit.best_model is None
    assert fit._loss_sums.dtype == torch.float64
    assert fit._loss_sums.tolist() == [0, 0]
    assert fit.device == torch.device("cpu")
    assert fit.negative_fields == []


@pytest.mark.parametrize(
    ("key", "batch_norm", "expected"), [("din", False, True), ("lstm", False, True), ("base", True, False)]
)
def test_compiled_operations_have_all_threads_unless_the_model_leaves_much_to_torch(
    tmp_path, key, batch_norm, expected
):
    fit = make_fit(tmp_path, key=key, model_options={"batch_norm": batch_norm})
    assert (fit._threads is threads_for_kernels) == expected


def test_the_order_of_requests_comes_from_the_seed_and_keeps_their_samples_in_order(tmp_path):
    fit = make_fit(tmp_path, {"shuffle": "requests"})
    requests = fit.train.requests.tolist()
    places = torch.randperm(
        max(requests) + 1, generator=torch.Generator().manual_seed(4 * 1_000_003 + 2)
    ).tolist()
    expected = sorted(range(len(requests)), key=lambda sample: (places[requests[sample]], sample))
    assert fit._order(2)[0 : len(requests)].tolist() == expected


def test_each_evaluation_without_improvement_lowers_the_learning_rate_again(tmp_path, monkeypatch):
    values = iter([0.7, 0.6, 0.65, 0.8, 0.8, 0.1, 0.2])
    monkeypatch.setattr(loop, "validate", lambda *_arguments, **_options: (0.5, next(values)))
    fit = make_fit(tmp_path, {"epochs": 50, "patience": 3, "plateau_factor": 0.5, "learning_rate": 0.08})
    rows = fit.run().history
    assert [row["learning_rate"] for row in rows] == [0.08, 0.08, 0.04, 0.02, 0.02, 0.01, 0.005]
    assert fit.progress.bad_evaluations == 3
    assert fit.progress.best == 0.8
    assert [row["validation_gauc"] for row in rows] == [0.7, 0.6, 0.65, 0.8, 0.8, 0.1, 0.2]


def test_the_state_is_saved_when_more_than_the_interval_has_passed_or_by_force(tmp_path, monkeypatch):
    saved, now = [], [100.0]
    monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(loop, "save_state", lambda file, **parts: saved.append((file, parts)))
    fit = make_fit(tmp_path, checkpoint_seconds=10.0)
    fit._last_save = 90.0
    fit._save(force=False)
    assert saved == []
    now[0] = 100.5
    fit._save(force=False)
    assert fit._last_save == 100.5
    fit._save(force=False)
    fit._save(force=True)
    assert len(saved) == 2
    file, parts = saved[0]
    assert file == tmp_path / "state.pt"
    assert parts["fingerprint"] == "f"
    assert parts["progress"] is fit.progress
    assert torch.equal(parts["tensors"]["random"][0], torch.get_rng_state())
    assert len(parts["tensors"]["random"]) == 1


def test_on_a_gpu_its_random_state_is_saved_and_restored_too(tmp_path, monkeypatch):
    fit, gpu, written, kept = make_fit(tmp_path), torch.device("cuda"), [], {}
    states = {gpu: torch.tensor([7], dtype=torch.uint8)}
    monkeypatch.setattr(torch.cuda, "get_rng_state", states.__getitem__)
    monkeypatch.setattr(
        torch.cuda, "set_rng_state", lambda state, device: written.append((state.tolist(), device))
    )
    monkeypatch.setattr(loop, "save_state", lambda file, **parts: kept.update(parts))
    fit.device, fit._last_save = gpu, 0.0
    fit._save(force=True)
    cpu, cuda = kept["tensors"]["random"]
    assert cuda is states[gpu]
    asked = []

    def load(file, **of):
        asked.append((file, of))
        return kept["tensors"] | {"progress": vars(Progress(epoch=1, loss_sum=3.5, auxiliary_sum=0.25))}

    monkeypatch.setattr(loop, "load_state", load)
    torch.manual_seed(99)
    fit._resume()
    assert asked == [(tmp_path / "state.pt", {"fingerprint": "f", "device": gpu})]
    assert torch.equal(torch.get_rng_state(), cpu)
    assert written == [([7], gpu)]
    assert fit._loss_sums.tolist() == [3.5, 0.25]
    assert fit.progress.epoch == 1


def test_a_finished_state_gives_back_the_selected_model_and_a_kept_optimizer_alone(tmp_path, monkeypatch):
    first = make_fit(tmp_path, {"epochs": 1}, keep_optimizer=True)
    first.run()
    again = make_fit(tmp_path, {"epochs": 1})
    monkeypatch.setattr(
        torch, "set_rng_state", lambda state: pytest.fail("a finished fit has no random state")
    )
    again._resume()
    assert again.progress == first.progress
    assert again.optimizer.state_dict()["steps"] == first.optimizer.state_dict()["steps"] == [3, 3, 3]
    assert again.best_model.keys() == first.best_model.keys()


def test_a_finished_fit_without_validation_saves_its_last_parameters(tmp_path):
    fit = make_fit(tmp_path, {"epochs": 1})
    fit.validation = sample_set(small_data(), "nothing")
    fit.run()
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    assert set(state) == {"fingerprint", "progress", "best_model"}
    for name, tensor in fit.model.state_dict().items():
        assert torch.equal(state["best_model"][name], tensor)


def test_a_penalty_counts_a_repeated_row_once():
    """On a GPU a batch's rows keep their number: entries that only repeat a row have a gradient of 0 and no penalty."""

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            field = small_data().features.schema.item[0]
            self.table = Table(field, 1, groups=(), std=1.0)

    for decoupled in (False, True):
        net = Net()
        torch.nn.init.constant_(net.table.weight, 2.0)
        optimizer = Optimizer(net, TrainingOptions(l2=0.5, decoupled=decoupled, learning_rate=0.1))
        real = torch.tensor([[1.0], [1.0], [0.0]])
        found = CoalescedGrad(torch.tensor([3, 5, 5]), torch.zeros(3, 1), real)
        with torch.no_grad():
            optimizer._penalize(net.table.weight, found, optimizer.regularizers[0], None)
        moved = (2.0 - net.table.weight.detach())[[3, 5, 0], 0].tolist()
        assert found.gradient[:, 0].tolist() == ([0, 0, 0] if decoupled else [1, 1, 0])
        assert moved == pytest.approx([0.1, 0.1, 0] if decoupled else [0, 0, 0])


def test_the_host_keeps_the_cells_of_the_behaviours_that_stay():
    batch = sample_set(with_tags(small_data())).batch(torch.arange(30))
    kept = drop_behaviors(batch, 0.4)
    assert kept.history["tags"].host_copy.tolist() == kept.history["tags"].tolist()
    assert not hasattr(kept.history["item_id"], "host_copy")


@pytest.mark.parametrize("fields", [("item_id", "category"), ("category",)])
def test_drawn_items_are_on_the_device_of_the_behaviours(fields):
    """With ``meta`` as the default, a tensor whose device nobody names would not go together with those of the store."""
    store = sample_set(small_data()).store
    history = {name: store.history[name] for name in fields}
    store.sample_negatives(history)
    with torch.device("meta"):
        drawn = store.sample_negatives(history)
    assert all(codes.device.type == "cpu" for codes in drawn.values())


@pytest.mark.parametrize("tags", [False, True])
def test_everything_of_a_store_and_of_its_samples_is_on_its_device(tags):
    data = with_tags(small_data()) if tags else small_data()
    samples = sample_set(data, device="meta")
    store: FeatureStore = samples.store
    tensors = [store.offsets, *store.history.values(), *store.items.values(), *store.users.values()]
    tensors += [tensor for sets in store.value_sets.values() for tensor in sets]
    tensors += [samples.user, samples.item, samples.history_end, samples.labels]
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    older = samples.with_vocabularies_of(store.schema).store.value_sets
    assert {tensor.device.type for sets in older.values() for tensor in sets} <= {"meta"}
    assert len(older) == tags
