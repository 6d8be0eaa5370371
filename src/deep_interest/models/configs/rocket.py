"""Options of models that are trained by Rocket Launching."""

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from deep_interest.models.config import DeepConfig
from deep_interest.models.configs.dien import DIENConfig
from deep_interest.models.configs.din import DINConfig

Booster = Literal["joint", "frozen", "none"]


class LightNet(BaseModel):
    """Widths of a light net; one that is left out is the booster's times ``ratio``, rounded, and at least 1.

    Attributes:
        ratio: width of the light net in multiples of the booster's (DIEN: 32 of 108).
        hidden: widths of the hidden layers of the MLP.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ratio: float = Field(32 / 108, gt=0, le=1)
    hidden: tuple[int, ...] | None = None

    def narrowed(self, width: int) -> int:
        """Return a width of the booster times ``ratio``."""
        return max(1, round(self.ratio * width))


class LightDINNet(LightNet):
    """Widths of a light DIN.

    Attributes:
        attention_hidden: widths of the hidden layers of the activation unit.
    """

    attention_hidden: tuple[int, ...] | None = Field(None, min_length=1)


class LightDIENNet(LightNet):
    """Widths of a light DIEN.

    Attributes:
        gru_size: width of both GRUs.
    """

    gru_size: int | None = Field(None, ge=1)


class RocketConfig(DeepConfig):
    """Options of a light net that learns from a booster net; all options of a model that are not listed here are those of the booster.

    Attributes:
        booster: ``joint`` trains both nets together, with shared embeddings (Rocket Launching); ``frozen`` trains the booster before, as
            a model of its own, and the light net learns from its logits (distillation); ``none`` trains the light net alone.
        hint_weight: λ, weight of the squared difference of the logits of both nets. With a booster that is trained at the same time, a
            large weight disturbs the shared embeddings; with one from before, larger weights such as 1 are better.
        gradient_block: whether the hint loss has no gradient with regard to the logits of the booster.
    """

    booster_key: ClassVar[str]

    booster: Booster = "joint"
    hint_weight: float = Field(0.03, ge=0)
    gradient_block: bool = True


class LightDINConfig(RocketConfig, DINConfig):
    """Options of a light DIN.

    Attributes:
        light: widths of the light net.
    """

    booster_key: ClassVar[str] = "din"

    light: LightDINNet = LightDINNet()

    def of_booster(self) -> DINConfig:
        """Return the options of the booster."""
        return DINConfig(**{name: getattr(self, name) for name in DINConfig.model_fields})

    def of_light_net(self) -> DINConfig:
        """Return the options of the light net."""
        light = self.light
        widths = {
            "hidden": _narrowed(light, light.hidden, self.hidden),
            "attention_hidden": _narrowed(light, light.attention_hidden, self.attention_hidden),
        }
        return self.of_booster().model_copy(update=widths)


class LightDIENConfig(RocketConfig, DIENConfig):
    """Options of a light DIEN. The auxiliary loss is that of the booster, whose states are as wide as a behaviour.

    Attributes:
        light: widths of the light net.
    """

    booster_key: ClassVar[str] = "dien"

    light: LightDIENNet = LightDIENNet()

    def of_booster(self) -> DIENConfig:
        """Return the options of the booster."""
        return DIENConfig(**{name: getattr(self, name) for name in DIENConfig.model_fields})

    def of_light_net(self, width: int) -> DIENConfig:
        """Return the options of the light net.

        Args:
            width: width of the fields that behaviours share with the candidate, the width of the booster's GRUs by default.
        """
        light = self.light
        widths = {
            "hidden": _narrowed(light, light.hidden, self.hidden),
            "gru_size": light.gru_size or light.narrowed(self.gru_size or width),
            "aux_weight": 0.0,
            "interest_product": False,  # its states are narrower than the candidate
        }
        return self.of_booster().model_copy(update=widths)

    @model_validator(mode="after")
    def _auxiliary_loss_has_a_booster(self) -> "LightDIENConfig":
        if self.booster == "none" and self.aux_weight > 0:
            raise ValueError(
                f"aux_weight: found {self.aux_weight} with booster: none, but the auxiliary loss is that of the booster; set aux_weight to 0"
            )
        return self


def _narrowed(
    light: LightNet, widths: tuple[int, ...] | None, of_booster: tuple[int, ...]
) -> tuple[int, ...]:
    return tuple(map(light.narrowed, of_booster)) if widths is None else widths
