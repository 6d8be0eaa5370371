"""Operations of the models: each with a plain and a compiled implementation, which agree in values and gradients.

This page is a guide for readers and contributors; the operations are in the modules below.

Which implementation runs
-------------------------
The *plain* implementation of an operation consists of torch operations. It defines what the operation computes, on
any device and for any dtype. The *compiled* implementation is a `torch.autograd.Function` around kernels that numba
compiles for the CPU at hand. Every public function chooses by its arguments (`runtime.dispatch.can_use_compiled`):
float32 tensors on the CPU are compiled, everything else is plain; the GRU also has Triton kernels for GPUs. Models
do not know which implementation runs. A test compares the two for every operation, and `torch.autograd.gradcheck`
compares the plain gradients with finite differences (``tests/ops/test_gradcheck.py``).

The environment variable ``DEEP_INTEREST_ENGINE=plain`` selects the plain implementations everywhere (`runtime.engine`).
With ``NUMBA_DISABLE_JIT=1`` kernels run as Python functions, to step through them with a debugger.

How a call proceeds
-------------------
::

    models                   attention_pool(values, queries, layers, jagged)
                                    |
    ops/attention.py         can_use_compiled? --- no ---> torch operations
                                    | yes
                             autograd Function: buffers, packed weights, saved tensors
                                    |
    ops/runtime/             run_kernel(attention_pool_forward, ..., work=...)
                             1 to 8 partitions, by the size of the work   --- thread pool
                                    |
    ops/kernels/             attention_pool_forward(..., partition, partitions)
                             chunks of 128 rows, which stay in the cache
                                    |
                             matmul_add, matmul_bias                      (gemm)
                             micro-kernels in vector registers            (gemm_llvm)

The three layers import downwards only, and nothing outside ``ops`` imports ``ops.kernels``.

Public operations
-----------------
`embedding`          lookup of rows of tables, with row-sparse gradients
`packed_tables`      tables in half precision or int8, for inference
`histories`          histories as slices of the behaviour log
`jagged`             `Jagged`, the segments of a batch without padding: values ``(N, D)`` and offsets ``(B + 1,)``
`segments`           sum, softmax, repeat and expand within segments
`jagged_products`    weighted sums and dot products over segments
`mlp`                multi-layer perceptrons
`attention`          DIN's activation unit (an MLP over pairs) and attention pooling
`attention_bfloat16` the same with products in bfloat16, for inference; fast on CPUs with AMX
`shared_attention`   softmax of dot products of one history with many candidates
`search`             search in long histories: by category, dot product or Hamming distance of hashes
`target_attention`   attention of a candidate to behaviours by dot products
`buckets`            sums of the behaviours that share a hash bucket with the candidate
`gru`                GRU, AGRU and AUGRU
`activations`        PReLU and Dice
`loss`, `adam`       the log loss, and the optimiser's step
`gradients`          accumulation of gradients during a training step, and their sum by row
`weights`            parameters as one vector
`limits`             limits of operations that options depend on
`bounds`             checks of codes and offsets, since kernels do not check the indices that they use

The ideas behind the kernels
----------------------------
1. **Matrix products in registers** (`kernels.gemm`). The right matrix is packed into panels of NR columns; a
   micro-kernel keeps a block of MR rows of the result in registers. It is called from within other kernels on a few
   rows at a time, which a BLAS call is too slow for.
2. **MLPs in cache-sized chunks** (`kernels.mlp`, `kernels.mlp_chunk`). 128 rows go through all layers before the
   next 128, forward and backward, so that activations are read from the cache.
3. **Factorised attention** (`kernels.attention`, `kernels.pair_layer`). The first layer over ``[e; v; e∘v; e-v]``
   is split into a part of the query v, computed once per history, and one matrix ``W1 + W3 diag v`` per history,
   formed in registers. Pooling follows in the same pass.
4. **GRUs over groups of similar length** (`kernels.gru`). Histories are sorted by length, and up to 2 MR of them
   advance together: each step is a matrix product, and no step is computed for padding.
5. **Jagged reductions** (`kernels.jagged`, `kernels.jagged_products`). A partition has segments with about as many
   values as the others.
6. **Row-sparse gradients** (`gradients`, `kernels.embedding`, `kernels.adam`). A step touches the rows of its batch
   only: their gradients are grouped by row with a counting sort, and Adam updates these rows in one pass over
   memory.

Numerics: why results are reproducible
--------------------------------------
The same bits come out for any number of threads, since an operation is divided by its size and partial sums are
added in the order of the partitions. They come out of a process that compiles and of one that loads the cache,
since functions that kernels call keep their sums in order (`runtime.jit`). And they do not depend on where arrays
are in memory (``tests/ops/kernels/test_array_positions.py``).

How to change a kernel
----------------------
Edit the function in `kernels`; the next process compiles all kernels again (about a minute on an idle core) and
caches them in ``ops/kernels/__pycache__``. Keep the conventions: parameters that belong together are a named tuple,
OUT and INOUT mark what is written, each innermost loop touches few arrays, and a loop that sums into one number
writes to none (`runtime.jit.kernel` says why). Change the plain implementation first, then let ``tests/ops``
compare.
"""
