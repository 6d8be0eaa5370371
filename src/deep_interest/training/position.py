"""Effect of the slot on clicks: a term per slot that only training adds to the logit.

A model scores as if each item were shown in the reference slot. In training, the logit of a row shown in slot k is

    z + θ_k                                   ``logit``: the slot changes the odds (Zhao et al. 2019, "shallow tower")
    logit(e_k · σ(z)),  e_k = exp(θ_k)        ``examination``: P(click) = P(examined | slot) · P(click | examined) (PAL, Guo et al. 2019)

with θ = 0 in the reference slot. The model itself never sees a slot, so that its predictions cannot depend on one; for every model,
the two forms differ from training without positions in the gradient alone.

The terms are not trained by the model's optimiser, whose steps of about the learning rate would take many epochs to reach log 0.2, and keep
moving by as much. Each step is one of Fisher scoring, ``θ_k -= G_k / I_k``: G_k is the gradient of the batch, I_k the Fisher information of the
batches so far, of which each step forgets ``1 / window``. Rows are scored before the model has learned from them in the epoch.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from deep_interest.errors import InputError
from deep_interest.training.data import SampleSet

Form = Literal["logit", "examination"]
MOST_SLOTS = 500
_LARGEST_STEP = 0.5  # of θ; the first batches have little information
_LARGEST_PROBABILITY = 0.99  # e σ(z) of a reference slot that is examined less than slot k
_PRIOR = 1.0  # information before the first step


class Shown(NamedTuple):
    """Logits of rows as they were shown.

    Attributes:
        logits: ``(B,)`` logits with the effect of the slots.
        by_logit: ``(B,)`` their derivative with respect to the logit of the model.
        by_effect: ``(B,)`` their derivative with respect to θ of the slot; float64.
    """

    logits: Tensor
    by_logit: Tensor
    by_effect: Tensor


class PositionEffect:
    """The terms θ of all slots.

    Args:
        slots: number of slots.
        reference: slot with θ = 0, as which all items are scored.
        form: see the docstring of the module.
        window: number of steps after which information has faded to 1/e.
        device: device of the logits.

    Raises:
        InputError: the reference is not one of the slots.
    """

    def __init__(
        self, *, slots: int, reference: int, form: Form, window: int, device: torch.device | None = None
    ) -> None:
        if not 1 <= reference <= slots:
            raise InputError(
                f"training.position_reference: slot {reference} does not occur in training, whose slots are 1 to {slots}; items are scored as "
                "if shown in this slot, so set it to one of them"
            )
        self.reference, self.form, self.memory = reference, form, 1 - 1 / max(window, 1)
        self.effects = torch.zeros(slots + 1, dtype=torch.float64, device=device)  # by slot; 0 is not a slot
        self.information = torch.zeros_like(self.effects)

    @classmethod
    def of(cls, train: SampleSet, *, form: Form, reference: int, window: int) -> "PositionEffect | None":
        """Return the untrained effects of the slots of a training set; None if it has no slots.

        Raises:
            InputError: the labels of the training set are not final, or a row has no slot.
        """
        if train.slots is None:
            return None
        if train.arrived is not None:
            raise InputError(
                f"training.position: {form} learns the effect of the slots from final labels, and retraining.delayed_clicks.correct says that some "
                "clicks may still come; set training.position to weights or ignore, or correct to false"
            )
        return cls(
            slots=checked_slots(train.slots), reference=reference, form=form, window=window, device=train.slots.device
        )  # fmt: skip

    @torch.no_grad()
    def shown(self, logits: Tensor, slots: Tensor) -> Shown:
        """Add the effect of ``slots (B,)`` to ``logits (B,)``."""
        effects = self.effects[slots.long()]
        z = logits.double()
        if self.form == "logit":
            ones = torch.ones_like(z)
            return Shown((z + effects).to(logits.dtype), ones.to(logits.dtype), ones)
        largest = torch.tensor(_LARGEST_PROBABILITY, dtype=torch.float64, device=logits.device).log()
        log_p = torch.minimum(effects + F.logsigmoid(z), largest)
        not_clicked = -torch.expm1(log_p)  # 1 - p
        by_logit = torch.sigmoid(-z) / not_clicked
        return Shown((log_p - not_clicked.log()).to(logits.dtype), by_logit.to(logits.dtype), 1 / not_clicked)

    @torch.no_grad()
    def step(self, shown: Shown, slots: Tensor, labels: Tensor, weights: Tensor | None = None) -> None:
        """Learn from a batch, ``(B,)`` each."""
        slots, p = slots.long(), torch.sigmoid(shown.logits.double())
        w = torch.ones_like(p) if weights is None else weights.double()
        gradient = self._by_slot(slots, w * (p - labels) * shown.by_effect)
        self.information = self.memory * self.information + self._by_slot(
            slots, w * p * (1 - p) * shown.by_effect.square()
        )
        step = (gradient / (self.information + _PRIOR)).clamp(-_LARGEST_STEP, _LARGEST_STEP)
        self.effects = self.effects - step
        self.effects[[0, self.reference]] = 0.0

    def _by_slot(self, slots: Tensor, values: Tensor) -> Tensor:
        return torch.zeros_like(self.effects).index_add_(0, slots, values)

    def named(self) -> dict[str, float]:
        """Return the effects for learning curves: ``examination_<slot>`` (e), or ``log_odds_<slot>`` (θ); NaN for a slot without rows."""
        values = self.effects.exp() if self.form == "examination" else self.effects
        name = "examination" if self.form == "examination" else "log_odds"
        has_rows = self.information > 0
        return {
            f"{name}_{slot}": float(values[slot]) if has_rows[slot] else float("nan")
            for slot in range(1, len(values))
        }

    def state_dict(self) -> dict[str, Tensor]:
        """Return the tensors from which an interrupted fit resumes."""
        return {"effects": self.effects, "information": self.information}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the tensors of `state_dict`."""
        self.effects, self.information = (state[name].to(self.effects) for name in ("effects", "information"))


def checked_slots(slots: Tensor) -> int:
    """Return the number of slots of the training rows, the largest one.

    Raises:
        InputError: a row has no slot, or there are too many slots.
    """
    smallest, largest = int(slots.min()), int(slots.max())
    if smallest < 1:
        raise InputError(
            f"features.position: {int((slots < 1).sum()):,} of {len(slots):,} training samples have no valid slot; expected whole numbers "
            "from 1, the first slot"
        )
    if largest > MOST_SLOTS:
        raise InputError(
            f"features.position: the largest slot is {largest:,}, expected at most {MOST_SLOTS}, because each slot has an effect of its own; "
            "map larger slots of the column to one value"
        )
    return largest
