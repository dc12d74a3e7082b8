"""Text in, translations out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from seq2seq.checkpoint import RunDirectory
from seq2seq.config.schema import Config, Search
from seq2seq.data.batching import Batch, group, make_batch, pad
from seq2seq.data.cleaning import normalize
from seq2seq.data.languages import writes_blanks
from seq2seq.data.tokenizer import BOS, EOS, PAD, UNK, TextTokenizer
from seq2seq.data.tokenizer.protocol import SPECIALS
from seq2seq.errors import UserError, is_out_of_memory
from seq2seq.inference.long_text import BlockDiagonal, cut
from seq2seq.inference.search import Hypothesis, beam_search, greedy
from seq2seq.model import DecoderState, Memory, Seq2Seq


class StepState(NamedTuple):
    """What the search carries along for each hypothesis."""

    decoder: DecoderState
    memory: Memory


class DecoderSteps:
    """Seq2Seq as the search sees it: log-probabilities of the next token; <pad>, <unk> and <s> are never written."""

    def __init__(self, model: Seq2Seq) -> None:
        self.model = model

    def start(self, source: Tensor) -> StepState:
        """The state before the first step, from source ids (B S)."""
        memory, decoder = self.model.encode(source)
        return StepState(decoder, memory)

    def step(self, tokens: Tensor, state: StepState) -> tuple[Tensor, StepState, Tensor]:
        """Last tokens (N) -> log-probabilities (N V), next state, attention weights (N S)."""
        decoder = self.model.decoder
        features, next_state, weights = decoder.step(tokens, state.decoder, state.memory)
        return self.log_probabilities(decoder.output(features)), StepState(next_state, state.memory), weights

    @staticmethod
    def log_probabilities(logits: Tensor) -> Tensor:
        """Of the tokens that may be written; `logits` (... V) are changed."""
        logits[..., [PAD, UNK, BOS]] = -math.inf
        return logits.log_softmax(dim=-1)

    def select(self, state: StepState, rows: Tensor) -> StepState:
        """The state of the given rows."""
        return StepState(state.decoder.select(rows), state.memory.select(rows))


@dataclass(frozen=True)
class Translation:
    """One translated text."""

    text: str
    score: float
    """Log-probability / length ** length_penalty; 0 for an empty text."""
    source_tokens: list[str]
    """With </s>."""
    target_tokens: list[str]
    """With </s> where the search reached it."""
    attention: Sequence[Sequence[float]] | None
    """One row for each target token, one column for each source token; only where asked for."""
    pieces: "Sequence[Translation]" = ()
    """What a text longer than search.max_source_tokens was translated in, where it was more than one piece; its tokens
    are theirs, one after the other, each with its </s>, and its attention is theirs as blocks on the diagonal."""

    @classmethod
    def join(cls, pieces: "Sequence[Translation]", blank: str, length_penalty: float) -> Self:
        """One translation of the translations of its pieces.

        Its score is the sum of their log-probabilities / the sum of their lengths ** length_penalty.

        Args:
            pieces: at least one, each with at least one target token.
            blank: stands between their texts.
            length_penalty: what their scores were computed with.
        """
        lengths = [len(piece.target_tokens) for piece in pieces]
        total = sum(piece.score * length**length_penalty for piece, length in zip(pieces, lengths, strict=True))
        attention = [piece.attention for piece in pieces if piece.attention is not None]
        return cls(
            blank.join(piece.text for piece in pieces if piece.text),
            total / sum(lengths) ** length_penalty,
            [token for piece in pieces for token in piece.source_tokens],
            [token for piece in pieces for token in piece.target_tokens],
            BlockDiagonal(attention, [len(piece.source_tokens) for piece in pieces]) if attention else None,
            pieces,
        )

    def alignment(self) -> list[tuple[int, int]]:
        """Links (source token, target token) from 0: each target token with the source token of most attention.

        </s> is left out on both sides; of equal weights the first counts. A target token that looks at nothing but the
        source's </s> has no link.

        Raises:
            ValueError: the attention was not kept.
        """
        if self.attention is None:
            raise ValueError("no attention was kept: ask for it with translate(..., attention=True)")
        if self.pieces:
            return self._alignment_of_pieces()
        ended = self.target_tokens[-1:] == [SPECIALS[EOS]]
        rows = [row[:-1] for row in self.attention[: len(self.target_tokens) - ended]]
        return [(row.index(max(row)), target) for target, row in enumerate(rows) if any(row)]

    def _alignment_of_pieces(self) -> list[tuple[int, int]]:
        links, source, target = [], 0, 0
        for piece in self.pieces:
            links += [(source + first, target + second) for first, second in piece.alignment()]
            source += len(piece.source_tokens)
            target += len(piece.target_tokens)
        return links


EMPTY = Translation("", 0.0, [], [], [])
Ids = tuple[int, ...]
"""Source ids of a piece of text, without </s>."""


def check_attention(config: Config, run: Path, option: str) -> None:
    """See to it that a run chooses where it looks, before anything costly is done to show it.

    Args:
        config: the run's configuration.
        run: the run directory, for the message.
        option: what asks for the attention, for the message.

    Raises:
        UserError: its attention.kind is none.
    """
    if config.attention.kind == "none":
        raise UserError(
            f"{run}: has attention.kind: none, which looks at all positions alike, so {option} has nothing to show; "
            f"leave {option} out, or name a run of another kind with --model"
        )


class Translator:
    """A model with its two tokenizers.

    Args:
        model: in eval mode, on its device.
        source: source tokenizer.
        target: target tokenizer.
        search: beam size, length penalty and limits.
        target_language: ISO 639 code; decides whether a blank stands between the pieces of a long text.
    """

    def __init__(
        self,
        model: Seq2Seq,
        source: TextTokenizer,
        target: TextTokenizer,
        search: Search,
        target_language: str = "en",
    ) -> None:
        self.model, self.steps = model, DecoderSteps(model)
        self.source, self.target, self.search = source, target, search
        self.blank = " " if writes_blanks(target_language) else ""
        self.device = next(model.parameters()).device

    @classmethod
    def load(cls, run: str | Path, device: str | torch.device = "cpu") -> Self:
        """The best model of a run directory.

        Raises:
            UserError: the directory holds no run, or a damaged one.
        """
        loaded = RunDirectory(Path(run)).load(torch.device(device))
        config = loaded.config
        return cls(loaded.model, loaded.source, loaded.target, config.search, config.data.target_language)

    def translate(self, texts: Sequence[str], beam: int | None = None, attention: bool = False) -> list[Translation]:
        """One translation for each text, in order; an empty text gives an empty translation.

        A text with more source tokens than search.max_source_tokens is translated in pieces, cut where sentences end.

        Args:
            texts: what to translate; not a single string.
            beam: beam size, 1 is greedy; None: the run's search.beam.
            attention: whether to keep the attention weights.

        Raises:
            TypeError: `texts` is a single string.
            ValueError: `beam` is below 1.
        """
        if isinstance(texts, str):
            raise TypeError("texts is a single string; give a list: translate([text])")
        if beam is not None and beam < 1:
            raise ValueError(f"beam is {beam}; it must be 1 or more")
        sources = self._pieces([normalize(text) for text in texts])
        # The same piece is translated once, however often it comes.
        distinct = list(dict.fromkeys(piece for pieces in sources for piece in pieces))
        translated = self._translate(distinct, beam or self.search.beam, attention)
        return [self._join([translated[piece] for piece in pieces]) for pieces in sources]

    def _pieces(self, texts: list[str]) -> list[list[Ids]]:
        """Source ids of the pieces of each text; an empty text has none."""
        ids, limit = self.source.encode_batch(texts), self.search.max_source_tokens
        return [
            [tuple(piece) for piece in cut(text, of_text, self.source, limit)]
            for text, of_text in zip(texts, ids, strict=True)
        ]

    def _join(self, translations: list[Translation]) -> Translation:
        if len(translations) == 1:
            return translations[0]
        return Translation.join(translations, self.blank, self.search.length_penalty) if translations else EMPTY

    @torch.inference_mode()
    def force_decode(self, sources: Sequence[str], targets: Sequence[str]) -> list[Translation]:
        """Each target as the translation of its source, read with teacher forcing, with its attention.

        Its score is -inf where it has a token that no search ever writes: <unk>.

        Raises:
            ValueError: the two differ in length.
        """
        if len(sources) != len(targets):
            raise ValueError(f"sources and targets differ in number: {len(sources)} and {len(targets)}")
        ids = self.source.encode_batch([*map(normalize, sources)]), self.target.encode_batch([*map(normalize, targets)])
        lengths = np.array([max(map(len, pair)) + 1 for pair in zip(*ids, strict=True)], dtype=np.int64)
        found: dict[int, Translation] = {}
        for rows in group(lengths, np.argsort(-lengths, kind="stable"), self.search.batch_tokens):
            batch = make_batch(*([side[row] for row in rows] for side in ids)).to(self.device)
            for row, total, weights in zip(rows, *self._force(batch), strict=True):
                source, target = ([*side[row], EOS] for side in ids)
                found[int(row)] = Translation(
                    targets[row],
                    float(total) / len(target) ** self.search.length_penalty,
                    self.source.tokens(source),
                    self.target.tokens(target),
                    weights[: len(target), : len(source)].tolist(),
                )
        return [found[row] for row in sorted(found)]

    def _force(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Log-probability of each target (B), and the attention at each step (B T S)."""
        logits, attention = self.model(batch.source, batch.target_input)
        expected = batch.target_output
        tokens = self.steps.log_probabilities(logits).gather(2, expected.unsqueeze(2)).squeeze(2)
        return tokens.masked_fill(expected == PAD, 0.0).sum(dim=1), attention

    @torch.inference_mode()
    def _translate(self, sources: Sequence[Ids], beam: int, attention: bool) -> dict[Ids, Translation]:
        """The translation of each source, by its ids."""
        lengths = np.array([len(source) + 1 for source in sources], dtype=np.int64)
        found: dict[Ids, Translation] = {}
        for rows in group(lengths, np.argsort(-lengths, kind="stable"), max(1, self.search.batch_tokens // beam)):
            batch = [sources[row] for row in rows]
            for source, best in zip(batch, self._search(batch, beam, attention), strict=True):
                found[source] = Translation(
                    self.target.decode(best.tokens),
                    best.score,
                    self.source.tokens([*source, EOS]),
                    self.target.tokens([*best.tokens, EOS] if best.finished else best.tokens),
                    None if best.attention is None else best.attention[:, : len(source) + 1].tolist(),
                )
        return found

    def _search(self, sources: Sequence[Ids], beam: int, attention: bool) -> list[Hypothesis]:
        """The best hypothesis of each source: of all at once, or of halves where memory does not suffice."""
        middle = len(sources) // 2
        try:
            return self._search_together(sources, beam, attention)
        except (RuntimeError, MemoryError) as error:
            if not (middle and is_out_of_memory(error)):
                raise
        parts = (sources[:middle], sources[middle:])
        return [best for part in parts for best in self._search(part, beam, attention)]

    def _search_together(self, sources: Sequence[Ids], beam: int, attention: bool) -> list[Hypothesis]:
        search = self.search
        ids = pad(sources, None, EOS).to(self.device)
        limits = (ids != PAD).sum(dim=1) * search.max_length_ratio + search.max_length_extra
        state = self.steps.start(ids)
        if beam == 1:
            return greedy(
                self.steps, state, limits.long(), BOS, EOS, length_penalty=search.length_penalty, attention=attention
            )
        found = beam_search(
            self.steps,
            state,
            limits.long(),
            BOS,
            EOS,
            beam=beam,
            length_penalty=search.length_penalty,
            attention=attention,
        )
        return [hypotheses[0] for hypotheses in found]
