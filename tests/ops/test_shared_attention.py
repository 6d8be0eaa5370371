"""Attention of many candidates to one history without gradients has the result of the plain operations."""

import pytest
import torch
from support.ops import jagged, partitioned

from deep_interest.ops.jagged import share_segments
from deep_interest.ops.shared_attention import attention_weights


@pytest.mark.parametrize("lengths", [[7], [0, 33], [100, 1, 100]])
def test_weights_agree_with_the_plain_ones(lengths):
    torch.manual_seed(0)
    values, queries = torch.randn(sum(lengths), 18), 3 * torch.randn(90, 18)
    pairs = share_segments(jagged(lengths), torch.randint(len(lengths), (90,)).sort().values)
    plain = attention_weights(values.double(), queries.double(), pairs)
    for threads in (1, 3):
        with partitioned(threads), torch.no_grad():
            found = attention_weights(values, queries, pairs)
        torch.testing.assert_close(found.double(), plain, rtol=1e-5, atol=1e-6)
