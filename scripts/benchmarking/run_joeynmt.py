"""python -m benchmarking.run_joeynmt: JoeyNMT's command, with a stopwatch between its updates."""

from typing import Any

from joeynmt.__main__ import main as command  # type: ignore[import-not-found]
from joeynmt.training import TrainManager  # type: ignore[import-not-found]

from benchmarking.stopwatch import Stopwatch, Work


def main() -> None:
    """Train as the arguments say."""
    stopwatch = Stopwatch()
    step = TrainManager._train_step

    def timed(self: Any, batch: Any) -> Any:
        # Both lengths count </s>: `trg` is what is to be predicted.
        predicted = batch.trg_mask.sum(dim=(1, 2))
        stopwatch.before_update(self.model, Work.of_batch(batch.src_length.tolist(), predicted.tolist()))
        return step(self, batch)

    TrainManager._train_step = timed
    command()


if __name__ == "__main__":
    main()
