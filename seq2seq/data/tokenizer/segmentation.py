"""Text to characters or words, and back to text."""

import functools
import html
import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from seq2seq.config.schema import TokenizerKind
from seq2seq.data.languages import base_language, writes_blanks
from seq2seq.data.tokenizer.protocol import BLANK


class Segmenter(Protocol):
    """Both ways between a text, squeezed, and its tokens."""

    def split(self, text: str) -> list[str]:
        """Tokens of a text."""

    def join(self, tokens: Sequence[str]) -> str:
        """The text of tokens."""


class Characters:
    """Each character is a token, a blank too."""

    def split(self, text: str) -> list[str]:
        return list(text.replace(" ", BLANK))

    def join(self, tokens: Sequence[str]) -> str:
        return "".join(tokens).replace(BLANK, " ")


class ChineseWords(Characters):
    """jieba's words; a blank, as between two Latin words, is a token, so that joining loses nothing."""

    def split(self, text: str) -> list[str]:
        return [word.replace(" ", BLANK) for word in _jieba().lcut(text)]


class MosesWords:
    """Words and punctuation by the rules of Moses; torchtext applies the English ones to every language."""

    def split(self, text: str) -> list[str]:
        # Moses escapes & < > ' " [ ] | for its own formats; a reader of tokens wants the characters.
        return [html.unescape(token) for token in _moses_tokenize()(text)]

    def join(self, tokens: Sequence[str]) -> str:
        # Moses splits 8:30 and puts it together as 8: 30.
        return re.sub(r"(?<=\d): (?=\d\d\b)", ":", _moses_detokenizer().detokenize(tokens, unescape=False))


def segmenter(kind: TokenizerKind, language: str) -> Segmenter:
    """The segmenter of a kind (characters or words) for a language.

    Raises:
        ValueError: the language writes no blanks between words, and nothing here can find them.
    """
    if kind == "characters":
        return Characters()
    if base_language(language) == "zh":
        return ChineseWords()
    if not writes_blanks(language):
        raise ValueError(f"words of {language} cannot be told apart here; use unigram, bpe or characters")
    return MosesWords()


@functools.cache
def _jieba() -> Any:
    import jieba

    # One of our own, since the global one may be given words by others; read from its dictionary, since
    # jieba.initialize logs and trusts a cache in the folder for temporary files.
    tokenizer = jieba.Tokenizer()
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    return tokenizer


@functools.cache
def _moses_tokenize() -> Callable[[str], list[str]]:
    from torchtext.data.utils import get_tokenizer

    tokenize: Callable[[str], list[str]] = get_tokenizer("moses")
    return tokenize


@functools.cache
def _moses_detokenizer() -> Any:
    from sacremoses import MosesDetokenizer

    return MosesDetokenizer("en")
