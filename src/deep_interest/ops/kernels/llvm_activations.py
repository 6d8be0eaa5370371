"""Activations of vectors in LLVM IR, with the coefficients of `activations`."""

from deep_interest.ops.kernels.llvm import constant, multiply_add

_NUMERATOR = 1.5230533e-08, 2.1894743e-05, 0.0035716029, 0.13444502, 1.0
_DENOMINATOR = 8.5224931e-07, 0.00034113000, 0.026164461, 0.46777829, 1.0
_LIMIT = 8.0


def fraction_of_tanh(builder, x):
    """Return the numerator and the denominator of ``tanh(x)``, see `activations.tanh`."""
    for limit, relation in ((-_LIMIT, ">"), (_LIMIT, "<")):
        inside = builder.fcmp_ordered(relation, x, constant(limit))
        x = builder.select(inside, x, constant(limit))
    square = builder.fmul(x, x)
    return builder.fmul(x, _polynomial(builder, _NUMERATOR, square)), _polynomial(
        builder, _DENOMINATOR, square
    )


def _polynomial(builder, coefficients, x):
    """Return a polynomial by Horner's rule, the highest coefficient first."""
    total = constant(coefficients[0])
    for coefficient in coefficients[1:]:
        total = multiply_add(builder, constant(coefficient), total, x)
    return total
