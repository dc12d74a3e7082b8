"""Text in, text out: the same alone and in company, whatever the cell, kind and order."""

import itertools
from pathlib import Path

import pytest
import torch

from seq2seq import load
from seq2seq.config import parse_config
from seq2seq.config.schema import Tokenizer
from seq2seq.data.batching import pad
from seq2seq.data.tokenizer import BOS, EOS, train_tokenizer
from seq2seq.inference.search import beam_search, greedy
from seq2seq.inference.translator import Translator
from seq2seq.model import CELLS, SCORES, build_model

TEXTS = ["3141592", "27", "161803398874", "1", "0005", "987654"]
ORDERS = {"before": "before", "after": "after", "feeding": "after"}


def untrained(cell: str, kind: str, order: str) -> Translator:
    sets: dict[str, object] = {
        "encoder.cell": cell,
        "decoder.cell": cell,
        "attention.kind": kind,
        "decoder.attend": ORDERS[order],
    }
    sets |= {"decoder.input_feeding": str(order == "feeding").lower(), "encoder.layers": 2, "decoder.layers": 2}
    sets |= {"encoder.hidden_size": 12, "decoder.hidden_size": 24, "search.batch_tokens": 60}
    config = parse_config("", [f"{key}={value}" for key, value in sets.items()])
    tokenizer = train_tokenizer(["0123456789"], Tokenizer(kind="characters", vocabulary_size=14), "en", "target")
    model = build_model(config, tokenizer.size, tokenizer.size).eval()
    for parameter in model.parameters():
        parameter.data.mul_(2)  # clear preferences, so that no two hypotheses are as good as equal
    return Translator(model, tokenizer, tokenizer, config.search)


@pytest.mark.parametrize(
    ("cell", "kind", "order"), [pytest.param(*c, id="-".join(c)) for c in itertools.product(CELLS, SCORES, ORDERS)]
)
def test_company_never_changes_a_translation(cell: str, kind: str, order: str) -> None:
    translator = untrained(cell, kind, order)
    for beam in (1, 3):
        together = [each.text for each in translator.translate(TEXTS, beam=beam)]
        assert together == [translator.translate([text], beam=beam)[0].text for text in TEXTS]


@torch.inference_mode()
def test_beam_one_of_the_real_model_is_greedy(home: Path) -> None:
    translator = load(str(home / "runs" / "tiny"))
    ids = pad(translator.source.encode_batch(TEXTS), None, EOS)
    state, limits = translator.steps.start(ids), torch.full((len(TEXTS),), 20)
    beams = beam_search(translator.steps, state, limits, BOS, EOS, beam=1, length_penalty=1.0)
    assert [best.tokens for (best,) in beams] == [h.tokens for h in greedy(translator.steps, state, limits, BOS, EOS)]


def test_an_empty_text_gives_an_empty_translation_in_its_place(home: Path) -> None:
    translator = load(str(home / "runs" / "tiny"))
    found = translator.translate(["", "123", " \t ", "456", "\u200b"])
    assert [bool(each.text) for each in found] == [False, True, False, True, False]
    assert translator.translate([]) == []


def test_attention_has_a_row_for_each_target_and_a_column_for_each_source_token(home: Path) -> None:
    for beam in (1, 3):
        for each in load(str(home / "runs" / "tiny")).translate(["12345", "9"], beam=beam, attention=True):
            assert each.attention is not None
            assert len(each.attention) == len(each.target_tokens)
            assert {len(row) for row in each.attention} == {len(each.source_tokens)}
            assert each.source_tokens[-1] == "</s>"
            assert all(sum(row) == pytest.approx(1, abs=1e-5) for row in each.attention)


def test_what_is_not_a_list_of_texts_or_a_beam_is_refused(home: Path) -> None:
    translator = load(str(home / "runs" / "tiny"))
    with pytest.raises(TypeError, match="give a list"):
        translator.translate("123")
    with pytest.raises(ValueError, match="beam is 0"):
        translator.translate(["123"], beam=0)


def test_attention_is_left_out_unless_asked_for(home: Path) -> None:
    assert load(str(home / "runs" / "tiny")).translate(["12345"])[0].attention is None


def test_text_of_unknown_characters_is_translated_to_something_or_nothing_but_never_fails(home: Path) -> None:
    translator = load(str(home / "runs" / "tiny"))
    for text in ("你好", "\ud800", "👩‍👩‍👧", "a" * 300, "\x00", "<s></s>"):
        assert "\n" not in translator.translate([text])[0].text


def test_special_tokens_are_never_written() -> None:
    translator = untrained("gru", "additive", "after")
    with torch.no_grad():
        translator.model.decoder.output_bias[:3] = 100.0
    for each in translator.translate(TEXTS, beam=2):
        assert not {"<pad>", "<unk>", "<s>"} & set(each.target_tokens)


def test_a_translation_ends_at_its_limit() -> None:
    translator = untrained("gru", "additive", "after")
    with torch.no_grad():
        translator.model.decoder.output_bias[3] = -100.0
    for beam in (1, 2):
        found = translator.translate(["12", "1234"], beam=beam)
        # Two tokens for each source token (</s> counts) and ten more.
        assert [len(each.target_tokens) for each in found] == [2 * 3 + 10, 2 * 5 + 10]


def test_a_batch_that_memory_does_not_suffice_for_is_translated_in_parts(home: Path) -> None:
    translator = load(str(home / "runs" / "tiny"))
    texts = [str(number) for number in range(100, 117)]
    expected = [each.text for each in translator.translate(texts)]
    encode, sizes = translator.model.encode, []

    def limited(source: torch.Tensor) -> object:
        sizes.append(len(source))
        if len(source) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return encode(source)

    translator.model.encode = limited  # type: ignore[method-assign, assignment]
    assert [each.text for each in translator.translate(texts)] == expected
    assert max(sizes) == 17 and min(sizes) < 5
