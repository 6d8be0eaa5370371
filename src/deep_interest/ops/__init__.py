"""The operations that the models are made of, each in two writings with equal results.

One is plain, in torch's own operations, for any device and dtype: it says what is meant. The other is compiled, for
float32 on CPUs: few passes over memory, matrix products by tiles, the backward pass written out.
A function of this package takes the one that fits its tensors; models do not know which.
"""
