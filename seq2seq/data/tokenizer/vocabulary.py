"""Characters or words, numbered by a vocabulary that is kept as JSON."""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, field_validator

from seq2seq.config.schema import Tokenizer
from seq2seq.data.files import write_text
from seq2seq.data.tokenizer.protocol import SPECIALS, UNK, squeeze, tokenizer_path
from seq2seq.data.tokenizer.segmentation import segmenter
from seq2seq.errors import UserError


class Vocabulary(BaseModel):
    """What the JSON file holds."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    kind: Literal["characters", "words"]
    language: str
    compatibility: bool
    """Whether text is brought to NFKC first, as SentencePiece does for a source."""
    entries: list[str]
    """Tokens from id 4 on; the special ones stand before them."""

    @field_validator("entries")
    @classmethod
    def _differ(cls, entries: list[str]) -> list[str]:
        if len(set(entries)) < len(entries):
            raise ValueError("an entry stands twice")
        return entries


class VocabularyTokenizer:
    """A segmenter and a vocabulary behind the TextTokenizer protocol.

    Raises:
        ValueError: nothing here finds the words of the language.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._segmenter = segmenter(vocabulary.kind, vocabulary.language)
        self._tokens = [*SPECIALS, *vocabulary.entries]
        # The special ones are not in it, so that nobody can type them.
        self._ids = {token: number for number, token in enumerate(vocabulary.entries, len(SPECIALS))}

    @property
    def size(self) -> int:
        return len(self._tokens)

    def split(self, text: str) -> list[str]:
        """The tokens of a text, in the vocabulary or not."""
        if self._vocabulary.compatibility:
            text = unicodedata.normalize("NFKC", text)
        return self._segmenter.split(squeeze(text))

    def encode(self, text: str) -> list[int]:
        return [self._ids.get(token, UNK) for token in self.split(text)]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def sample(self, text: str, alpha: float, seed: int) -> list[int]:
        return self.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        return squeeze(self._segmenter.join([self._tokens[each] for each in ids if each >= len(SPECIALS)]))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._tokens[each] for each in ids]

    def save(self, directory: Path, side: str) -> None:
        write_text(tokenizer_path(directory, side, "json"), self._vocabulary.model_dump_json(indent=0) + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is damaged.
        """
        return cls(Vocabulary.model_validate_json(path.read_bytes()))


def train_vocabulary(sentences: Sequence[str], settings: Tokenizer, language: str, side: str) -> VocabularyTokenizer:
    """Count characters or words and keep the most frequent; of equally frequent ones the first by code point.

    Raises:
        UserError: nothing here finds the words of the language.
    """
    from torchtext.vocab import Vocab  # brings torch along, which loading is to do without

    empty = {"kind": settings.kind, "language": language, "compatibility": side == "source", "entries": []}
    try:
        splitter = VocabularyTokenizer(Vocabulary.model_validate(empty))
    except ValueError as error:
        raise UserError(f"tokenizer.{side}.kind: {error}") from None
    counts = Counter(token for sentence in sentences for token in splitter.split(sentence))
    room = settings.vocabulary_size - len(SPECIALS)
    vocabulary = Vocab(counts, max_size=room, min_freq=settings.min_frequency, specials=list(SPECIALS))
    entries = vocabulary.itos[len(SPECIALS) :]
    return VocabularyTokenizer(Vocabulary.model_validate({**empty, "entries": entries}))
