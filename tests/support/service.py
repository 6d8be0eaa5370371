"""A small shop behind the ranking service: six items, three users, an own column, the time since a behaviour, one context feature."""

import threading
import time
from contextlib import contextmanager

import pandas as pd
import requests
import torch
import uvicorn

from deep_interest.logs.encoded_log import encode_log
from deep_interest.logs.encoding import behavior_log, code_column, encode_behaviors, encode_features
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies, Vocabulary
from deep_interest.models.config import Precision
from deep_interest.models.precision import reduce_precision
from deep_interest.models.registry import build_model, model_config
from deep_interest.service.deployment import Serving
from deep_interest.service.settings import ServiceSettings
from deep_interest.service.worker import application
from deep_interest.serving.snapshot import SnapshotFacts, load_snapshot, save_snapshot
from deep_interest.serving.version import VersionArtifacts, read_version, write_version

EXPERIMENT = "shop.din"
COLUMNS = FeatureColumns(
    item=("item_id", "category"),
    behavior=("item_id", "category", "action", "gap"),
    profile=("age",),
    context=("hour",),
)
STANDARDISED = COLUMNS.model_copy(
    update={
        "item": ("item_id", "category", "price"), "behavior": ("item_id", "category", "price", "action", "dwell", "weekday", "gap"),
        "standardised": ("price", "dwell", "hour"),
    }
)  # fmt: skip
"""With numbers as such in an item, a behaviour and the context, and a feature of a behaviour's time."""
FLOAT32 = Precision()
CONTEXT = {"hour": 9}
LOG_END = 105
BEHAVIORS = pd.DataFrame(
    {
        "user": ["ann", "ann", "ann", "bob", "cem"],
        "item": [10, 11, 12, 12, 15],
        "time": [100, 101, 102, 103, LOG_END],
        "action": ["view", "buy", "view", "buy", "view"],
        "dwell": [3.0, 4.0, 9.0, 1.0, 2.0],
    }
)
ITEMS = pd.DataFrame({"item": range(10, 16), "category": list("aabbcc"), "price": [1.0, 2, 3, 4, 5, 6]})
USERS = pd.DataFrame({"user": ["ann", "bob", "cem"], "age": ["20", "30", "20"]})


def make_snapshot(
    settings,
    version="v1",
    *,
    model="din",
    seed=0,
    max_len=5,
    columns=COLUMNS,
    precision=FLOAT32,
    calibration=None,
):
    """Write a version with random weights and its snapshot; return the snapshot's name."""
    tables = CanonicalTables(BEHAVIORS, ITEMS, USERS)
    users, items = Vocabulary.fit(BEHAVIORS["user"]), Vocabulary.fit(ITEMS["item"])
    log, vocabularies = encode_log(tables, users=users, items=items), FieldVocabularies()
    context = {"hour": code_column(vocabularies, "hour", pd.Series([9, 10, 11]), columns)}
    own = encode_behaviors(BEHAVIORS, columns, vocabularies=vocabularies)
    features = encode_features(tables, log, columns, context=context, own=own, vocabularies=vocabularies)
    config = model_config(model, {}, common={"embedding_dim": 4, "embedding_std": 1.0, "hidden": (16, 8)})
    torch.manual_seed(seed)
    net = build_model(model, config, features.schema)
    manifest = {
        "model": model, "config": config.model_dump(mode="json"), "schema": features.schema.model_dump(),
        "training": {"max_len": max_len}, "precision": precision.model_dump(),
    }  # fmt: skip
    registry, weights = settings.folder / "registry", net.state_dict()
    packed = reduce_precision(net, precision)
    write_version(
        registry / version, VersionArtifacts(manifest, weights, {}, vocabularies, packed, calibration)
    )
    facts = SnapshotFacts(
        experiment=EXPERIMENT,
        version=version,
        columns=columns,
        max_len=max_len,
        log_end=LOG_END,
        last_day="2024-01-01",
    )
    name = f"{version}.2024-01-01"
    save_snapshot(
        settings.snapshots / name,
        facts,
        read_version(registry / version),
        behavior_log(log, features, own),
        features,
        users,
        items,
    )
    return name


def make_settings(folder, **options):
    """Settings of a service in a folder."""
    return ServiceSettings(experiment=EXPERIMENT, folder=folder, threads=1, **options)


class Client:
    """A client of a service."""

    def __init__(self, port, token=None):
        self.url = f"http://127.0.0.1:{port}"
        self._session = requests.Session()
        if token:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def get(self, path):
        return self._session.get(self.url + path, timeout=10)

    def post(self, path, body, **options):
        key = "data" if isinstance(body, bytes | str) else "json"
        return self._session.post(self.url + path, timeout=10, **{key: body}, **options)

    def rank(self, user="ann", items=(10, 11, 12, 13, 14, 15), **more):
        body = {"candidates": [{"item": item} for item in items], "context": CONTEXT, **more}
        return self.post("/rank", body if user is None else {"user": user, **body})

    def ctr(self, *args, **more):
        """Click probabilities by item."""
        response = self.rank(*args, **more)
        assert response.status_code == 200, response.text
        return {of["item"]: of["ctr"] for of in response.json()["ranking"]}


@contextmanager
def running(settings, *, app=None):
    """Serve in a thread of this process."""
    config = uvicorn.Config(
        app or application(settings), port=0, log_level="error", access_log=False, lifespan="on"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield Client(server.servers[0].sockets[0].getsockname()[1], settings.token)
    finally:
        server.should_exit = True
        thread.join()


def prepared(folder, *, serving=None, versions=("v1",), **options):
    """Settings of a service whose versions are written; the first one serves unless ``serving`` says otherwise."""
    settings = make_settings(folder, **options)
    names = [make_snapshot(settings, version, seed=seed) for seed, version in enumerate(versions)]
    if serving or names:
        (serving or Serving(primary=names[0])).write(settings.serving_file)
    return settings


def snapshot_of(settings, name="v1.2024-01-01"):
    """A snapshot of a service."""
    return load_snapshot(settings.snapshots / name)
