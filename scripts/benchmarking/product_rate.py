"""What a plain large matrix product reaches here: the yardstick of model FLOP utilisation."""

import time
from collections.abc import Callable
from functools import partial

import torch

SIZES = (1024, 2048)


def product_rate(seconds: float) -> float:
    """FLOP/s of the fastest square float32 product with the threads of this process.

    The best of PyTorch's own product and of oneDNN's, which PyTorch carries too, and of all SIZES.
    """
    best = 0.0
    with torch.no_grad():
        for size in SIZES:
            left, right = torch.randn(size, size), torch.randn(size, size)
            calls: list[Callable[[], object]] = [partial(torch.mm, left, right)]
            if hasattr(torch.ops.mkldnn, "_linear_pointwise"):
                calls.append(partial(torch.ops.mkldnn._linear_pointwise, left, right, None, "none", [], ""))
            for call in calls:
                call()
                end = time.perf_counter() + seconds / len(SIZES) / len(calls)
                while (begun := time.perf_counter()) < end:
                    call()
                    best = max(best, 2 * size**3 / (time.perf_counter() - begun))
    return best
