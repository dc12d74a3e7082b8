"""Loss and perplexity against torch's own and against arithmetic."""

import math

import pytest
import torch

from seq2seq.config import Config
from seq2seq.data.batching import make_batch
from seq2seq.data.tokenizer import PAD
from seq2seq.model import build_model
from seq2seq.training.loss import coverage_penalty, cross_entropy, model_perplexity, perplexity, shown


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_the_loss_equals_torchs_own(smoothing: float) -> None:
    logits, targets = torch.randn(3, 5, 11), torch.randint(1, 11, (3, 5))
    targets[1, 3:] = PAD
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=PAD, reduction="sum", label_smoothing=smoothing
    )
    loss = cross_entropy(logits, targets, smoothing)
    assert loss.smoothed.item() == pytest.approx(expected.item(), rel=1e-5)
    assert loss.tokens.item() == 13


def test_likelihood_is_without_smoothing() -> None:
    logits, targets = torch.randn(2, 3, 7), torch.randint(1, 7, (2, 3))
    assert cross_entropy(logits, targets, 0.2).likelihood == cross_entropy(logits, targets).smoothed


def test_sums_of_parts_are_the_sum_of_the_whole() -> None:
    logits, targets = torch.randn(4, 3, 7), torch.randint(0, 7, (4, 3))
    whole = cross_entropy(logits, targets, 0.1)
    parts = [cross_entropy(logits[i : i + 1], targets[i : i + 1], 0.1) for i in range(4)]
    assert sum(part.smoothed.item() for part in parts) == pytest.approx(whole.smoothed.item(), rel=1e-5)
    assert sum(part.tokens.item() for part in parts) == whole.tokens.item()


def test_a_uniform_model_has_the_perplexity_of_its_vocabulary() -> None:
    loss = cross_entropy(torch.zeros(2, 3, 50), torch.full((2, 3), 7))
    assert perplexity(float(loss.likelihood), int(loss.tokens)) == pytest.approx(50, rel=1e-5)


def test_model_perplexity_weighs_every_token_alike_whatever_the_batches() -> None:
    model = build_model(Config(), 12, 12).eval()
    pairs = [([5], [6, 7, 8, 9, 10, 11]), ([5, 6, 7], [4]), ([8, 9], [4, 5])]
    one_by_one = [make_batch([source], [target]) for source, target in pairs]
    expected = 0.0
    for batch in one_by_one:
        log_probabilities = model(batch.source, batch.target_input).logits.log_softmax(dim=-1)[0]
        expected -= sum(log_probabilities[t, token].item() for t, token in enumerate(batch.target_output[0]))
    expected = math.exp(expected / (7 + 2 + 3))
    together = make_batch([source for source, _ in pairs], [target for _, target in pairs])
    assert model_perplexity(model, one_by_one) == pytest.approx(expected, rel=1e-5)
    assert model_perplexity(model, [together]) == pytest.approx(expected, rel=1e-5)


def test_perplexity_of_a_broken_model_is_huge_not_a_crash() -> None:
    assert math.isfinite(perplexity(1e9, 1))
    assert perplexity(0.0, 0) == 1.0
    assert perplexity(math.inf, 3) == math.inf and math.isnan(perplexity(math.nan, 3))
    assert (shown(21.636), shown(perplexity(1e9, 1))) == ("21.64", "1.0e+304")


def test_the_coverage_penalty_equals_a_loop_over_its_formula() -> None:
    attention, real = torch.rand(2, 4, 3), torch.tensor([[True] * 4, [True, True, False, False]])
    expected = 0.0
    for b in range(2):
        for t in range(int(real[b].sum())):
            for s in range(3):
                coverage = sum(attention[b, earlier, s].item() for earlier in range(t))
                expected += min(attention[b, t, s].item(), coverage)
    assert coverage_penalty(attention, real).item() == pytest.approx(expected, rel=1e-5)
