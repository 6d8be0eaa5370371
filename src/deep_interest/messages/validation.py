"""Messages for pydantic's errors: the parameter, the value found, what is allowed, and the nearest name."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, RootModel, ValidationError

from deep_interest.errors import did_you_mean
from deep_interest.experiments import MODELS

Locate = Callable[[Sequence[str]], str]
"""Function from the path of a parameter to the file and line that set it, such as ``conf/base/x.yml, line 3: ``."""

_EXPECTED = {
    "int_type": "a whole number", "int_parsing": "a whole number", "int_from_float": "a whole number",
    "float_type": "a number", "float_parsing": "a number", "bool_type": "true or false", "bool_parsing": "true or false",
    "string_type": "a string", "list_type": "a list ([a, b])", "tuple_type": "a list ([a, b])",
    "dict_type": "names and values (name: value)", "model_type": "names and values (name: value)",
    "model_attributes_type": "names and values (name: value)",
}  # fmt: skip
"""What pydantic's kinds of errors expect, in the terms of YAML."""
_KEDRO_LINE = re.compile(r"^- Parameter '([^']+)': (.*)$", re.MULTILINE)


def parameters_message(text: str, parameters: Mapping[str, Any], locate: Locate) -> str | None:
    """Describe the errors behind Kedro's `ParameterValidationError`, which has only their text.

    Args:
        text: text of Kedro's error.
        parameters: all parameters, as the configuration loader returns them.
        locate: where a parameter is set.

    Returns:
        One line per error; None if the parameters that the text names are valid.
    """
    lines: list[str] = []
    for key, problem in _KEDRO_LINE.findall(text):
        value: Any = parameters
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is None:
            lines.append(f"{locate(key.split('.')[:1])}{key}: {problem}")
        else:
            lines += _check(key, value, locate)
    return "\n".join(dict.fromkeys(lines)) or None


def validation_message(
    error: ValidationError, *, where: str = "", model: Any = None, locate: Locate = lambda path: ""
) -> str:
    """Describe a validation error, one line per problem.

    Args:
        error: pydantic's error.
        where: dotted path of the validated block.
        model: the model that the block was validated with, for the names that are allowed.
        locate: where a parameter is set.
    """
    path = [part for part in where.split(".") if part]
    return "\n".join(_problems(error, path, model, locate))


def _check(key: str, value: Any, locate: Locate) -> list[str]:
    model = model_of(key)
    try:
        if model is not None:
            validated = model.model_validate(value)
            if key.startswith("models."):
                from deep_interest.models.registry import model_config  # noqa: PLC0415

                model = MODELS[key.split(".")[1]].config()
                model_config(key.split(".")[1], validated.model)
    except ValidationError as error:
        return list(_problems(error, key.split("."), model, locate))
    return []


def model_of(key: str) -> Any:
    """Return the pydantic model of a block of parameters, such as ``training`` or ``datasets.simulated``; None if unknown."""
    from deep_interest.abtest.parameters import ABTestParameters  # noqa: PLC0415
    from deep_interest.evaluation.evidence import EvaluationParameters  # noqa: PLC0415
    from deep_interest.offpolicy.parameters import OffPolicyParameters  # noqa: PLC0415
    from deep_interest.pipelines.parameters import DatasetParameters, IngestParameters  # noqa: PLC0415
    from deep_interest.retraining.parameters import BacktestParameters, RetrainingParameters  # noqa: PLC0415
    from deep_interest.simulation.config import SimulationConfig  # noqa: PLC0415
    from deep_interest.training.parameters import Recipes, RowOptions, RunParameters  # noqa: PLC0415
    from deep_interest.tuning.parameters import TuningParameters  # noqa: PLC0415

    blocks: dict[str, Any] = {
        "abtests": ABTestParameters,
        "backtest": BacktestParameters,
        "datasets": DatasetParameters,
        "evaluation": EvaluationParameters,
        "ingest": IngestParameters,
        "models": RowOptions,
        "ope": OffPolicyParameters,
        "recipes": Recipes,
        "retraining": RetrainingParameters,
        "simulation": SimulationConfig,
        "training": RunParameters,
        "tuning": TuningParameters,
    }
    return blocks.get(key.split(".", maxsplit=1)[0])


def _problems(error: ValidationError, path: list[str], model: Any, locate: Locate) -> Iterator[str]:
    items = error.errors()
    unknown = [str(item["loc"][-1]) for item in items if item["type"] == "extra_forbidden"]
    for item in items:
        if item["type"] == "missing" and did_you_mean(str(item["loc"][-1]), unknown):
            continue  # the message about the mistyped name says it
        if any(other["loc"][:-1] == item["loc"] for other in items if other is not item):
            continue  # follows from the error of an item of this list
        full = [*path, *_shown(item["loc"])]
        if ".".join(full[:-1]) in _option_blocks(full):
            allowed = fields_at(_training_options(), ())
        else:
            allowed = fields_at(model, item["loc"] if "model" in item["type"] else item["loc"][:-1])
        if _is_list(item["input"]):
            full = full[:-1] if full[-1].isdigit() else full
        yield f"{locate(full)}{'.'.join(full)}: {_problem(item, full, allowed)}"


