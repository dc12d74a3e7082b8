"""The arithmetic counted from a model's shapes is what PyTorch's own counter sees it do."""

import pytest
from torch.utils.flop_counter import FlopCounterMode

from benchmarking.arithmetic import forward_flops, training_flops
from benchmarking.stopwatch import Work
from seq2seq.config import Config, parse_config
from seq2seq.data.batching import make_batch
from seq2seq.errors import UserError
from seq2seq.model import build_model

SIZES = (
    "encoder.embedding_size=6",
    "encoder.hidden_size=10",
    "encoder.dropout=0",
    "decoder.embedding_size=8",
    "decoder.hidden_size=14",
    "attention.size=12",
)
VOCABULARY = 23
SENTENCES = 8
"""So many that no product's rows are rounded up."""
Lengths = tuple[int, int]
"""Source and target tokens of a sentence, </s> included."""
MODELS = {
    "after": (),
    "before": ("decoder.attend=before",),
    "between": ("decoder.cell=cgru", "decoder.attend=between"),
    "input feeding": ("decoder.input_feeding=true",),
    "untied": ("decoder.tie_embeddings=false",),
    "before, untied": ("decoder.attend=before", "decoder.tie_embeddings=false"),
    "one direction, first state zero": ("encoder.bidirectional=false", "decoder.initial_state=zero"),
    "two layers": ("encoder.layers=2", "decoder.layers=2"),
    "lstm and rnn": ("encoder.cell=lstm", "decoder.cell=rnn"),
    "two heads": ("attention.heads=2",),
    "no size": ("attention.size=null",),
    **{kind: (f"attention.kind={kind}",) for kind in ("none", "concat", "scaled_dot", "general", "cosine")},
    "concat_tanh": ("attention.kind=concat_tanh",),
    "dot": ("attention.kind=dot", "encoder.hidden_size=7"),
}


def config_of(*overrides: str) -> Config:
    return parse_config("training: {max_steps: 1}", [*SIZES, *overrides])


def counted(config: Config, lengths: Lengths, backward: bool) -> int:
    """What PyTorch counts of a batch without padding, on the plain path through every product: float64, plain steps."""
    model = build_model(config, VOCABULARY, VOCABULARY).double()
    model.decoder.fits_loop = lambda _: False  # type: ignore[method-assign, assignment]
    source, target = ([[9] * (length - 1)] * SENTENCES for length in lengths)
    batch = make_batch(source, target)
    with FlopCounterMode(display=False) as counter:
        logits = model(batch.source, batch.target_input).logits
        if backward:
            logits.sum().backward()
    return counter.get_total_flops()


def work_of(*lengths: Lengths) -> Work:
    """Of a batch with SENTENCES of each of the lengths."""
    return Work.of_batch(*zip(*(SENTENCES * lengths), strict=True))


@pytest.mark.parametrize("model", MODELS)
def test_a_forward_pass_is_counted_as_pytorch_counts_it(model: str) -> None:
    config = config_of(*MODELS[model])
    parts = forward_flops(config, VOCABULARY, work_of((5, 7)))
    assert sum(parts.values()) == counted(config, (5, 7), backward=False)


@pytest.mark.parametrize("model", ["after", "before"])
def test_a_backward_pass_costs_two_forward_passes(model: str) -> None:
    config = config_of(*MODELS[model])
    assert training_flops(config, VOCABULARY, work_of((5, 7))) == counted(config, (5, 7), backward=True)


def test_padding_is_not_counted() -> None:
    config, lengths = config_of(), ((2, 6), (5, 3), (4, 4))
    together = forward_flops(config, VOCABULARY, work_of(*lengths))
    assert sum(together.values()) == sum(counted(config, each, backward=False) for each in lengths)


@pytest.mark.parametrize("key", ["encoder.self_attention=2", "attention.selection=local", "teacher_forcing.ratio=0.5"])
def test_what_is_not_counted_is_refused_by_name(key: str) -> None:
    with pytest.raises(UserError, match=key.partition("=")[0]):
        forward_flops(config_of(key), VOCABULARY, Work())
