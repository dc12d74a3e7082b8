"""Tokenizers: SentencePiece subwords, characters or words behind one protocol, with the same four special ids."""

import logging
from collections.abc import Iterable
from pathlib import Path

from seq2seq.config.schema import Tokenizer
from seq2seq.data.tokenizer.protocol import BOS, EOS, PAD, UNK, TextTokenizer, squeeze, tokenizer_path
from seq2seq.data.tokenizer.subword import SubwordTokenizer, train_subword
from seq2seq.data.tokenizer.vocabulary import VocabularyTokenizer, train_vocabulary
from seq2seq.errors import UserError

__all__ = ["BOS", "EOS", "PAD", "UNK", "TextTokenizer", "load_tokenizer", "train_tokenizer"]

log = logging.getLogger(__name__)


def train_tokenizer(sentences: Iterable[str], settings: Tokenizer, language: str, side: str) -> TextTokenizer:
    """Learn the tokenizer of a side ("source" or "target") from training text; the same text gives the same one.

    A vocabulary that the text cannot fill comes out smaller, one too small for the characters larger, with a warning.

    Raises:
        UserError: the text is empty, or the settings do not go with it.
    """
    squeezed = [text for text in map(squeeze, sentences) if text]
    if not squeezed:
        raise UserError(f"tokenizer.{side}: the training text is empty; see data.train")
    train = train_subword if settings.kind in ("unigram", "bpe") else train_vocabulary
    tokenizer: TextTokenizer = train(squeezed, settings, language, side)
    asked, got = settings.vocabulary_size, tokenizer.size
    if got != asked:
        reason = "the training text yields no more" if got < asked else "the characters to be covered need as many"
        log.warning(f"tokenizer.{side}.vocabulary_size: asked for {asked:,}, got {got:,}: {reason}")
    return tokenizer


def load_tokenizer(directory: Path, side: str) -> TextTokenizer:
    """The tokenizer that was saved for a side ("source" or "target"); nothing is unpickled.

    Raises:
        UserError: the file is missing or damaged.
    """
    model, vocabulary = (tokenizer_path(directory, side, suffix) for suffix in ("model", "json"))
    path = model if model.exists() else vocabulary
    try:
        return SubwordTokenizer.load(path) if path == model else VocabularyTokenizer.load(path)
    except FileNotFoundError:
        raise UserError(f"{model}: no such file, nor {vocabulary.name}; prepare or train again") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise UserError(f"{path}: damaged, not a tokenizer; prepare or train again") from None
