"""python -m benchmarking.run_seq2seq: seq2seq.train, with a stopwatch between its updates."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from torch.profiler import record_function

from benchmarking.operations import UPDATE, Operations
from benchmarking.product_rate import product_rate
from benchmarking.stopwatch import Stopwatch, Work
from seq2seq import cli, train
from seq2seq.data.reading_ahead import Rows
from seq2seq.training.trainer import Trainer


def main() -> int:
    """Train as the arguments say."""
    operations = Operations()
    answers: dict[str, Callable[..., Any]] = {
        "product_rate": product_rate,
        "record": operations.record,
        "operations": operations.table,
    }
    stopwatch = Stopwatch(answers)
    update = Trainer.update

    def timed(self: Trainer, batches: Sequence[Rows]) -> None:
        sides = self.train.source_lengths, self.train.target_lengths
        work = Work.total(Work.of_batch(*(side[rows].tolist() for side in sides)) for rows in batches)
        stopwatch.before_update(self.model, work)
        with record_function(UPDATE):
            update(self, batches)

    Trainer.update = timed  # type: ignore[method-assign]
    return cli.run(train.arguments(), train.main)


if __name__ == "__main__":
    sys.exit(main())
