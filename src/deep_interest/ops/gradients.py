"""How a backward pass leaves the gradients of parameters."""

from collections.abc import Iterator
from contextlib import contextmanager

_adding = False


@contextmanager
def adding_to_gradients() -> Iterator[None]:
    """Within, the backward passes of the compiled operations leave gradients where an optimiser takes them, in fewer operations:

    nets and GRUs add to their parameters' ``.grad`` by themselves, where an optimiser has laid these side by side, and lookups hand
    in the rows of tables (`rows.hand_in`). `torch.autograd.grad` sees neither.
    """
    global _adding  # noqa: PLW0603
    before, _adding = _adding, True
    try:
        yield
    finally:
        _adding = before


def is_adding() -> bool:
    """Whether that is so now."""
    return _adding
