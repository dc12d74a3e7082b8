"""The searches against brute force and a plain beam search, on tiny models whose every step depends on the history."""

import math
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from seq2seq.inference.search import Hypothesis, beam_search, greedy

BOS, EOS = 1, 2
CELLS = 97


class TableModel:
    """A step model that is a table: the state is a hash of all that was read, and picks the row of the table."""

    def __init__(self, seed: int, size: int, *, ties: bool = False, holes: float = 0.0, eos_bias: float = 0.0) -> None:
        generator = torch.Generator().manual_seed(seed)
        scores = 2 * torch.randn(CELLS, size, generator=generator, dtype=torch.float64)
        scores[:, EOS] += eos_bias
        if holes:
            hidden = torch.rand(CELLS, size, generator=generator) < holes
            hidden[torch.arange(CELLS), scores.argmax(dim=1)] = False
            scores = scores.masked_fill(hidden, -math.inf)
        self.table = scores.log_softmax(dim=1)
        if ties:  # few values, of which sums are exact
            self.table = (4 * self.table).round().clamp(min=-12) / 4
        self.rows: list[int] = []

    def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.rows.append(len(tokens))
        assert len(tokens) == len(state)
        state = (31 * state + 7 * tokens + 3) % CELLS
        return self.table[state], state, torch.nn.functional.one_hot(state, CELLS)

    def select(self, state: Tensor, rows: Tensor) -> Tensor:
        return state[rows]


class Plain(NamedTuple):
    """A hypothesis as the references below write it; `tokens` holds eos where it is finished."""

    tokens: tuple[int, ...]
    log_probability: float
    state: int
    finished: bool = False

    def score(self, penalty: float) -> float:
        return self.log_probability / len(self.tokens) ** penalty


def plain_continuations(model: TableModel, beginning: Plain) -> list[Plain]:
    last = beginning.tokens[-1] if beginning.tokens else BOS
    state = (31 * beginning.state + 7 * last + 3) % CELLS
    return [
        Plain((*beginning.tokens, token), beginning.log_probability + value, state, token == EOS)
        for token, value in enumerate(model.table[state].tolist())
        if value > -math.inf
    ]


def plain_ranking(found: list[Plain], penalty: float) -> list[Plain]:
    return sorted(found, key=lambda h: (not h.finished, -h.score(penalty)))


def plain_beam(model: TableModel, start: int, limit: int, beam: int, penalty: float) -> list[Plain]:
    """One sentence, list by list, to the very end: no batch, no early stop."""
    live = [Plain((), 0.0, start)]
    finished: list[Plain] = []
    for _ in range(limit):
        candidates = [c for beginning in live for c in plain_continuations(model, beginning)]
        kept = sorted(candidates, key=lambda c: -c.log_probability)[: beam - len(finished)]
        finished += [c for c in kept if c.finished]
        live = [c for c in kept if not c.finished]
    return plain_ranking(finished + live, penalty)


def brute_force(model: TableModel, start: int, limit: int, penalty: float) -> list[Plain]:
    """Every hypothesis that there is."""
    live = [Plain((), 0.0, start)]
    finished: list[Plain] = []
    for _ in range(limit):
        continued = [c for beginning in live for c in plain_continuations(model, beginning)]
        finished += [c for c in continued if c.finished]
        live = [c for c in continued if not c.finished]
    return plain_ranking(finished + live, penalty)


def assert_same(found: list[Hypothesis], expected: list[Plain], penalty: float) -> None:
    written = [(h.tokens + [EOS] * h.finished, h.finished) for h in found]
    assert written == [(list(e.tokens), e.finished) for e in expected]
    assert [h.log_probability for h in found] == pytest.approx([e.log_probability for e in expected])
    assert [h.score for h in found] == pytest.approx([e.score(penalty) for e in expected], rel=1e-6)


def searched(
    model: TableModel, starts: list[int], limits: list[int], beam: int, penalty: float, n_best: int | None = None
) -> list[list[Hypothesis]]:
    return beam_search(
        model,
        torch.tensor(starts),
        torch.tensor(limits),
        BOS,
        EOS,
        beam=beam,
        length_penalty=penalty,
        n_best=beam if n_best is None else n_best,
    )


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("limit", [1, 2, 4])
def test_a_beam_as_wide_as_the_search_space_equals_brute_force(penalty: float, limit: int) -> None:
    size = 4
    for seed in range(5):
        model = TableModel(seed, size)
        (found,) = searched(model, [seed], [limit], size**limit, penalty)
        assert_same(found, brute_force(model, seed, limit, penalty), penalty)
        (first,) = searched(model, [seed], [limit], size**limit, penalty, n_best=1)
        assert_same(first, brute_force(model, seed, limit, penalty)[:1], penalty)


