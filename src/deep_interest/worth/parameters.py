"""Parameters of the block ``worth``."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from deep_interest.config import as_list

Share = Annotated[float, Field(gt=0, le=1)]
Size = Annotated[int, Field(ge=1)]


class WorthParameters(BaseModel):
    """With what a model is fitted in addition to its own setting, which is always part of a curve; an empty list omits the curve.

    Attributes:
        shares: shares of the training days, or of the training users where the dataset is not split by day.
        max_len: lengths of the history; those that are not below the model's own are omitted.
        embedding_dim: embedding widths; omitted for models without the option.
        seeds: seeds of the fits; ``training.seeds`` overrides them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    shares: Annotated[tuple[Share, ...], BeforeValidator(as_list)] = (0.125, 0.25, 0.5)
    max_len: Annotated[tuple[Size, ...], BeforeValidator(as_list)] = (5, 10, 20, 50)
    embedding_dim: Annotated[tuple[Size, ...], BeforeValidator(as_list)] = (4, 8, 16, 32)
    seeds: Annotated[tuple[int, ...], BeforeValidator(as_list)] = Field((1, 2, 3), min_length=1)
