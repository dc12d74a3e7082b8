"""What is reported follows from the blocks: medians, ratios, utilisation."""

from typing import cast

import pytest

from benchmarking.measurement import Figures, measure
from benchmarking.report import report
from benchmarking.stopwatch import Work
from benchmarking.training_process import Block, TrainingProcess


def block(seconds: float, tokens: int, memory: int | None = 2_000_000) -> Block:
    return Block(seconds, Work(1, tokens // 10, tokens, tokens, 0, 4 * tokens), memory)


OURS = Figures(1000, 4.0, [block(2.0, 200), block(1.0, 400), block(1.0, 300)], [1e9, 2e9, 4e9])
THEIRS = Figures(2000, 8.0, [block(1.0, 150, None), block(1.0, 100, None), block(1.0, 200, None)], [])


def test_rates_are_medians_over_blocks() -> None:
    assert OURS.target_tokens_per_second == 300
    assert OURS.sentences_per_second == 30


def test_utilisation_sets_each_block_against_the_product_measured_after_it() -> None:
    # 0.4, 0.5 and 0.1 of the product's rate.
    assert OURS.utilisation([800_000_000, 1_000_000_000, 400_000_000]) == pytest.approx(0.4)


def test_the_report_sets_ours_over_theirs() -> None:
    text = report({"ours": OURS, "theirs": THEIRS}, 900, [800_000_000] * 3, {"encoder": 1, "output layer": 3})
    rows = {line[:26].strip(): line[26:].split() for line in text.splitlines()}
    assert rows["target tokens/s"] == ["300", "150", "2.00"]
    assert rows["seconds per epoch"] == ["3.0", "6.0", "0.50"]
    assert rows["peak memory (MB)"] == ["2", "-"]
    assert rows["start to first update (s)"] == ["4.0", "8.0", "0.50"]
    assert rows["padding share"][:2] == ["50.0%", "50.0%"]
    assert rows["epochs in all blocks"][:2] == ["1.00", "0.50"]
    assert rows["block 2: tokens/s, MB"] == ["400,", "2", "100,", "-"]
    assert "40.0% of a plain large product (1, 2, 4 GFLOP/s)" in text
    assert "encoder 25.0%, output layer 75.0%" in text


def test_alone_there_is_no_ratio() -> None:
    text = report({"ours": OURS}, 900, [1] * 3, {"encoder": 1})
    assert "ratio" not in text
    assert "target tokens/s                          300" in text


class Recorded:
    """Notes down when it is run and asked."""

    parameters, start_seconds = 1, 1.0

    def __init__(self, name: str, events: list[tuple[str, str, float]]) -> None:
        self.name, self.events = name, events

    def run(self, seconds: float) -> Block:
        self.events.append((self.name, "run", seconds))
        return block(seconds, 100)

    def ask(self, command: str, seconds: float) -> float:
        self.events.append((self.name, command, seconds))
        return 1e9


def test_trainings_take_turns_after_a_warm_up_and_only_ours_multiplies() -> None:
    events: list[tuple[str, str, float]] = []
    trainings = [cast(TrainingProcess, Recorded(name, events)) for name in ("ours", "theirs")]
    figures = measure(trainings, seconds=8.0, rounds=2, warm_up=3.0, product_seconds=0.5)
    turn = [("ours", "run", 4.0), ("ours", "product_rate", 0.5), ("theirs", "run", 4.0)]
    assert events == [("ours", "run", 3.0), ("theirs", "run", 3.0), *turn, *turn]
    assert [len(each.blocks) for each in figures] == [2, 2]
    assert [list(each.product_rates) for each in figures] == [[1e9, 1e9], []]
