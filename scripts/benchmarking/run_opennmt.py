"""python -m benchmarking.run_opennmt: onmt_train, with a stopwatch between its updates."""

from typing import Any

from onmt.bin.train import main as command  # type: ignore[import-not-found]
from onmt.trainer import Trainer  # type: ignore[import-not-found]

from benchmarking.stopwatch import Stopwatch, Work


def main() -> None:
    """Train as the arguments say."""
    stopwatch = Stopwatch()
    update = Trainer._gradient_accumulation

    def timed(self: Any, batches: Any, *rest: Any) -> Any:
        (batch,) = batches
        # Predicted is all after <s>; the source has no </s> here.
        predicted = batch["tgt"][:, 1:, 0].ne(self.train_loss.padding_idx).sum(dim=1)
        stopwatch.before_update(self.model, Work.of_batch(batch["srclen"].tolist(), predicted.tolist()))
        return update(self, batches, *rest)

    Trainer._gradient_accumulation = timed
    command()


if __name__ == "__main__":
    main()
