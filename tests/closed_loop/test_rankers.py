"""A version as a ranker: in process and through the service, and arms that name it."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from pydantic import ValidationError
from support.service import make_settings, running

from deep_interest.closed_loop.day import Shop, simulate_day
from deep_interest.closed_loop.http_ranker import ServiceArm
from deep_interest.closed_loop.rankers import Random
from deep_interest.closed_loop.setup import _arm
from deep_interest.closed_loop.version_ranker import VersionRanker, check_features
from deep_interest.errors import InputError
from deep_interest.logs.canonical import canonical
from deep_interest.logs.encoded_log import encode_log
from deep_interest.logs.encoding import behavior_log, code_column, encode_behaviors, encode_features
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies, Vocabulary
from deep_interest.models.registry import build_model, model_config
from deep_interest.service.deployment import Serving
from deep_interest.serving.registry import Registry
from deep_interest.serving.snapshot import SnapshotFacts, save_snapshot
from deep_interest.serving.version import VersionArtifacts, read_version, write_version
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.events import Events
from deep_interest.simulation.shop_parameters import AuctionParameters, RankerParameters, TrafficParameters
from deep_interest.simulation.users import user_block
from deep_interest.simulation.visits import make_block
from deep_interest.simulation.world import make_items, make_world
from deep_interest.training.parameters import RunParameters

CONFIG = SimulationConfig(
    users=60, items=80, categories=10, themes=5, shops=12, mean_behaviors=15, behavior_days=10, impression_days=2,
    clicks={"target_ctr": 0.3},
)  # fmt: skip
SHOP = Shop(CONFIG, TrafficParameters(visits=1.5, candidates=8), AuctionParameters())
COLUMNS = FeatureColumns(
    item=("item_id", "category", "shop"), profile=("gender", "age_level"), context=("pid", "hour", "slot")
)
RUN = RunParameters(device="cpu", workspace="unused", evaluation_batch_size=64)
NAME = "2024-03-01-0000"


class Both:
    """Ranks by the first ranker, and keeps what both predict."""

    version = "both"

    def __init__(self, *rankers):
        self.rankers, self.found = rankers, []

    def scores(self, batch):
        found = [ranker.scores(batch) for ranker in self.rankers]
        self.found.append((batch, *found))
        return found[0]


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """A service with a version with random weights, that knows the ids of the shop and no behaviour of its users."""
    settings = make_settings(tmp_path_factory.mktemp("service"))
    items, users = make_items(CONFIG), user_block(CONFIG, 0)
    organic, world = make_block(CONFIG, 0).organic, make_world(CONFIG)
    behaviors = pd.DataFrame(
        {
            "user": 1 + organic.user,
            "item": world.item_id[organic.item],
            "time": CONFIG.origin + organic.second,
        }
    )
    tables = canonical(CanonicalTables(behaviors, items, users))
    known_users, known_items = Vocabulary.fit(users["user"]), Vocabulary.fit(items["item"])
    log, vocabularies = encode_log(tables, users=known_users, items=known_items), FieldVocabularies()
    values = {"pid": [1, 2], "hour": range(24), "slot": [1, 2, 3, 4]}
    context = {
        name: code_column(vocabularies, name, pd.Series(list(of)), COLUMNS) for name, of in values.items()
    }
    own = encode_behaviors(tables.behaviors, COLUMNS, vocabularies=vocabularies)
    features = encode_features(tables, log, COLUMNS, context=context, own=own, vocabularies=vocabularies)
    config = model_config("din", {}, common={"embedding_dim": 4, "embedding_std": 1.0, "hidden": (16, 8)})
    torch.manual_seed(0)
    net = build_model("din", config, features.schema)
    manifest = {
        "model": "din", "config": config.model_dump(mode="json"), "schema": features.schema.model_dump(mode="json"),
        "training": {"optimizer": "adam", "learning_rate": 0.1, "batch_size": 8, "epochs": 1, "max_len": 6},
    }  # fmt: skip
    folder = settings.folder / "registry" / NAME
    write_version(folder, VersionArtifacts(manifest, net.state_dict(), {}, vocabularies))
    facts = SnapshotFacts(
        experiment="shop.din",
        version=NAME,
        columns=COLUMNS,
        max_len=6,
        log_end=CONFIG.origin,
        last_day="2024-03-01",
    )
    name = f"{NAME}.2024-03-01"
    save_snapshot(
        settings.snapshots / name, facts, read_version(folder), behavior_log(log, features, own), features, known_users, known_items
    )  # fmt: skip
    Serving(primary=name).write(settings.serving_file)
    return settings


@pytest.fixture(scope="module")
def in_process(settings):
    return VersionRanker(read_version(settings.folder / "registry" / NAME), CONFIG, COLUMNS, RUN)


@pytest.mark.nightly
@pytest.mark.slow
def test_the_service_and_the_process_rank_a_log_alike(settings, in_process):
    block, nothing = make_block(CONFIG, 0), Events(*(np.zeros(0, np.int64) for _ in range(3)))
    users = np.zeros(CONFIG.users, np.int64)
    with running(settings) as client:
        service = ServiceArm(f"{client.url}/v2/models/shop.din").ranker()
        assert service.version == in_process.version == NAME
        both = Both(in_process, service)
        clicks = simulate_day(SHOP, block, nothing, 0, users, [Random()]).clicks
        shown = simulate_day(SHOP, block, clicks, 1, users, [both]).impressions
        alone = simulate_day(SHOP, block, clicks, 1, users, [service]).impressions
    visits = 0
    for _, ours, theirs in both.found:
        np.testing.assert_allclose(ours, theirs, rtol=2e-5)
        visits += len(ours)
    assert visits > 50
    assert np.concatenate([ours.ravel() for _, ours, _ in both.found]).std() > 0.01
    assert shown[["user", "time", "slot", "item", "label"]].equals(
        alone[["user", "time", "slot", "item", "label"]]
    )


@pytest.mark.slow
def test_the_history_ends_before_the_visit(in_process):
    block = make_block(CONFIG, 0)
    both = Both(in_process)
    simulate_day(
        SHOP,
        block,
        Events(*(np.zeros(0, np.int64) for _ in range(3))),
        0,
        np.zeros(CONFIG.users, np.int64),
        [both],
    )
    batch, scores = both.found[0]
    row = int(np.argmax(batch.visits.second))
    visit = batch.part(np.array([row]))
    before = batch.behaviors.second < visit.visits.second[0]
    later = Events(batch.behaviors.user[before], batch.behaviors.item[before], batch.behaviors.second[before])
    assert before.sum() < len(before)
    only_before = type(visit)(CONFIG, block, later, visit.visits)
    np.testing.assert_allclose(in_process.scores(only_before), scores[[row]], rtol=1e-6)
    none = type(visit)(CONFIG, block, Events(later.user[:0], later.item[:0], later.second[:0]), visit.visits)
    assert np.abs(in_process.scores(none) - scores[[row]]).max() > 1e-3


def test_a_service_that_does_not_answer_is_an_error_that_names_it():
    with pytest.raises(
        InputError, match=r"http://127.0.0.1:9/v2/models/shop.din: the service does not answer"
    ):
        ServiceArm("http://127.0.0.1:9/v2/models/shop.din").ranker()


def test_an_arm_names_a_version_of_a_registry(settings):
    arm = RankerParameters(registry=str(settings.folder / "registry"), version=NAME)
    assert _arm(arm, SHOP, COLUMNS, RUN).ranker().version == NAME
    with pytest.raises(InputError, match=f"no version serves; name one .* with version \\({NAME}\\)"):
        _arm(RankerParameters(registry=str(settings.folder / "registry")), SHOP, COLUMNS, RUN)
    assert Registry(settings.folder / "registry").champion() is None


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({}, "an arm has one of"),
        ({"model": "din", "ranker": "oracle"}, "an arm has one of"),
        ({"model": "din", "noise": 1.0}, "noise is an option of"),
        ({"model": "din", "version": "v1"}, "set registry to the folder"),
        ({"service": "127.0.0.1:8080"}, "String should match pattern"),
    ],
)
def test_an_arm_with_contradictory_parts_is_an_error(block, message):
    with pytest.raises(ValidationError, match=message):
        RankerParameters.model_validate(block)


def test_features_that_the_shop_does_not_know_are_an_error():
    check_features(COLUMNS)
    unknown = SimpleNamespace(
        context=("pid", "city"), own_columns=("hour", "action"), multi_hot=(), standardised=("price",)
    )
    with pytest.raises(
        InputError,
        match=r"the simulated shop has no city, action, price; its context features are pid, hour, slot",
    ):
        check_features(unknown)