sentences = st.lists(st.tuples(st.integers(0, CELLS - 1), st.integers(1, 9)), min_size=1, max_size=5)


@given(
    batch=sentences,
    seed=st.integers(0, 999),
    size=st.integers(3, 9),
    beam=st.integers(1, 12),
    n_best=st.integers(1, 12),
    holes=st.sampled_from([0.0, 0.4, 0.9]),
    eos_bias=st.sampled_from([-4.0, 0.0, 2.0]),
    penalty=st.sampled_from([0.0, 0.6, 1.0, 1.7]),
)
@settings(max_examples=150, deadline=None)
def test_a_batched_beam_that_stops_early_equals_a_plain_one_that_never_does(
    batch: list[tuple[int, int]],
    seed: int,
    size: int,
    beam: int,
    n_best: int,
    holes: float,
    eos_bias: float,
    penalty: float,
) -> None:
    model = TableModel(seed, size, holes=holes, eos_bias=eos_bias)
    starts, limits = (list(column) for column in zip(*batch, strict=True))
    n_best = min(n_best, beam)
    found = searched(model, starts, limits, beam, penalty, n_best)
    assert len(found) == len(batch)
    for hypotheses, (start, limit) in zip(found, batch, strict=True):
        assert_same(hypotheses, plain_beam(model, start, limit, beam, penalty)[:n_best], penalty)


@given(
    batch=sentences,
    seed=st.integers(0, 999),
    size=st.integers(3, 6),
    beam=st.integers(1, 8),
    penalty=st.sampled_from([0.0, 1.0]),
)
@settings(max_examples=100, deadline=None)
def test_equal_hypotheses_rank_alike_in_every_batch(
    batch: list[tuple[int, int]], seed: int, size: int, beam: int, penalty: float
) -> None:
    model = TableModel(seed, size, ties=True)
    starts, limits = (list(column) for column in zip(*batch, strict=True))
    found = searched(model, starts, limits, beam, penalty, n_best=1)
    for hypotheses, (start, limit) in zip(found, batch, strict=True):
        assert_same(hypotheses, plain_beam(model, start, limit, beam, penalty)[:1], penalty)


@given(
    batch=sentences,
    seed=st.integers(0, 999),
    size=st.integers(3, 9),
    ties=st.booleans(),
    penalty=st.sampled_from([0.0, 1.0]),
)
@settings(max_examples=80, deadline=None)
def test_beam_1_equals_greedy_and_greedy_takes_the_likeliest_token_each_time(
    batch: list[tuple[int, int]], seed: int, size: int, ties: bool, penalty: float
) -> None:
    model = TableModel(seed, size, ties=ties)
    starts, limits = (list(column) for column in zip(*batch, strict=True))
    by_greedy = greedy(model, torch.tensor(starts), torch.tensor(limits), BOS, EOS, length_penalty=penalty)
    by_beam = searched(model, starts, limits, 1, penalty)
    for one, hypotheses, (start, limit) in zip(by_greedy, by_beam, batch, strict=True):
        path = Plain((), 0.0, start)
        while len(path.tokens) < limit and not path.finished:
            path = max(plain_continuations(model, path), key=lambda c: c.log_probability)
        assert_same([one], [path], penalty)
        assert_same(hypotheses, [path], penalty)


@pytest.mark.parametrize("beam", [None, 1, 4])
def test_attention_rows_are_those_of_the_hypothesis_itself_eos_included(beam: int | None) -> None:
    model = TableModel(seed=5, size=7)
    starts, limits = torch.arange(12), torch.arange(12) % 7 + 1
    if beam is None:
        found = [[h] for h in greedy(model, starts, limits, BOS, EOS, attention=True)]
    else:
        found = beam_search(model, starts, limits, BOS, EOS, beam=beam, length_penalty=1.0, n_best=beam, attention=True)
    assert {h.finished for hypotheses in found for h in hypotheses} == {True, False}
    for start, hypotheses in enumerate(found):
        for hypothesis in hypotheses:
            state, expected = start, []
            read = [BOS, *hypothesis.tokens]
            for token in read if hypothesis.finished else read[:-1]:
                state = (31 * state + 7 * token + 3) % CELLS
                expected.append(state)
            assert hypothesis.attention is not None
            assert hypothesis.attention.shape == (len(expected), CELLS)
            assert hypothesis.attention.argmax(dim=1).tolist() == expected


def test_attention_is_not_kept_unless_asked_for() -> None:
    model = TableModel(seed=1, size=5)
    (alone,) = greedy(model, torch.tensor([0]), torch.tensor([4]), BOS, EOS)
    ((best,),) = searched(model, [0], [4], 3, 1.0, n_best=1)
    assert alone.attention is None
    assert best.attention is None


