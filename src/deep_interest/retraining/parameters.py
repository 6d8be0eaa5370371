"""Parameters of retraining."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from deep_interest.config import as_list
from deep_interest.models.config import Precision
from deep_interest.models.registry import MODELS
from deep_interest.ops.limits import AttentionPrecision, TablePrecision
from deep_interest.simulation.days import DailyLog
from deep_interest.training.parameters import KnownOptions

Strategy = Literal["full_window", "warm_start", "warm_start_with_distillation"]
STRATEGIES: tuple[Strategy, ...] = ("full_window", "warm_start", "warm_start_with_distillation")


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DayBounds(_Strict):
    """Bounds for a new day, relative to the days before it.

    Attributes:
        trailing_days: number of days before it that are the reference; relative bounds need at least three.
        volume: minimum and maximum number of impressions and behaviours, as factors of the trailing median.
        ctr: minimum and maximum click-through rate, as factors of the trailing median.
        missing_rise: maximum increase of the share of missing values in a column over the trailing median.
        unknown_rise: maximum increase of the share of impressions with an unseen item or context value.
        repeated: maximum share of repeated impressions.
        minimum_impressions: minimum number of impressions, independent of earlier days.
    """

    trailing_days: int = Field(7, ge=1)
    volume: tuple[float, float] = (0.3, 3.0)
    ctr: tuple[float, float] = (0.5, 2.0)
    missing_rise: float = Field(0.1, ge=0, le=1)
    unknown_rise: float = Field(0.3, ge=0, le=1)
    repeated: float = Field(0.1, ge=0, le=1)
    minimum_impressions: int = Field(1, ge=1)


class RowRule(_Strict):
    """When an id, or another category, has a row of its own in the embedding tables of its field.

    Attributes:
        min_count: number of times that an id must have been seen, in impressions and behaviours, before it gets a row; until then it
            is unknown.
        max_age_days: number of days in a row without the id after which it loses its row; None for never. An id that comes back is like a
            new one: its count starts again, and a new row has new parameters.
    """

    min_count: int = Field(1, ge=1)
    max_age_days: int | None = Field(None, ge=1)


class GateParameters(_Strict):
    """Conditions for promoting a challenger, on the held-out day.

    A first version has no champion to compare with. It has to beat item popularity and random ranking, whatever
    ``minimum_gain`` and ``logloss_rise`` allow.

    Attributes:
        level: significance level of the interval of the GAUC gain (two-sided).
        minimum_gain: the lower end of the interval must be above it. With 0 only significantly better versions are promoted;
            with a small negative number also versions that are not worse by more than that.
        calibration: minimum and maximum ratio of predicted to observed CTR.
        logloss_rise: maximum relative increase of the log loss over that of the champion.
        minimum_users: minimum number of users with both classes, on which GAUC is based.
        minimum_coverage: minimum share of these users among the users of the day.
        parity: whether the scores that the service has logged for the champion, and those that it would serve with the challenger for the
            same requests, must equal batch scoring's to 10⁻⁶. A first version is not checked, since nothing has been served yet.
        parity_requests: number of logged requests of the champion that ``parity`` needs; the newest ones are checked.
        quantisation_loss: largest loss in GAUC by reduced precision; the upper end of the interval must not be above it.
    """

    level: float = Field(0.05, gt=0, lt=1)
    minimum_gain: float = 0.0
    calibration: tuple[float, float] = (0.7, 1.4)
    logloss_rise: float = Field(0.02, ge=0)
    minimum_users: int = Field(100, ge=2)
    minimum_coverage: float = Field(0.02, ge=0, le=1)
    parity: bool = False
    parity_requests: int = Field(1000, ge=1)
    quantisation_loss: float = Field(0.001, ge=0)


class CalibrationParameters(_Strict):
    """From the probabilities of a model to those of the traffic, see `retraining.calibration`.

    Attributes:
        method: ``none`` serves the probabilities of the model; ``sampling`` corrects them for negatives that the impressions, or
            ``protocol.list_negatives``, left out; ``isotonic`` also fits an isotonic map on half of the users of the held-out day.
        negatives_kept: share of the negatives (impressions without a click) that the impressions have, on all days: 0.25 if three of
            four were dropped at random before they were logged. The shares of ``protocol.list_negatives`` are counted.
        minimum_clicks: minimum number of impressions with, and of those without a click to fit the isotonic map on; with fewer, the
            version has none and the gate refuses it.
    """

    method: Literal["none", "sampling", "isotonic"] = "none"
    negatives_kept: float = Field(1.0, gt=0, le=1)
    minimum_clicks: int = Field(100, ge=1)

    @model_validator(mode="after")
    def _a_share_is_used(self) -> "CalibrationParameters":
        if self.method == "none" and self.negatives_kept < 1:
            raise ValueError(
                f"negatives_kept is {self.negatives_kept:g}, but method none corrects nothing; set method to sampling or isotonic"
            )
        return self


class DelayedClicksParameters(_Strict):
    """What retraining does about clicks that may still come, see `retraining.delayed_clicks`; needs ``source.impressions.click_time``.

    Attributes:
        wait_hours: impressions younger than this on the night are left out of training; ``choose`` for the shortest of ``candidates``
            whose log loss on past nights is not significantly worse than that of the best one.
        correct: whether the likelihood of an impression without a click takes into account that its click may still come.
        complete_hours: age from which the labels of impressions count as complete; younger ones are not in the held-out day.
        minimum_arrived: smallest share of the clicks on the judged impressions that must have arrived by estimate; the gate refuses a
            version otherwise.
        candidates: waiting times in hours that ``choose``, and the backtest of delayed clicks, compare.
        nights: number of past nights on which ``choose`` compares them.
    """

    wait_hours: Annotated[int, Field(ge=0)] | Literal["choose"] = 0
    correct: bool = False
    complete_hours: int = Field(24, ge=0)
    minimum_arrived: float = Field(0.95, ge=0, le=1)
    candidates: Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(as_list)] = Field(
        (0, 24, 48), min_length=1
    )
    nights: int = Field(3, ge=1)

    @property
    def longest_wait(self) -> int:
        """Largest number of hours that retraining may wait."""
        return self.candidates[-1] if self.wait_hours == "choose" else self.wait_hours

    @field_validator("candidates")
    @classmethod
    def _ascends(cls, hours: tuple[int, ...]) -> tuple[int, ...]:
        if list(hours) != sorted(set(hours)):
            raise ValueError(f"candidates is {list(hours)}, expected different hours in ascending order")
        return hours


class ScoringParameters(_Strict):
    """Batch scoring of pairs of users and candidates.

    Attributes:
        gamma: eCPM = CTR^γ × bid (DIEN, footnote 4).
        top_k: number of candidates to keep per user, by eCPM; all if None.
        pairs_at_once: maximum number of pairs scored at once, which bounds the memory.
        context: ``{context feature: value}`` for features that are not columns of the users' table.
    """

    gamma: float = Field(1.0, gt=0)
    top_k: int | None = Field(10, ge=1)
    pairs_at_once: int = Field(65_536, ge=1)
    context: dict[str, int | float | str] = {}


class RetrainingParameters(_Strict):
    """How a model is retrained.

    Attributes:
        strategy: ``full_window`` trains from scratch on the last days; ``warm_start`` continues from the champion, including
            its optimiser state, on the days that it has not seen; ``warm_start_with_distillation`` also learns from the
            champion's predictions. Without a champion the first run uses ``full_window``.
        window_days: training days of a full window, and how far back a warm start looks for unseen days.
        replay_days: number of seen days before the unseen ones that a warm start trains on again, against forgetting.
        history_days: number of days before the held-out day whose behaviours are part of histories; all if None.
        training: training options of a full window, which override those of the model.
        warm_training: training options of a warm start, which override those of the model.
        warm_rate: learning rate of a warm start as a multiple of the model's, unless ``warm_training`` sets it.
        teacher_weight: weight of the champion's prediction in the labels of a distilled model (Hinton et al. 2015).
        seed: seed of the fits.
        rows: ``{field: rule}`` for fields of items and users whose ids do not all have a row in the tables; see `retraining.rows`.
        tables: precision of the embedding tables with which new versions serve and are judged; training is always in float32.
        attention: precision of the factors in DIN's activation unit with which new versions serve and are judged.
        days: bounds for new days.
        gate: conditions for promotion.
        calibration: how new versions are calibrated; the backtest does not calibrate.
        delayed_clicks: waiting time and correction for clicks that may still come.
        keep_versions: number of versions to keep; the champion and the previous champion are always kept.
        webhook: URL to which the summary of a run is posted as JSON; a failed request does not fail the run.
        webhook_seconds: timeout of the request in seconds.
        mlflow_uri: MLflow registry to which versions are mirrored, such as ``sqlite:///mlflow.db``; the files are authoritative.
        scoring: batch scoring.
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
    rows: dict[str, RowRule] = {}
    tables: TablePrecision = "float32"
    attention: AttentionPrecision = "float32"
    days: DayBounds = DayBounds()
    gate: GateParameters = GateParameters()
    calibration: CalibrationParameters = CalibrationParameters()
    delayed_clicks: DelayedClicksParameters = DelayedClicksParameters()
    keep_versions: int = Field(10, ge=1)
    webhook: str | None = None
    webhook_seconds: float = Field(5.0, gt=0)
    mlflow_uri: str | None = None
    scoring: ScoringParameters = ScoringParameters()

    @model_validator(mode="after")
    def _waiting_rows_are_trained_on_later(self) -> "RetrainingParameters":
        wait = self.delayed_clicks.longest_wait
        if self.strategy != "full_window" and self.replay_days * 24 < wait:
            raise ValueError(
                f"delayed_clicks.wait_hours leaves out up to {wait} hours, which a warm start never sees again after {self.replay_days} days "
                f"(replay_days); set replay_days to at least {-(-wait // 24)}, or strategy to full_window"
            )
        return self

    @property
    def precision(self) -> Precision:
        """Precision in which new versions score."""
        return Precision(tables=self.tables, attention=self.attention)


class BacktestParameters(_Strict):
    """A replay of the simulated log, day by day.

    Attributes:
        log: how the log changes from day to day.
        model: model to retrain.
        warm_up_days: training days before the replay.
        seeds: one replay per seed.
    """

    log: DailyLog = DailyLog()
    model: str = "din"
    warm_up_days: int = Field(5, ge=1)
    seeds: tuple[int, ...] = Field((1, 2), min_length=1)

    @field_validator("model")
    @classmethod
    def _is_a_model(cls, key: str) -> str:
        if key not in MODELS:
            raise ValueError(f"{key} is not a model; the models are {', '.join(MODELS)}")
        return key
