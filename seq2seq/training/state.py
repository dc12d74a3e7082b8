"""All that a resumed run must know besides tensors."""

import dataclasses


@dataclasses.dataclass
class TrainerState:
    """Where training is; kept as JSON beside the weights."""

    step: int = 0
    """Updates done."""
    epoch: int = 0
    """Epoch under way, from 0."""
    batch: int = 0
    """Next batch of the epoch."""
    epoch_batches: int = 0
    """Batches in an epoch."""
    batch_tokens: int = 0
    """training.batch_tokens of these batches; 0 where an older program did not say."""
    order: int = 0
    """CRC-32 of the pairs of all batches so far, in their order: two runs that agree in it read the same."""
    seconds: float = 0.0
    """Wall-clock time of the loop, over all sessions."""
    validation_seconds: float = 0.0
    """What of it went into validation."""
    last_validation_seconds: float = 0.0
    """What the last validation took."""
    validated_step: int = 0
    """Update of the last validation."""
    best_bleu: float = 0.0
    """Dev BLEU of the best checkpoint."""
    best_perplexity: float = float("inf")
    """Dev perplexity of the best checkpoint."""
    best_step: int = 0
    """Update of the best checkpoint."""
    without_improvement: int = 0
    """Validations since then."""
    decay: float = 1.0
    """What schedule: plateau has multiplied the rate by."""
    loss: float = 0.0
    """Mean negative log-likelihood of a token in the last update, in nats."""
    gradient_norm: float = 0.0
    """Before clipping, of the last update."""
    learning_rate: float = 0.0
    """Of the last update."""
    peak_rate: float = 0.0
    """training.learning_rate of the last update."""
    skipped: int = 0
    """Updates left out because loss or gradient was not finite."""
    skipped_in_row: int = 0
    """How many of them came last, one after the other."""
    went_back: bool = False
    """Whether the run has gone back to its best weights because of them, and has half the rate since."""
    split: int = 0
    """Batches split because memory ran out."""
    left_out: int = 0
    """Pairs left out of an update because not even one alone fitted into memory."""
