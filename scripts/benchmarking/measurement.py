"""Trainings measured in turn, and what their blocks amount to."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from tqdm import tqdm

from benchmarking.stopwatch import Work
from benchmarking.training_process import Block, TrainingProcess


class Figures(NamedTuple):
    """What was measured of one training; rates are medians over its blocks."""

    parameters: int
    start_seconds: float
    """From the start of the process to its first update."""
    blocks: Sequence[Block]
    product_rates: Sequence[float]
    """FLOP/s of a plain large product in the same process after each block; empty where that was not asked."""

    @property
    def work(self) -> Work:
        """Of all blocks."""
        return Work.total(block.work for block in self.blocks)

    @property
    def target_tokens_per_second(self) -> float:
        return statistics.median(block.work.target_tokens / block.seconds for block in self.blocks)

    @property
    def sentences_per_second(self) -> float:
        return statistics.median(block.work.sentences / block.seconds for block in self.blocks)

    @property
    def memory(self) -> int | None:
        """Most memory that the process has held, in bytes."""
        return self.blocks[-1].memory

    def utilisation(self, flops: Sequence[int]) -> float:
        """Arithmetic that each block needed, over its time and the rate of a plain product."""
        each = zip(self.blocks, flops, self.product_rates, strict=True)
        return statistics.median(needed / block.seconds / rate for block, needed, rate in each)


def measure(
    trainings: Sequence[TrainingProcess], seconds: float, rounds: int, warm_up: float, product_seconds: float
) -> list[Figures]:
    """Run the trainings in turn, so that a change of the machine's speed meets all of them.

    Args:
        trainings: ours first; it is the one asked for the rate of a plain product.
        seconds: for each training, over all rounds.
        rounds: blocks of each training.
        warm_up: seconds of each training before the first block.
        product_seconds: for the plain product, after each block of ours.
    """
    blocks: list[list[Block]] = [[] for _ in trainings]
    rates: list[float] = []
    with tqdm(total=(1 + rounds) * len(trainings), desc="blocks") as bar:
        for training in trainings:
            training.run(warm_up)
            bar.update()
        for _ in range(rounds):
            for index, training in enumerate(trainings):
                blocks[index].append(training.run(seconds / rounds))
                if index == 0:
                    rates.append(training.ask("product_rate", product_seconds))
                bar.update()
    return [
        Figures(training.parameters, training.start_seconds, blocks[index], rates if index == 0 else ())
        for index, training in enumerate(trainings)
    ]
