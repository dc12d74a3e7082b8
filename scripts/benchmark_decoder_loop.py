"""The decoder's teacher-forced steps, forward and backward: the plain loop beside decoder_loop.py, in turn.

    python scripts/benchmark_decoder_loop.py [--seconds 5] [--threads 2]

Milliseconds are those of the fastest of many calls; megabytes, the most that one call had allocated at a time.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from seq2seq.config import Config
from seq2seq.devices import use_threads
from seq2seq.model import Attention, Decoder

SENTENCES, SOURCE, TARGET, VOCABULARY = 64, 12, 14, 4000
# Sizes of target embeddings, encoder outputs, decoder state and attention.
SIZES = {"large": (256, 512, 512, 512), "default": (256, 384, 384, 384)}


class PlainDecoder(Decoder):
    """A decoder that takes its steps one by one."""

    def fits_loop(self, embedded: Tensor) -> bool:
        """Never."""
        return False


def training_step(kind: type[Decoder], sizes: tuple[int, int, int, int], order: str) -> Callable[[], None]:
    """A forward and a backward pass of a decoder over a batch of random numbers."""
    embedded, memory_size, hidden, attention_size = sizes
    feeding = order == "after"
    decoder_settings = {
        "embedding_size": embedded,
        "hidden_size": hidden,
        "attend": order,
        "input_feeding": feeding,
    }
    config = Config.model_validate({"decoder": decoder_settings, "attention": {"size": attention_size}})
    attention = Attention(config.attention, hidden, memory_size)
    decoder = kind(config.decoder, VOCABULARY, attention, memory_size)
    tokens = torch.randint(4, VOCABULARY, (SENTENCES, TARGET))
    mask = torch.ones(SENTENCES, SOURCE, dtype=torch.bool)
    with torch.no_grad():
        memory = attention.prepare(torch.randn(SENTENCES, SOURCE, memory_size), mask)
        state = decoder.start(torch.randn(SENTENCES, memory_size), memory)
    for given in (memory.keys, memory.values, state.recurrent.hidden):
        given.requires_grad_()

    def step() -> None:
        decoder(tokens, state, memory)[0].sum().backward()
        decoder.zero_grad()

    return step


def fastest(seconds: float, plain: Callable[[], None], fast: Callable[[], None]) -> list[float]:
    """Milliseconds of each, called in turn for that long."""
    best = [float("inf")] * 2
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for index, call in enumerate((plain, fast)):
            begun = time.perf_counter()
            call()
            best[index] = min(best[index], 1e3 * (time.perf_counter() - begun))
    return best


def peak(call: Callable[[], None]) -> float:
    """Megabytes that a call had allocated at most."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        call()
    now = most = 0
    assert record.profiler is not None
    for event in record.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most / 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="The decoder's teacher-forced steps: the plain loop beside ours.")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each line (default: 5)")
    parser.add_argument("--threads", type=int, help="default: OMP_NUM_THREADS, else one for each core")
    arguments = parser.parse_args()
    use_threads(arguments.threads)
    print(f"{'sizes':<10}{'attend':<8}{'plain ms':>9}{'fast ms':>9}{'ratio':>7}{'plain MB':>10}{'fast MB':>9}")
    for name, sizes in SIZES.items():
        for order in ("before", "after"):
            plain, fast = (training_step(kind, sizes, order) for kind in (PlainDecoder, Decoder))
            # The first calls have oneDNN compile its kernels, which is memory of its own.
            for call in (plain, fast):
                call()
            megabytes = [peak(call) for call in (plain, fast)]
            slow, quick = fastest(arguments.seconds, plain, fast)
            line = f"{name:<10}{order:<8}{slow:>9.1f}{quick:>9.1f}{slow / quick:>7.2f}"
            print(f"{line}{megabytes[0]:>10.1f}{megabytes[1]:>9.1f}", flush=True)


if __name__ == "__main__":
    main()
