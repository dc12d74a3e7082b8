"""Greedy and beam search over any model that can take one step; imports nothing of ours."""

from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

State = TypeVar("State")
NEVER = -torch.inf


class StepModel(Protocol[State]):
    """What a search needs of a model; a state holds one row for each hypothesis."""

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State, Tensor]:
        """Last written tokens (N) int64 -> log-probabilities (N V), next state, attention weights (N S).

        Each row of the log-probabilities is a distribution: none is above 0, and not all of them are -inf.
        """

    def select(self, state: State, rows: Tensor) -> State:
        """The state of the given rows (M) int64: repeated, reordered or dropped."""


class Hypothesis(NamedTuple):
    """A translation as the model wrote it."""

    tokens: list[int]
    """What was written, without bos and eos."""
    score: float
    """log_probability / length ** length_penalty; length counts eos where it was written."""
    log_probability: float
    """Sum of the natural log-probabilities of the tokens and of eos where it was written."""
    finished: bool
    """True when it ends in eos, False when it was cut at its limit."""
    attention: Tensor | None
    """(L S): row t is what the model looked at to write token t; a finished one has a last row more, for eos.
    None unless asked for."""


@torch.no_grad()
def greedy(
    model: StepModel[State],
    state: State,
    limits: Tensor,
    bos: int,
    eos: int,
    *,
    length_penalty: float = 1.0,
    attention: bool = False,
) -> list[Hypothesis]:
    """Write the likeliest token at each step, the lowest id among equals; ended sentences leave the batch.

    Args:
        model, state: state has one row for each of the B sentences.
        limits: (B) int64 on the model's device: tokens to write at most, eos included; at least 1.
        length_penalty: only scales the scores.

    Raises:
        ValueError: a limit below 1.
    """
    longest = _longest(limits)
    answers: dict[int, Hypothesis] = {}
    sentences = torch.arange(len(limits), device=limits.device)  # (B) the place of each row in the answer
    totals = torch.zeros(len(limits), device=limits.device)
    tokens = torch.full_like(limits, bos)
    written = limits.new_empty(len(limits), 0)  # (B L)
    seen: Tensor | None = None  # (B L S)
    for length in range(1, longest + 1):
        log_probabilities, state, weights = model.step(tokens, state)
        likeliest, tokens = log_probabilities.max(dim=1)
        totals = totals + likeliest
        rows = torch.arange(len(tokens), device=tokens.device)
        written = _extend(written, rows, tokens)
        if attention:
            seen = _extend(seen, rows, weights)
        ended = tokens == eos
        leaving = ended | (limits == length)
        if not leaving.any():
            continue
        hypotheses = _hypotheses(
            written[leaving],
            totals[leaving],
            totals[leaving] / length**length_penalty,
            ended[leaving],
            None if seen is None else seen[leaving],
        )
        answers |= zip(sentences[leaving].tolist(), hypotheses, strict=True)
        staying = rows[~leaving]
        if not len(staying):
            break
        state = model.select(state, staying)
        sentences, limits, totals, tokens, written = (x[staying] for x in (sentences, limits, totals, tokens, written))
        seen = None if seen is None else seen[staying]
    return [answers[sentence] for sentence in sorted(answers)]


