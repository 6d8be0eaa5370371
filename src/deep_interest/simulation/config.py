"""What a simulated log is made of: its sizes and the strengths of its effects."""

from datetime import UTC, date, datetime

from pydantic import BaseModel, ConfigDict, Field, model_validator

SECONDS_PER_DAY = 86_400


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class InterestConfig(_Frozen):
    """How interests live and what they make a user do.

    Attributes:
        dwell_days: mean days in one stage of a theme's path.
        end_probability: chance that an interest ends with a stage that is not its path's last.
        stage_share: share of behaviours in the category of the interest's present stage.
        theme_share: share in the theme's other categories; the rest is popular goods of any kind.
        session_focus: share of a session's behaviours that follow the session's interest.
        shop_loyalty: chance to choose among the goods of the interest's shop, where it has the category.
        style_loyalty: otherwise, chance to choose among the goods of the interest's style.
        affinity_std: spread of the log-odds by which age and gender lean towards themes.
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
    def _shares_leave_room(self) -> "InterestConfig":
        if self.stage_share + self.theme_share > 1:
            raise ValueError(
                f"stage_share + theme_share is {self.stage_share + self.theme_share:g}, expected at most 1: "
                "they are shares of one user's behaviours; lower one of them"
            )
        return self


class CandidateConfig(_Frozen):
    """Where the candidates of impressions come from, as shares; the rest is drawn evenly from all goods.

    Attributes:
        stage: the category of a present stage.
        next_stage: the category after it on the path.
        theme: any category of the theme.
        past: the category of an earlier stage or an ended interest.
        popular: all goods, by popularity.
    """

    stage: float = Field(0.22, ge=0, le=1)
    next_stage: float = Field(0.13, ge=0, le=1)
    theme: float = Field(0.15, ge=0, le=1)
    past: float = Field(0.25, ge=0, le=1)
    popular: float = Field(0.20, ge=0, le=1)

    @model_validator(mode="after")
    def _shares_leave_room(self) -> "CandidateConfig":
        if (total := sum(self.shares)) > 1 + 1e-9:
            raise ValueError(
                f"the candidate shares add up to {total:g}, expected at most 1; lower one of them"
            )
        return self

    @property
    def shares(self) -> tuple[float, ...]:
        """The five shares in the order of the attributes."""
        return self.stage, self.next_stage, self.theme, self.past, self.popular


class ClickConfig(_Frozen):
    """The click model (the formula stands in the package's docstring).

    Attributes:
        target_ctr: mean click probability that the bias is set for.
        relevance_strength: log-odds that a fully relevant history adds.
        half_saturation: weighted number of relevant behaviours that gives half of it.
        half_life_days: days after which a behaviour counts half.
        theme_weight, next_weight, category_weight, style_weight, shop_weight: what a match adds to K.
        quality_std: spread of the goods' own log-odds.
        profile_strength: log-odds per unit of a profile's affinity for the candidate's theme.
        price_strength: log-odds that the price which suits a shopping level best has above 0, and the least fitting one below;
            where goods have a price.
        context_std: spread of the pids' log-odds; the hour's wave has this amplitude.
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
    quality_std: float = Field(0.35, ge=0)
    profile_strength: float = Field(0.3, ge=0)
    price_strength: float = Field(0.5, ge=0)
    context_std: float = Field(0.15, ge=0)


class SimulationConfig(_Frozen):
    """Sizes, seed and effects of one simulated log; the defaults make a small one.

    Attributes:
        seed: everything random follows from it.
        users, items, categories, themes, shops: how many; ids run from 1.
        styles: hidden kinds of goods within each category.
        price_levels: how many levels of price goods have, drawn after all else; 0 for no price.
        popularity_exponent: exponent of the goods' Zipf popularity.
        interests_per_user: fewest and most concurrent interests.
        first_impression_day: UTC day of the first impressions.
        behavior_days: days with behaviours before it; behaviours go on during the impressions.
        impression_days: days with impressions.
        mean_behaviors, mean_impressions: mean number per user over all days.
        session_behaviors, session_impressions: mean number in one visit.
        block_users: users made at once; part of the seed contract.
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

    @model_validator(mode="after")
    def _sizes_fit(self) -> "SimulationConfig":
        for larger, smaller, why in (
            ("items", "categories", "each category needs an item"),
            ("categories", "themes", "each theme needs a category"),
            ("shops", "categories", "each category needs a shop of its own"),
        ):
            found, least = getattr(self, larger), getattr(self, smaller)
            if found < least:
                raise ValueError(
                    f"{larger} is {found}, expected at least {smaller} ({least}): {why}; "
                    f"raise {larger} or lower {smaller}"
                )
        fewest, most = self.interests_per_user
        if not 1 <= fewest <= most:
            raise ValueError(
                f"interests_per_user is ({fewest}, {most}), expected two numbers of at least 1, the fewest first"
            )
        return self

    @model_validator(mode="after")
    def _blocks_fit_64_bits(self) -> "SimulationConfig":
        keys = max(self.shops, self.styles * self.categories)
        if (codes := self.block_users * keys * self.days * SECONDS_PER_DAY) >= 2**63:
            raise ValueError(
                f"block_users is {self.block_users}: users × keys × seconds of a block is {codes:.2g}, expected less "
                "than 2^63, since each is coded in one integer; lower block_users"
            )
        return self

    @property
    def days(self) -> int:
        """Days from the first behaviour to the last impression."""
        return self.behavior_days + self.impression_days

    @property
    def origin(self) -> int:
        """Unix second (UTC) at which the first behaviour day begins."""
        first = datetime.combine(self.first_impression_day, datetime.min.time(), tzinfo=UTC)
        return int(first.timestamp()) - self.behavior_days * SECONDS_PER_DAY

    @property
    def blocks(self) -> int:
        """Number of blocks of users."""
        return -(-self.users // self.block_users)
