"""What a user may say about retraining."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from deep_interest.models.registry import MODELS
from deep_interest.simulation.days import DailyLog
from deep_interest.training.parameters import KnownOptions

Strategy = Literal["full_window", "warm_start", "warm_start_with_distillation"]
STRATEGIES: tuple[Strategy, ...] = ("full_window", "warm_start", "warm_start_with_distillation")


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DayBounds(_Strict):
    """What a day must keep to, against the days before it.

    Attributes:
        trailing_days: that many days before it are the measure; the relative bounds begin with the third.
        volume: fewest and most impressions and behaviours, as factors of the trailing median.
        ctr: lowest and highest click-through rate, as factors of the trailing median.
        missing_rise: a column's share of missing values may be above the trailing median by this much.
        unknown_rise: so may the share of impressions whose item or context value no day before had.
        repeated: highest share of impressions that stand there twice.
        minimum_impressions: fewest impressions, whatever the days before had.
    """

    trailing_days: int = Field(7, ge=1)
    volume: tuple[float, float] = (0.3, 3.0)
    ctr: tuple[float, float] = (0.5, 2.0)
    missing_rise: float = Field(0.1, ge=0, le=1)
    unknown_rise: float = Field(0.3, ge=0, le=1)
    repeated: float = Field(0.1, ge=0, le=1)
    minimum_impressions: int = Field(1, ge=1)


class GateParameters(_Strict):
    """What a challenger must show on the held-out day.

    A first version, with no champion to compare with, must beat the items' popularity and guessing, whatever ``minimum_gain`` and
    ``logloss_rise`` allow.

    Attributes:
        level: the interval of the GAUC's gain has the mass ``1 - level``, half of what is left on each side.
        minimum_gain: the interval's lower end must be above it. 0: only what is better beyond doubt serves; a small
            negative number: what is not worse by more than that serves.
        calibration: lowest and highest predicted CTR over observed CTR.
        logloss_rise: the log loss may be above the champion's by this share of it.
        minimum_users: users of the day with both classes, on whom GAUC rests.
        minimum_coverage: their share of the day's users.
    """

    level: float = Field(0.05, gt=0, lt=1)
    minimum_gain: float = 0.0
    calibration: tuple[float, float] = (0.7, 1.4)
    logloss_rise: float = Field(0.02, ge=0)
    minimum_users: int = Field(100, ge=2)
    minimum_coverage: float = Field(0.02, ge=0, le=1)


class ScoringParameters(_Strict):
    """How pairs of users and candidates are scored in batches.

    Attributes:
        gamma: eCPM = CTR^γ × bid (DIEN, footnote 4).
        top_k: candidates a user keeps, by eCPM; all if left out.
        pairs_at_once: users are scored in groups of at most this many pairs, which bounds the memory.
        context: ``{context feature: value}`` where the users' table has no such column.
    """

    gamma: float = Field(1.0, gt=0)
    top_k: int | None = Field(10, ge=1)
    pairs_at_once: int = Field(65_536, ge=1)
    context: dict[str, int | float | str] = {}


class RetrainingParameters(_Strict):
    """How a row is kept fresh.

    Attributes:
        strategy: ``full_window`` trains anew on the last days; ``warm_start`` goes on from the champion, with its optimiser's
            state, on the days that it has not seen; ``warm_start_with_distillation`` also learns from the champion's
            predictions. Without a champion the first run is a ``full_window``.
        window_days: days that a full window trains on, and how far back a warm start looks for days it has not seen.
        replay_days: that many days before the unseen ones are trained on again in a warm start, so that one pass over little
            data neither forgets nor chases the day.
        history_days: behaviours of that many days before the held-out day make the histories; all if left out.
        training: training options of a full window that go before the row's.
        warm_training: those of a warm start.
        warm_rate: a warm start's learning rate as a multiple of the row's, if ``warm_training`` names none.
        teacher_weight: share of the champion's prediction in the labels that a distilled model learns (Hinton et al. 2015).
        seed: of the fits.
        days: what a day must keep to.
        gate: what a challenger must show.
        keep_versions: older ones are deleted, never the champion nor the one before it.
        webhook: the run's summary is posted to this URL as JSON; failing to is no failure of the run.
        webhook_seconds: how long that may take.
        mlflow_uri: an MLflow registry that is told which version serves, as ``sqlite:///mlflow.db``; the files decide.
        scoring: batches of pairs.
    """

    strategy: Strategy = "warm_start"
    window_days: int = Field(14, ge=1)
    replay_days: int = Field(0, ge=0)
    history_days: int | None = Field(None, ge=1)
    training: KnownOptions = {}
    warm_training: KnownOptions = {}
    warm_rate: float = Field(1.0, gt=0)
    teacher_weight: float = Field(0.5, gt=0, lt=1)
    seed: int = Field(1, ge=0)
    days: DayBounds = DayBounds()
    gate: GateParameters = GateParameters()
    keep_versions: int = Field(10, ge=1)
    webhook: str | None = None
    webhook_seconds: float = Field(5.0, gt=0)
    mlflow_uri: str | None = None
    scoring: ScoringParameters = ScoringParameters()


class BacktestParameters(_Strict):
    """A replay of the simulated log, day by day.

    Attributes:
        log: what happens to the log from day to day.
        model: the row that is kept fresh.
        warm_up_days: days that every strategy has been trained on before the replay begins.
        seeds: one replay each.
    """

    log: DailyLog = DailyLog()
    model: str = "din"
    warm_up_days: int = Field(5, ge=1)
    seeds: tuple[int, ...] = Field((1, 2), min_length=1)

    @field_validator("model")
    @classmethod
    def _is_a_row(cls, key: str) -> str:
        if key not in MODELS:
            raise ValueError(f"{key} is no model; the models are {', '.join(MODELS)}")
        return key
