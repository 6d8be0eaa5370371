"""The metrics of an A/B test: ratios of sums over users."""

from dataclasses import dataclass

QUANTITIES = ("impressions", "clicks", "revenue")
"""What is summed for each user and day, in the order of the arrays."""


@dataclass(frozen=True)
class Metric:
    """A ratio of two sums over the users of an arm.

    Attributes:
        name: name in tables.
        numerator: quantity in the numerator, one of `QUANTITIES`.
        denominator: quantity in the denominator; None for the number of users.
        factor: factor of the ratio, such as 1000 for the revenue of a thousand impressions.
    """

    name: str
    numerator: str
    denominator: str | None
    factor: float = 1.0

    @property
    def y(self) -> int:
        """Index of the numerator in `QUANTITIES`."""
        return QUANTITIES.index(self.numerator)

    @property
    def x(self) -> int | None:
        """Index of the denominator in `QUANTITIES`; None for the number of users."""
        return None if self.denominator is None else QUANTITIES.index(self.denominator)


METRICS = {
    "ctr": Metric("CTR", "clicks", "impressions"),
    "rpm": Metric("RPM", "revenue", "impressions", 1000.0),
    "pay_per_click": Metric("Pay per click", "revenue", "clicks"),
    "clicks_per_user": Metric("Clicks per user", "clicks", None),
    "revenue_per_user": Metric("Revenue per user", "revenue", None),
}
"""All metrics by key. RPM is the revenue of a thousand impressions, also called eCPM."""
