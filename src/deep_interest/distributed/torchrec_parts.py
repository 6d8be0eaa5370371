"""What this package uses of TorchRec, imported on first use: the import takes seconds and logs warnings."""

import logging
import warnings
from functools import cache
from types import SimpleNamespace


@cache
def import_torchrec() -> SimpleNamespace:
    """Import TorchRec, and let gradients be summed over the ranks: each rank divides by the size of the whole batch."""
    for name in ("torch.fx._symbolic_trace", "torchrec.distributed.planner"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchrec import EmbeddingCollection, EmbeddingConfig, KeyedJaggedTensor  # noqa: PLC0415
        from torchrec.distributed.comm_ops import set_gradient_division  # noqa: PLC0415
        from torchrec.distributed.embedding import EmbeddingCollectionSharder  # noqa: PLC0415
        from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints, Topology  # noqa: PLC0415
        from torchrec.distributed.planner.storage_reservations import FixedPercentageStorageReservation  # noqa: PLC0415
        from torchrec.distributed.planner.types import PlannerError  # noqa: PLC0415
        from torchrec.distributed.sharding.rw_sequence_sharding import RwSequenceEmbeddingDist  # noqa: PLC0415
        from torchrec.distributed.sharding.rw_sharding import RwSparseFeaturesDist  # noqa: PLC0415
        from torchrec.distributed.sharding.sequence_sharding import SequenceShardingContext  # noqa: PLC0415

    set_gradient_division(False)
    return SimpleNamespace(
        EmbeddingCollection=EmbeddingCollection, EmbeddingConfig=EmbeddingConfig, KeyedJaggedTensor=KeyedJaggedTensor,
        EmbeddingCollectionSharder=EmbeddingCollectionSharder, EmbeddingShardingPlanner=EmbeddingShardingPlanner,
        ParameterConstraints=ParameterConstraints, Topology=Topology, PlannerError=PlannerError,
        FixedPercentageStorageReservation=FixedPercentageStorageReservation, RwSequenceEmbeddingDist=RwSequenceEmbeddingDist,
        RwSparseFeaturesDist=RwSparseFeaturesDist, SequenceShardingContext=SequenceShardingContext,
    )  # fmt: skip
