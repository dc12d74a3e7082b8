"""A prepared corpus as text of its own pieces, so that others train on the same tokens."""

from pathlib import Path

from seq2seq.data.files import write_text
from seq2seq.data.prepare import SIDES, Prepared
from seq2seq.data.tokenizer.protocol import SPECIALS


def write_pieces(prepared: Prepared, folder: Path) -> None:
    """Write {train,dev}.{source,target}, pieces between blanks, and vocabulary.{source,target}, a piece a line.

    The vocabularies leave out the four special entries, which everyone adds; what is unknown stands as <unk>.
    """
    for side in SIDES:
        tokenizer = prepared.tokenizer(side)
        pieces = tokenizer.tokens(range(tokenizer.size))
        write_text(folder / f"vocabulary.{side}", "".join(f"{piece}\n" for piece in pieces[len(SPECIALS) :]))
        for part in ("train", "dev"):
            store = getattr(prepared.store(part), side)
            sentences = (" ".join(pieces[id] for id in store[row]) for row in range(len(store)))
            write_text(folder / f"{part}.{side}", "".join(f"{sentence}\n" for sentence in sentences))
