"""A training sentence that does not fit into a batch."""

from pathlib import Path

import pytest

from seq2seq.data.batching import Batches
from seq2seq.data.budget import check_budget
from seq2seq.data.prepare import prepare
from seq2seq.errors import UserError


@pytest.mark.parametrize("side", ["source", "target"])
def test_the_longest_training_sentence_is_named_with_what_would_do(config, tmp_path: Path, side: str) -> None:
    pairs = [(str(n), str(n)) for n in range(100, 150)]
    pairs[30] = ("1" * 40, "2" * 39) if side == "source" else ("1" * 39, "2" * 40)
    held_out, train = tmp_path / "held.tsv", tmp_path / "train.tsv"
    train.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    held_out.write_text("3" * 300 + "\t4\n", encoding="utf-8")
    prepared = prepare(config(f"data.train={train}", f"data.dev={held_out}", f"data.test={held_out}"), tmp_path)
    check_budget(prepared, 41)
    assert all(len(rows) * 41 <= 41 for rows in Batches(prepared.store("train"), 41).plan(0) if 30 in rows)
    with pytest.raises(UserError) as caught:
        check_budget(prepared, 40)
    assert str(caught.value) == (
        f"training.batch_tokens: 40 is too small for the longest training sentence, which needs 41 tokens "
        f"({side} of {train}, line 31); raise it to 41 or more, or lower data.cleaning.max_characters"
    )