class Scripted(TableModel):
    """From start n (below 90) writes token 0 n times and then eos, each with probability 0.9."""

    def __init__(self) -> None:
        super().__init__(seed=0, size=4)
        self.table = torch.full((2, 4), 0.1 / 3, dtype=torch.float64)
        self.table[0, EOS] = self.table[1, 0] = 0.9
        self.table = self.table.log()

    def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.rows.append(len(tokens))
        return self.table[(state > 0).long()], state - 1, torch.ones(len(tokens), 1)


def test_ended_sentences_leave_the_batch_of_greedy() -> None:
    model = Scripted()
    found = greedy(model, torch.tensor([3, 0, 1, 80]), torch.tensor([9, 9, 9, 6]), BOS, EOS)
    assert [(len(h.tokens), h.finished) for h in found] == [(3, True), (0, True), (1, True), (6, False)]
    assert model.rows == [4, 3, 2, 2, 1, 1]


@pytest.mark.parametrize("penalty", [0.0, 0.5, 1.0])
def test_a_beam_stops_in_the_first_step_after_which_nothing_live_can_win(penalty: float) -> None:
    limit = 50
    model = Scripted()
    model.table = model.table.flip(0)  # from start 1: first eos is likely, and from then on token 0
    (found,) = searched(model, [1], [limit], 3, penalty, n_best=1)
    assert found[0].tokens == []
    live = (math.log(0.1 / 3) + n * math.log(0.9) for n in range(limit))
    steps = next(n for n, total in enumerate(live, start=1) if total / limit**penalty < math.log(0.9))
    assert len(model.rows) == steps
    model.rows.clear()
    searched(model, [1], [limit], 3, penalty, n_best=2)
    assert len(model.rows) == limit


def test_sentences_that_are_done_leave_the_batch_of_the_beam() -> None:
    model = Scripted()
    searched(model, [0, 0, 0, 30], [40, 40, 40, 40], 4, 0.0, n_best=1)
    assert model.rows[0] == 4
    assert max(model.rows[1:]) <= 4
    assert len(model.rows) > 20


def test_an_unfinished_hypothesis_never_stands_before_a_finished_one() -> None:
    model = TableModel(seed=3, size=6, eos_bias=-3.0)
    found = searched(model, list(range(40)), [3] * 40, 6, 1.0)
    mixed = [hypotheses for hypotheses in found if len({h.finished for h in hypotheses}) == 2]
    assert any(max(h.score for h in m if not h.finished) > min(h.score for h in m if h.finished) for m in mixed)
    for hypotheses in found:
        finished = [h.finished for h in hypotheses]
        assert finished == sorted(finished, reverse=True)


@pytest.mark.parametrize("extra", [{"attention": True}, {}])
def test_no_sentences_give_no_answers(extra: dict[str, bool]) -> None:
    model = TableModel(seed=0, size=4)
    nothing = torch.zeros(0, dtype=torch.int64)
    assert greedy(model, nothing, nothing, BOS, EOS, **extra) == []
    assert beam_search(model, nothing, nothing, BOS, EOS, beam=2, length_penalty=1.0, **extra) == []


def test_a_model_that_has_diverged_to_nan_still_gets_an_answer_for_each_sentence() -> None:
    model = TableModel(seed=0, size=4)
    model.table = torch.full_like(model.table, math.nan)
    found = searched(model, [0, 1], [3, 5], 3, 1.0, n_best=1)
    assert [len(hypotheses) for hypotheses in found] == [1, 1]
    assert len(greedy(model, torch.tensor([0, 1]), torch.tensor([3, 5]), BOS, EOS)) == 2


@pytest.mark.parametrize(
    ("beam", "n_best", "penalty", "limit"),
    [(0, 0, 1.0, 3), (2, 3, 1.0, 3), (2, 0, 1.0, 3), (2, 1, -0.5, 3), (2, 1, 1.0, 0)],
)
def test_values_that_make_no_sense_are_refused(beam: int, n_best: int, penalty: float, limit: int) -> None:
    with pytest.raises(ValueError, match=r"must be|need"):
        searched(TableModel(seed=0, size=4), [0], [limit], beam, penalty, n_best)


def test_the_search_builds_no_graph_for_gradients() -> None:
    class Watched(TableModel):
        def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            log_probabilities, state, weights = super().step(tokens, state)
            graphs.append(log_probabilities.requires_grad)
            return log_probabilities, state, weights

    graphs: list[bool] = []
    model = Watched(seed=0, size=4)
    model.table.requires_grad_()
    searched(model, [0], [3], 2, 1.0)
    greedy(model, torch.tensor([0]), torch.tensor([3]), BOS, EOS)
    assert graphs
    assert not any(graphs)