def _problem(item: Any, path: list[str], allowed: list[str]) -> str:
    kind, found, message = item["type"], item["input"], item["msg"]
    if kind == "extra_forbidden":
        similar = did_you_mean(path[-1], allowed)
        if not similar and (positions := positions_of(path[-1], path)):
            return f"not a parameter here; set {' or '.join(positions[:2])}"
        listed = f"; the parameters here are {', '.join(allowed)}" if allowed else ""
        return f"unknown parameter (found {_short(found)}){listed}{similar}"
    if kind == "missing":
        return "missing; set this parameter"
    if kind in ("literal_error", "enum"):
        names = re.findall(r"'([^']*)'", message)
        return f"found {_short(found)}, expected {message.removeprefix('Input should be ')}{did_you_mean(str(found), names)}"
    return _invalid_value(kind, found, message, allowed)


def _invalid_value(kind: str, found: Any, message: str, allowed: list[str]) -> str:
    """Describe a value of the wrong kind or outside its limits."""
    advice = ""
    if _is_list(found):
        advice = f"; separate the items of a list by blanks ({found.replace(',', ' ').strip()}), or write a list in YAML ([1, 2])"
    if kind in _EXPECTED:
        listed = f"; the names are {', '.join(allowed)}" if "name" in _EXPECTED[kind] and allowed else ""
        return f"found {_short(found)}, expected {_EXPECTED[kind]}{advice}{listed}"
    expected = re.sub(r"^(Input|Value|Field) should (be |have )?", "expected ", message)
    expected = re.sub(r"^expected (greater|less)", r"expected a value \1", expected)
    expected = expected.removeprefix("Value error, ")
    if kind == "value_error":
        return f"{expected}{advice}"
    return f"found {_short(found)}, {expected[0].lower()}{expected[1:]}{advice}"


def _is_list(value: Any) -> bool:
    return isinstance(value, str) and "," in value


def _shown(loc: Sequence[int | str]) -> list[str]:
    """Return the path of an error without pydantic's names of union members and validators."""
    return [str(part) for part in loc if not re.search(r"[\[(]|^function|^RootModel", str(part))]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def fields_at(model: Any, loc: Sequence[int | str]) -> list[str]:
    """Return the names of the fields of the model at a position.

    Args:
        model: a pydantic model or another type.
        loc: names and indices that lead to the position.
    """
    if isinstance(model, type) and issubclass(model, BaseModel):
        return _fields_of(model, loc)
    origin, arguments = get_origin(model), get_args(model)
    if origin is None or origin is Literal:
        return []
    if origin in (dict, list, tuple, Mapping, Sequence):
        return fields_at(arguments[-1] if origin in (dict, Mapping) else arguments[0], loc[1:]) if loc else []
    return next((names for argument in arguments if (names := fields_at(argument, loc))), [])


def _fields_of(model: type[BaseModel], loc: Sequence[int | str]) -> list[str]:
    if issubclass(model, RootModel):
        return fields_at(model.model_fields["root"].annotation, loc)
    if not loc:
        return list(model.model_fields)
    field = model.model_fields.get(str(loc[0]))
    return fields_at(field.annotation, loc[1:]) if field else []


def positions_of(name: str, path: Sequence[str]) -> list[str]:
    """Return where a parameter of this name exists, nearest first.

    Args:
        name: last part of the parameter's path.
        path: path at which it was found.
    """
    blocks = (
        "training",
        "datasets",
        "recipes",
        "tuning",
        "retraining",
        "evaluation",
        "simulation",
        "backtest",
    )
    positions = [
        position for block in blocks for position in _positions(model_of(block), _root(block, path), name)
    ]
    positions += [
        f"{root}.{name}" for root in _option_blocks(path) if name in _training_options().model_fields
    ]
    positions += [f"{root}.{name}" for root in _model_blocks(path) if name in _model_options()]
    return sorted(positions, key=lambda position: -_common(position.split("."), path))


def _root(block: str, path: Sequence[str]) -> list[str]:
    if block != "datasets":
        return [block]
    return [block, path[1] if path[:1] == ["datasets"] and len(path) > 1 else "<dataset>"]


def _positions(model: Any, path: list[str], name: str) -> Iterator[str]:
    """Yield the paths below a model at which a field of a name exists."""
    for member in (model, *get_args(model)):
        if isinstance(member, type) and issubclass(member, BaseModel) and not issubclass(member, RootModel):
            for key, field in member.model_fields.items():
                if key == name:
                    yield ".".join([*path, key])
                yield from _positions(field.annotation, [*path, key], name)


def _option_blocks(path: Sequence[str]) -> list[str]:
    """Return the blocks that hold training options, the nearest first."""
    dataset = path[1] if path[:1] == ["datasets"] and len(path) > 1 else "<dataset>"
    recipe = path[1] if path[:1] == ["recipes"] and len(path) > 1 else "<recipe>"
    model = path[1] if path[:1] == ["models"] and len(path) > 1 else "<model>"
    return [
        "training.options",
        f"datasets.{dataset}.training",
        f"recipes.{recipe}.training",
        f"models.{model}.training",
    ]


def _model_blocks(path: Sequence[str]) -> list[str]:
    recipe = path[1] if path[:1] == ["recipes"] and len(path) > 1 else "<recipe>"
    return [f"recipes.{recipe}.model", "models.<model>"]


def _common(position: Sequence[str], path: Sequence[str]) -> int:
    count = 0
    for one, other in zip(position, path, strict=False):
        if one != other:
            break
        count += 1
    return count


def _training_options() -> Any:
    from deep_interest.training.parameters import TrainingOptions  # noqa: PLC0415

    return TrainingOptions


def _model_options() -> set[str]:
    return {name for spec in MODELS.values() for name in spec.config().model_fields}
