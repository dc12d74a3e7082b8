"""Matrix products and the GRU: PyTorch's own beside ours, in turn, in one process.

    python scripts/benchmark_products.py [--seconds 1] [--threads 2]

Rates are those of the fastest of many calls; the last column is how many times faster ours is.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import nn

from seq2seq.devices import use_threads
from seq2seq.model import products
from seq2seq.model.gru import GRU

# Rows, inputs and outputs in configs/tatoeba.yaml (a decoder step, all its steps, the output layer), and a large one.
SHAPES = ((96, 384, 1152), (960, 384, 1152), (960, 256, 2500), (1024, 1024, 1024))
BATCH, STEPS, INPUTS, HIDDEN = 100, 10, 256, 384


def fastest(seconds: float, candidates: Sequence[Callable[[], object]]) -> list[float]:
    """Seconds of the fastest call of each candidate, called in turn for that long."""
    best = [float("inf")] * len(candidates)
    for candidate in candidates:
        candidate()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for index, candidate in enumerate(candidates):
            begun = time.perf_counter()
            candidate()
            best[index] = min(best[index], time.perf_counter() - begun)
    return best


def product_lines(seconds: float) -> list[str]:
    """GFLOP/s of F.linear and of `linear`, as it decides on this processor."""
    lines = [f"{'rows x inputs x outputs':<26}{'PyTorch':>10}{'ours':>10}   GFLOP/s, ratio"]
    for rows, inputs, outputs in SHAPES:
        x, weight = torch.randn(rows, inputs), torch.randn(outputs, inputs)
        calls = [partial(multiply, x, weight) for multiply in (nn.functional.linear, products.linear)]
        theirs, ours = fastest(seconds, calls)
        rate = 2e-9 * rows * inputs * outputs
        shape = f"{rows} x {inputs} x {outputs}"
        lines.append(f"{shape:<26}{rate / theirs:>10.0f}{rate / ours:>10.0f}   {theirs / ours:.2f}")
    return lines


def gru_lines(seconds: float) -> list[str]:
    """Milliseconds of a forward and backward pass of nn.GRU and of ours."""
    theirs, ours = nn.GRU(INPUTS, HIDDEN, batch_first=True), GRU(INPUTS, HIDDEN, batch_first=True)
    x, first = torch.randn(BATCH, STEPS, INPUTS), torch.zeros(1, BATCH, HIDDEN)
    calls = [lambda layer=layer: layer(x, first)[0].sum().backward() for layer in (theirs, ours)]
    slow, fast = fastest(seconds, calls)
    sizes = f"GRU, {BATCH} sentences of {STEPS} steps, {HIDDEN}"
    return [f"{sizes}: {slow * 1e3:.1f} ms, {fast * 1e3:.1f} ms, {slow / fast:.2f}"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Matrix products and the GRU: PyTorch's own beside ours.")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each line (default: 1)")
    parser.add_argument("--threads", type=int, help="default: OMP_NUM_THREADS, else one for each core")
    arguments = parser.parse_args()
    use_threads(arguments.threads)
    with torch.no_grad():
        print(*product_lines(arguments.seconds), sep="\n")
    print(*gru_lines(arguments.seconds), sep="\n")


if __name__ == "__main__":
    main()
