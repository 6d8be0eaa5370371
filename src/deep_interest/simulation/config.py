"""Parameters of a simulated log: its sizes and the strengths of its effects."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

SECONDS_PER_DAY = 86_400


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class InterestConfig(_Frozen):
    """Duration of interests and their influence on behaviours.

    Attributes:
        dwell_days: mean number of days in one stage of a theme's path.
        end_probability: probability that an interest ends after a stage that is not the last of its path.
        stage_share: share of behaviours in the category of the interest's current stage.
        theme_share: share of behaviours in any category of the theme; the remaining ones are on popular items.
        session_focus: share of a session's behaviours that follow the interest of the session.
        shop_loyalty: probability of choosing an item of the interest's shop, if the shop has the category.
        style_loyalty: probability of choosing an item of the interest's style otherwise.
        affinity_std: standard deviation of the log-odds of themes by age and gender.
    """

    dwell_days: float = Field(6.0, gt=0)
    end_probability: float = Field(0.2, ge=0, le=1)
    stage_share: float = Field(0.75, ge=0, le=1)
    theme_share: float = Field(0.15, ge=0, le=1)
    session_focus: float = Field(0.8, ge=0, le=1)
    shop_loyalty: float = Field(0.3, ge=0, le=1)
    style_loyalty: float = Field(0.6, ge=0, le=1)
    affinity_std: float = Field(0.5, ge=0)

    @model_validator(mode="after")
    def _validate_shares(self) -> "InterestConfig":
        if self.stage_share + self.theme_share > 1:
            raise ValueError(
                f"stage_share + theme_share is {self.stage_share + self.theme_share:g}, expected at most 1: "
                "they are shares of a user's behaviours; reduce one of them"
            )
        return self


class CandidateConfig(_Frozen):
    """Shares of the sources of impression candidates; the remaining candidates are drawn uniformly from all items.

    Attributes:
        stage: share from the category of a current stage.
        next_stage: share from the category after the current stage.
        theme: share from any category of the theme.
        past: share from the category of an earlier stage or a past interest.
        popular: share drawn from all items by popularity.
    """

    stage: float = Field(0.22, ge=0, le=1)
    next_stage: float = Field(0.13, ge=0, le=1)
    theme: float = Field(0.15, ge=0, le=1)
    past: float = Field(0.25, ge=0, le=1)
    popular: float = Field(0.20, ge=0, le=1)

    @model_validator(mode="after")
    def _validate_shares(self) -> "CandidateConfig":
        if (total := sum(self.shares)) > 1 + 1e-9:
            raise ValueError(
                f"the candidate shares add up to {total:g}, expected at most 1; reduce one of them"
            )
        return self

    @property
    def shares(self) -> tuple[float, ...]:
        """Shares in the order of the attributes."""
        return self.stage, self.next_stage, self.theme, self.past, self.popular


class ClickConfig(_Frozen):
    """Click model; for the formula, see the docstring of the package.

    Attributes:
        target_ctr: mean click probability; the bias is set accordingly.
        relevance_strength: log-odds added by a fully relevant history.
        half_saturation: weighted number of relevant behaviours at which half of ``relevance_strength`` is added.
        half_life_days: days after which the weight of a behaviour is halved.
        theme_weight, next_weight, category_weight, style_weight, shop_weight: weight of each match in K.
        lasting_strength: log-odds added by a history with many behaviours in the candidate's category, however old they are; 0 for
            histories whose old behaviours do not matter.
        lasting_half_saturation: number of behaviours at which half of ``lasting_strength`` is added.
        quality_std: standard deviation of the items' own log-odds.
        profile_strength: log-odds per unit of a profile's affinity for the candidate's theme.
        price_strength: log-odds added by the best match of price and shopping level, and subtracted by the worst; used
            only if items have a price.
        context_std: standard deviation of the placements' log-odds, and amplitude of the effect of the hour.
    """

    target_ctr: float = Field(0.25, gt=0, lt=1)
    relevance_strength: float = Field(6.0, ge=0)
    half_saturation: float = Field(1.75, gt=0)
    half_life_days: float = Field(6.0, gt=0)
    theme_weight: float = Field(0.15, ge=0)
    next_weight: float = Field(0.5, ge=0)
    category_weight: float = Field(0.5, ge=0)
    style_weight: float = Field(0.5, ge=0)
    shop_weight: float = Field(0.3, ge=0)
    lasting_strength: float = Field(0.0, ge=0)
    lasting_half_saturation: float = Field(10.0, gt=0)
    quality_std: float = Field(0.35, ge=0)
    profile_strength: float = Field(0.3, ge=0)
    price_strength: float = Field(0.5, ge=0)
    context_std: float = Field(0.15, ge=0)


class ActionConfig(_Frozen):
    """What happens in a behaviour, and how much it says about the interest.

    Each behaviour is a view, a cart or a purchase, and has a dwell time with a log-normal distribution. Its weight in the relevance of
    the history is ``weight of the action · dwell / (dwell + half_dwell)``.

    Attributes:
        cart_share, purchase_share: shares of carts and purchases; the others are views.
        view_weight, cart_weight, purchase_weight: weight of each action.
        median_dwell: median of the dwell time in seconds.
        dwell_spread: standard deviation of the logarithm of the dwell time.
        half_dwell: dwell time in seconds at which a behaviour has half its weight.
    """

    cart_share: float = Field(0.15, ge=0, le=1)
    purchase_share: float = Field(0.1, ge=0, le=1)
    view_weight: float = Field(0.5, ge=0)
    cart_weight: float = Field(2.0, ge=0)
    purchase_weight: float = Field(5.0, ge=0)
    median_dwell: float = Field(20.0, gt=0)
    dwell_spread: float = Field(1.5, ge=0)
    half_dwell: float = Field(30.0, gt=0)

    @model_validator(mode="after")
    def _validate_shares(self) -> "ActionConfig":
        if (total := self.cart_share + self.purchase_share) > 1:
            raise ValueError(
                f"cart_share + purchase_share is {total:g}, expected at most 1; reduce one of them"
            )
        return self


class SlotConfig(_Frozen):
    """Slots of a page, which users examine from the first one on, and the old ranker that fills them.

    A user clicks if she examines the slot and the item is relevant to her, independently (the position-based model): the click
    probability is ``examination[slot - 1] · p`` with ``p`` the probability of the package's docstring. The old ranker sorts the items of
    a page by ``category · (log-odds by the category of the history) + popularity · (standardised log popularity) + noise · N(0, 1)``: it
    knows a part of what makes an item relevant and prefers popular items, so that slots, relevance and popularity are confounded.

    Attributes:
        examination: probability that a user examines each slot, from the first one on; a visit with more items has several pages.
        category, popularity, noise: weights of the old ranker; with noise alone, items are placed at random.
    """

    examination: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field(
        (1.0, 0.7, 0.5, 0.35, 0.25, 0.2), min_length=1
    )
    category: float = Field(0.15, ge=0)
    popularity: float = Field(1.0, ge=0)
    noise: float = Field(2.0, ge=0)


class ClickDelayConfig(_Frozen):
    """How long after the impression a click happens, see `simulation.delays`.

    Attributes:
        mean_hours: mean delay in hours of a category with an average one.
        category_spread: standard deviation over categories of the logarithm of the mean delay; 0 for the same delays in all.
    """

    mean_hours: float = Field(12.0, gt=0)
    category_spread: float = Field(0.0, ge=0)


class SimulationConfig(_Frozen):
    """Sizes, seed and effects of a simulated log; the defaults give a small log.

    Attributes:
        seed: seed of all random numbers.
        users, items, categories, themes, shops: number of each; ids start at 1.
        styles: number of hidden styles within each category.
        price_levels: number of price levels of items; 0 for items without prices.
        popularity_exponent: exponent of the Zipf distribution of item popularity.
        interests_per_user: minimum and maximum number of concurrent interests.
        first_impression_day: UTC day of the first impressions.
        behavior_days: number of days with behaviours before the first impressions; behaviours continue afterwards.
        impression_days: number of days with impressions.
        mean_behaviors, mean_impressions: mean number per user over all days.
        session_behaviors, session_impressions: mean number per visit.
        block_users: number of users generated at a time; another value gives another log.
        actions: what happens in a behaviour; None for behaviours that are all alike.
        slots: slots in which impressions are shown; None if users examine every impression.
        click_delays: when clicks happen; None for clicks at the time of the impression, and no column ``click_time``.
    """

    seed: int = Field(7, ge=0)
    users: int = Field(4_000, ge=1)
    items: int = Field(4_000, ge=1)
    categories: int = Field(60, ge=1)
    themes: int = Field(12, ge=1)
    shops: int = Field(300, ge=1)
    styles: int = Field(4, ge=1)
    price_levels: int = Field(0, ge=0)
    popularity_exponent: float = Field(1.0, ge=0)
    interests_per_user: tuple[int, int] = (2, 4)
    first_impression_day: date = date(2024, 3, 1)
    behavior_days: int = Field(30, ge=0)
    impression_days: int = Field(15, ge=1)
    mean_behaviors: float = Field(40.0, ge=1)
    mean_impressions: float = Field(45.0, gt=0)
    session_behaviors: float = Field(4.0, ge=1)
    session_impressions: float = Field(15.0, ge=1)
    block_users: int = Field(10_000, ge=1)
    interests: InterestConfig = InterestConfig()
    candidates: CandidateConfig = CandidateConfig()
    clicks: ClickConfig = ClickConfig()
    actions: ActionConfig | None = None
    slots: SlotConfig | None = None
    click_delays: ClickDelayConfig | None = None

    def changed(self, changes: Mapping[str, Any]) -> "SimulationConfig":
        """Return the parameters with some changes; those of a nested block are merged.

        Raises:
            pydantic.ValidationError: a changed parameter does not exist or is invalid.
        """
        values = self.model_dump()
        for name, change in changes.items():
            nested = isinstance(change, Mapping) and isinstance(values.get(name), Mapping)
            values[name] = {**values[name], **change} if nested else change
        return SimulationConfig.model_validate(values)

    @model_validator(mode="after")
    def _validate_sizes(self) -> "SimulationConfig":
        for larger, smaller, reason in (
            ("items", "categories", "each category needs an item"),
            ("categories", "themes", "each theme needs a category"),
            ("shops", "categories", "each category needs its own shop"),
        ):
            value, minimum = getattr(self, larger), getattr(self, smaller)
            if value < minimum:
                raise ValueError(
                    f"{larger} is {value}, expected at least {smaller} ({minimum}): {reason}; "
                    f"increase {larger} or reduce {smaller}"
                )
        minimum, maximum = self.interests_per_user
        if not 1 <= minimum <= maximum:
            raise ValueError(
                f"interests_per_user is ({minimum}, {maximum}), expected the minimum and the maximum, both at least 1"
            )
        return self

    @model_validator(mode="after")
    def _validate_block_size(self) -> "SimulationConfig":
        keys = max(self.shops, self.styles * self.categories)
        if (codes := self.block_users * keys * self.days * SECONDS_PER_DAY) >= 2**63:
            raise ValueError(
                f"block_users is {self.block_users}: users × keys × seconds of a block is {codes:.2g}, expected less "
                "than 2^63 because each combination is encoded as a 64-bit integer; reduce block_users"
            )
        return self

    @property
    def days(self) -> int:
        """Number of days from the first behaviour to the last impression."""
        return self.behavior_days + self.impression_days

    @property
    def origin(self) -> int:
        """Start of the first day with behaviours, in seconds since 1970-01-01 UTC."""
        first = datetime.combine(self.first_impression_day, datetime.min.time(), tzinfo=UTC)
        return int(first.timestamp()) - self.behavior_days * SECONDS_PER_DAY

    @property
    def blocks(self) -> int:
        """Number of blocks of users."""
        return -(-self.users // self.block_users)
