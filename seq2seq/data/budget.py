"""Whether the longest training sentence fits into a batch."""

import numpy as np

from seq2seq.data.prepare import Prepared
from seq2seq.errors import UserError


def check_budget(prepared: Prepared, batch_tokens: int) -> None:
    """See to it that every training pair fits into a batch, counted as batches are: with </s> or <s>.

    Raises:
        UserError: the longest does not.
    """
    store = prepared.store("train")
    source, target = store.source.lengths, store.target.lengths
    row = int(np.argmax(np.maximum(source, target)))
    side = "source" if source[row] >= target[row] else "target"
    needed = int(max(source[row], target[row])) + 1
    if needed > batch_tokens:
        raise UserError(
            f"training.batch_tokens: {batch_tokens} is too small for the longest training sentence, which needs "
            f"{needed} tokens ({side} of {prepared.origins().describe([row])}); raise it to {needed} or more, "
            f"or lower data.cleaning.max_characters"
        )
