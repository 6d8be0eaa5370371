"""The share of the neighbourhood's score in the logits of one user's candidates (`models.stacking`)."""

from torch import Tensor

from deep_interest.export.inputs import CONTEXT
from deep_interest.export.request import Request
from deep_interest.logs.feature_columns import NEIGHBOURS
from deep_interest.models.stacking import Stacking


def with_stacking(stacking: Stacking | None, logits: Tensor, request: Request) -> Tensor:
    """Return the logits ``(C,)``, mixed with the scores of the neighbourhood if the model stacks them."""
    return logits if stacking is None else stacking(logits, request.numbers(CONTEXT, NEIGHBOURS))
