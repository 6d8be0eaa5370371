"""How much the GAUC of a model changes with the seed of its fit, estimated from the few seeds of one table.

A model with two seeds gives one degree of freedom for the variance of its GAUC over seeds, far too little for an interval.
The table has more models, but their variances differ by orders of magnitude (LR against DIEN). What they share is the
*variance ratio*: the variance of the GAUC over seeds, divided by what it would be if a seed moved each user's AUC
independently (the interaction of seed and user, which many users estimate well). It is the F statistic of the seeds in a
seeds × users layout: 1 if there is no main effect of the seed. The ratios are moderated as the variances in limma
(Smyth 2004): each is shrunk towards the table's common ratio, by as much as the ratios of the table agree.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

from deep_interest.evaluation.metrics import UserAUC

_PRIOR_DF = np.array([1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, np.inf])
_LOG_RATIOS = np.log(np.geomspace(0.5, 2000, 250))
_TOLERANCE = 0.5  # in log-likelihood: of the priors that explain the ratios as well, the one that shrinks least is taken
_FEWEST_TO_MODERATE = 3  # models; the ratios of fewer are pooled


@dataclass(frozen=True)
class SeedSpread:
    """Variance of one model's GAUC over its fits, as observed.

    Attributes:
        seeds: number of fits ``S``.
        variance: sample variance of the GAUC over the fits; 0 with one fit.
        interaction: the part of it that comes from seeds moving single users' AUCs; 0 with one fit.
    """

    seeds: int
    variance: float
    interaction: float

    @property
    def df(self) -> int:
        """Degrees of freedom of ``variance``."""
        return self.seeds - 1


@dataclass(frozen=True)
class SeedVariance:
    """Moderated variance of one model's GAUC over fits with other seeds.

    Attributes:
        seeds: number of fits ``S`` that the GAUC is averaged over.
        total: variance of the GAUC of one fit, at least ``interaction``.
        interaction: the part of it that the variance over users of the averaged AUCs includes already.
        df: degrees of freedom of ``total``, the model's own and the prior's.
        shared_df: degrees of freedom of the table's common ratio, whose error all models share.
    """

    seeds: int
    total: float
    interaction: float
    df: float
    shared_df: float


FIXED = SeedVariance(1, 0.0, 0.0, np.inf, np.inf)
"""For scores without randomness."""


def seed_spread(per_seed: Sequence[UserAUC]) -> SeedSpread:
    """Variance of the GAUC over fits, and its part from the interaction of seeds and users.

    Args:
        per_seed: AUCs of the same users by each fit.
    """
    seeds = len(per_seed)
    if seeds == 1:
        return SeedSpread(1, 0.0, 0.0)
    weights = per_seed[0].impressions / per_seed[0].impressions.sum()  # (m,)
    aucs = np.stack([users.auc for users in per_seed])  # (S, m)
    gaucs = aucs @ weights  # (S,)
    residuals = aucs - aucs.mean(axis=0) - (gaucs - gaucs.mean())[:, None]
    squares = (residuals**2).sum(axis=0) / (seeds - 1)
    return SeedSpread(seeds, float(gaucs.var(ddof=1)), variance_of_mean(squares, weights))


def variance_of_mean(squares: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Variance of a weighted mean over users, from the squared residuals of each user.

    ``Σ_u w_u² r_u² / (1 - w_u)``: the sandwich estimator with the HC2 correction, which for equal weights is ``s² / m``.

    Args:
        squares: ``(m,)`` squared distances from the weighted mean.
        weights: ``(m,)`` of sum 1, each below 1.
    """
    return float((weights**2 * squares / (1 - weights)).sum())


def moderated(spreads: Sequence[SeedSpread]) -> list[SeedVariance]:
    """Shrink every model's variance ratio towards the common one of the table.

    Args:
        spreads: one for each model; those with one seed, or without any variance over seeds, come back without a variance.
    """
    known = [spread for spread in spreads if spread.df and spread.interaction > 0]
    if not known:
        return [replace(FIXED, seeds=spread.seeds) for spread in spreads]
    df = np.array([spread.df for spread in known], dtype=np.float64)
    ratios = np.array([spread.variance / spread.interaction for spread in known])
    prior_df, common = _prior(ratios, df)
    return [_moderated(spread, prior_df, common, float(df.sum())) for spread in spreads]


def _moderated(spread: SeedSpread, prior_df: float, common: float, shared_df: float) -> SeedVariance:
    if not spread.interaction:
        return replace(FIXED, seeds=spread.seeds)
    own = spread.variance / spread.interaction
    share = 1.0 if np.isinf(prior_df) else prior_df / (prior_df + spread.df)
    ratio = max(1.0, share * common + (1 - share) * own)
    return SeedVariance(
        spread.seeds, ratio * spread.interaction, spread.interaction, prior_df + spread.df, shared_df
    )


def _prior(ratios: NDArray[np.float64], df: NDArray[np.float64]) -> tuple[float, float]:
    """Prior degrees of freedom and common ratio, by the likelihood of ``ratio / common ~ F(df, prior_df)`` on a grid."""
    if len(ratios) < _FEWEST_TO_MODERATE:
        return np.inf, float(np.average(ratios, weights=df))
    x = np.log(np.maximum(ratios, 1e-6))[:, None, None] - _LOG_RATIOS  # (models, 1, ratios)
    d1 = df[:, None, None]
    finite = _PRIOR_DF[np.isfinite(_PRIOR_DF)][:, None]  # (priors - 1, 1)
    log_f = (
        d1 / 2 * np.log(d1 / finite) + d1 / 2 * x - (d1 + finite) / 2 * np.log1p(d1 * np.exp(x) / finite)
        - betaln(d1 / 2, finite / 2)
    )  # fmt: skip
    log_chi = d1 / 2 * (np.log(d1 / 2) + x - np.exp(x)) - gammaln(d1 / 2)
    likelihood = np.concatenate([log_f, log_chi], axis=1).sum(axis=0)  # (priors, ratios)
    profile = likelihood.max(axis=1)
    prior = int((profile >= profile.max() - _TOLERANCE).argmax())
    return float(_PRIOR_DF[prior]), float(np.exp(_LOG_RATIOS[likelihood[prior].argmax()]))