@torch.no_grad()
def beam_search(
    model: StepModel[State],
    state: State,
    limits: Tensor,
    bos: int,
    eos: int,
    *,
    beam: int,
    length_penalty: float,
    n_best: int = 1,
    attention: bool = False,
) -> list[list[Hypothesis]]:
    """Keep the likeliest `beam` beginnings of each sentence; a finished one takes its place in the beam with it.

    At each step all continuations of a sentence's live hypotheses compete for the places left (equals rank by
    hypothesis, then by token id), so that beam 1 is greedy search (Bahdanau 2015's beam). A sentence leaves the batch
    as soon as nothing live can enter its `n_best`: the answer is what a search to the limit would find.

    Args:
        model, state: state has one row for each of the B sentences.
        limits: (B) int64 on the model's device: tokens to write at most, eos included; at least 1.
        beam: hypotheses of a sentence, live and finished together, at most.
        length_penalty: at least 0.
        n_best: hypotheses to return for each sentence at most, up to `beam`; the more, the later a search may stop.

    Returns:
        For each sentence at least one hypothesis, best score first; those cut at the limit only fill the places
        that too few finished ones leave, so none of them stands before a finished one.

    Raises:
        ValueError: beam, length_penalty, n_best or a limit outside its range.
    """
    if not 1 <= n_best <= beam or length_penalty < 0:
        raise ValueError(f"need 1 <= n_best <= beam and length_penalty >= 0: {n_best=}, {beam=}, {length_penalty=}")
    longest = _longest(limits)
    norms = torch.arange(1, longest + 1, device=limits.device) ** length_penalty
    answers: list[list[Hypothesis]] = [[] for _ in range(len(limits))]
    sentences = torch.arange(len(limits), device=limits.device)  # (B) the place of each sentence in the answer
    places = torch.full_like(limits, beam)  # (B) beam less what has finished
    best = torch.full((len(limits), n_best), NEVER, device=limits.device)  # (B n_best) scores of finished ones
    totals = torch.zeros(len(limits), 1, device=limits.device)  # (B K) log-probabilities, NEVER where none lives
    tokens = torch.full_like(limits, bos)  # (N = B * K)
    written = limits.new_empty(len(limits), 0)  # (N L)
    seen: Tensor | None = None  # (N L S)
    for length in range(1, longest + 1):
        log_probabilities, state, weights = model.step(tokens, state)
        width, size = totals.size(1), log_probabilities.size(1)
        candidates = (totals.reshape(-1, 1) + log_probabilities).view(-1, width * size)
        totals, chosen = _top(candidates, min(int(places.max()), width * size))
        ranks = torch.arange(totals.size(1), device=totals.device)
        totals = totals.masked_fill(ranks >= places[:, None], NEVER)
        rows = chosen // size + width * torch.arange(len(chosen), device=chosen.device)[:, None]  # (B K)
        ids = chosen % size

        alive = totals != NEVER
        ended = alive & (ids == eos)
        scores = totals / norms[length - 1]
        leaving = ended | (alive & (limits == length)[:, None])
        if leaving.any():
            hypotheses = _hypotheses(
                _extend(written, rows[leaving], ids[leaving]),
                totals[leaving],
                scores[leaving],
                ended[leaving],
                _extend(seen, rows[leaving], weights[rows[leaving]]) if attention else None,
            )
            owners = sentences[:, None].expand_as(leaving)[leaving].tolist()
            for owner, hypothesis in zip(owners, hypotheses, strict=True):
                answers[owner].append(hypothesis)

        places = places - ended.sum(dim=1)
        best = torch.cat([best, scores.masked_fill(~ended, NEVER)], dim=1).topk(n_best).values
        totals = totals.masked_fill(ended, NEVER)
        # No end L' lies above this bound: L' <= L <= 0 and length <= limit, so L' / length^p <= L / limit^p.
        bound = totals.amax(dim=1) / norms[limits - 1]
        living = (totals != NEVER).sum(dim=1)
        staying = ((living > 0) & ~(best[:, -1] >= bound) & (limits > length)).nonzero().squeeze(1)
        if not len(staying):
            break
        totals, order = totals[staying].sort(dim=1, descending=True, stable=True)
        order = order[:, : int(living[staying].max())]
        totals = totals[:, : order.size(1)]
        parents = rows[staying].gather(1, order).flatten()
        tokens = ids[staying].gather(1, order).flatten()
        state = model.select(state, parents)
        written = _extend(written, parents, tokens)
        if attention:
            seen = _extend(seen, parents, weights[parents])
        sentences, limits, places, best = (x[staying] for x in (sentences, limits, places, best))
    return [sorted(found, key=lambda h: (not h.finished, -h.score))[:n_best] for found in answers]


def _longest(limits: Tensor) -> int:
    if len(limits) and int(limits.min()) < 1:
        raise ValueError(f"a limit must be 1 or more, not {int(limits.min())}")
    return int(limits.max()) if len(limits) else 0


def _top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` best of each row of (B N), best first; equals rank by index, which topk leaves open."""
    values, pool = scores.topk(min(count + 1, scores.size(1)))
    if ((values[:, count:] == values[:, count - 1 : count]) & (values[:, count:] != NEVER)).any():
        # A tie across the cut, which is rare: only a stable sort of everything settles who gets in.
        pool = torch.arange(scores.size(1), device=scores.device).expand_as(scores)
    else:
        pool = pool[:, :count].sort(dim=1).values
    values, order = scores.gather(1, pool).sort(dim=1, descending=True, stable=True)
    return values[:, :count], pool.gather(1, order[:, :count])


def _extend(history: Tensor | None, rows: Tensor, last: Tensor) -> Tensor:
    """The history (N L ...) of the given rows (M), and after it what each of them saw last (M ...)."""
    last = last.unsqueeze(1)
    return last if history is None else torch.cat([history[rows], last], dim=1)


def _hypotheses(
    written: Tensor, totals: Tensor, scores: Tensor, ended: Tensor, seen: Tensor | None
) -> list[Hypothesis]:
    """One for each row of what was written (M L), which still ends in eos where it ended."""
    attention = [None] * len(written) if seen is None else list(seen)
    rows = zip(written.tolist(), totals.tolist(), scores.tolist(), ended.tolist(), attention, strict=True)
    return [Hypothesis(ids[:-1] if end else ids, score, total, end, view) for ids, total, score, end, view in rows]
