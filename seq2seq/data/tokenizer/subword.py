"""Subwords: SentencePiece's unigram model (Kudo 2018) and byte-pair encoding (Sennrich et al. 2016)."""

import functools
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import sentencepiece

from seq2seq.config.schema import Tokenizer
from seq2seq.data.files import atomic_write
from seq2seq.data.languages import writes_blanks
from seq2seq.data.tokenizer.protocol import BOS, EOS, PAD, SPECIALS, UNK, squeeze, tokenizer_path
from seq2seq.data.tokenizer.sampling import SegmentationSampler, segmentation_sampler
from seq2seq.errors import UserError

# The most pieces that SentencePiece's unigram trainer starts from; a larger size only costs memory.
_MOST_PIECES = 1_000_000
# SentencePiece drops longer lines (in bytes) without a word; this is the largest limit it takes.
_LONGEST_LINE = 2**30
# Stands for an unknown character inside SentencePiece, which leaves out every sentence that holds it, without a word.
_RESERVED = "\N{LOWER FIVE EIGHTHS BLOCK}"
_TOO_SMALL = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")


class SubwordTokenizer:
    """A SentencePiece model behind the TextTokenizer protocol.

    Args:
        model: the serialised model.

    Raises:
        ValueError: this is no SentencePiece model, or one with other special ids.
    """

    def __init__(self, model: bytes) -> None:
        if not model:
            raise ValueError("empty")
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError:
            raise ValueError("not a SentencePiece model") from None
        processor = self._processor
        if [processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id()] != [PAD, UNK, BOS, EOS]:
            raise ValueError("a SentencePiece model with other special ids")

    @property
    def size(self) -> int:
        return int(self._processor.get_piece_size())

    def encode(self, text: str) -> list[int]:
        return list(self._processor.encode(squeeze(text)))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return list(self._processor.encode([squeeze(text) for text in texts], num_threads=1))

    def sample(self, text: str, alpha: float, seed: int) -> list[int]:
        if alpha == 0.0:  # to the unigram model this would mean: all segmentations alike
            return self.encode(text)
        return self._sampler.sample(self._processor.normalize(squeeze(text)), alpha, seed)

    @functools.cached_property
    def _sampler(self) -> SegmentationSampler:
        return segmentation_sampler(self._processor)

    def decode(self, ids: Sequence[int]) -> str:
        return squeeze(self._processor.decode([int(each) for each in ids if each >= len(SPECIALS)]))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._processor.id_to_piece(int(each)) for each in ids]

    def save(self, directory: Path, side: str) -> None:
        with atomic_write(tokenizer_path(directory, side, "model")) as file:
            file.write(self._processor.serialized_model_proto())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is damaged.
        """
        return cls(path.read_bytes())


def train_subword(sentences: Sequence[str], settings: Tokenizer, language: str, side: str) -> SubwordTokenizer:
    """Learn subwords; `size` may come out smaller than asked for, or larger where the characters alone need it.

    Raises:
        UserError: SentencePiece cannot learn from this text with these settings.
    """
    size = min(settings.vocabulary_size, _MOST_PIECES)
    try:
        try:
            return _train(sentences, settings, language, side, size)
        except RuntimeError as error:
            required = _TOO_SMALL.search(str(error))
            if not required:
                raise
            return _train(sentences, settings, language, side, int(required[1]))
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise UserError(f"tokenizer.{side}: SentencePiece cannot learn from this text: {reason}") from None


def _train(sentences: Sequence[str], settings: Tokenizer, language: str, side: str, size: int) -> SubwordTokenizer:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(sentence.replace(_RESERVED, " ") for sentence in sentences),
        model_writer=model,
        model_type=settings.kind,
        vocab_size=size,
        hard_vocab_limit=False,  # fewer pieces where the text holds no more
        character_coverage=settings.character_coverage,
        # A source may be typed in any width; a target keeps its own (full-width Chinese punctuation).
        normalization_rule_name="nmt_nfkc" if side == "source" else "identity",
        # Without blanks between words, a first word is not to differ from the same word further on.
        add_dummy_prefix=writes_blanks(language),
        max_sentence_length=_LONGEST_LINE,
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
        pad_piece=SPECIALS[PAD],
        unk_piece=SPECIALS[UNK],
        bos_piece=SPECIALS[BOS],
        eos_piece=SPECIALS[EOS],
        num_threads=2,  # fixed: the sums of the threads, and with them the model, depend on their number
        minloglevel=2,
    )
    return SubwordTokenizer(model.getvalue())
