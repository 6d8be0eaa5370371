"""Node functions that are made by a factory, such as ``make_train(dataset, model)``, and can still be sent to another process.

Kedro's `ParallelRunner` pickles the nodes. Python cannot pickle a function that is defined in another one, so such a function is
sent as its factory and the factory's arguments.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, update_wrapper, wraps
from typing import Any, ParamSpec, TypeVar, cast

Arguments = ParamSpec("Arguments")
Function = TypeVar("Function", bound=Callable[..., Any])


class MadeFunction:
    """A node function with the name, docstring and annotations of the function that a factory made.

    Args:
        function: the function.
        factory: module-level function that makes it.
        args, kwargs: arguments of the factory.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        factory: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        update_wrapper(self, function)
        self._function = function
        self._make = partial(factory, **kwargs), tuple(args)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._make


def node_factory(factory: Callable[Arguments, Function]) -> Callable[Arguments, Function]:
    """Decorate a module-level function that makes a node function."""

    @wraps(factory)
    def make(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Function:
        return cast(Function, MadeFunction(factory(*args, **kwargs), make, args, kwargs))

    return make
