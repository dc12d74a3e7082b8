"""Scores agree with sacreBLEU's own functions and with counting by hand; a report says what it should."""

import dataclasses
import json

import pytest
import sacrebleu

from seq2seq.evaluation import Report, Sample, Scores, corpus_bleu, score

HYPOTHESES = ["I have no friend.", "She accompanied him on a walk.", "It is 8:30."]
REFERENCES = ["I have no friends.", "I accompanied her on a walk.", "It's 8:30 already."]


def test_scores_are_those_of_sacrebleu() -> None:
    scores = score(HYPOTHESES, REFERENCES, "en")
    assert scores.bleu == pytest.approx(sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score)
    assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score)
    assert scores.ter == pytest.approx(sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES]).score)
    assert corpus_bleu(HYPOTHESES, REFERENCES, "en") == scores.bleu


def test_perfect_translations_have_perfect_scores() -> None:
    scores = score(REFERENCES, REFERENCES, "en")
    assert (scores.bleu, scores.chrf, scores.ter, scores.length_ratio) == pytest.approx((100, 100, 0, 1))


def test_the_length_ratio_counts_the_tokens_of_translations_and_references() -> None:
    assert score(["a b c"], ["a b c d"], "en").length_ratio == pytest.approx(3 / 4)
    assert score(["", ""], ["a b", "c"], "en").length_ratio == 0


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [("en", "13a"), ("fr", "13a"), ("zh", "zh"), ("zh-Hans", "zh"), ("ja", "char"), ("ko", "char")],
)
def test_the_target_language_chooses_the_tokenizer_and_the_signature_says_so(language: str, tokenizer: str) -> None:
    assert f"|tok:{tokenizer}|" in score(HYPOTHESES, REFERENCES, language).signatures["BLEU"]


@pytest.mark.parametrize("language", ["zh", "ja"])
def test_without_blanks_a_wrong_character_is_one_edit_not_a_whole_sentence(language: str) -> None:
    # One of four characters is replaced.
    assert score(["我有狗狗"], ["我有猫狗"], language).ter == pytest.approx(25)
    assert score(["我有狗狗"], ["我有猫狗"], language).length_ratio == 1


@pytest.mark.parametrize("function", [score, corpus_bleu])
@pytest.mark.parametrize(("hypotheses", "references"), [(["a"], ["a", "b"]), (["a", "b"], ["a"]), ([], [])])
def test_unequal_or_no_sentences_are_refused(function, hypotheses: list[str], references: list[str]) -> None:
    with pytest.raises(ValueError, match="translation"):
        function(hypotheses, references, "en")


def report(model: float, copy: float) -> Report:
    def scores(bleu: float) -> Scores:
        return Scores(bleu, 30.0, 80.0, 0.9, {"BLEU": "nrefs:1|tok:13a", "chrF": "nc:6", "TER": "case:lc"})

    samples = tuple(Sample(f"我有{n}只猫。", f"I have {n} cats.", f"I have {n} dogs.") for n in range(5))
    return Report("tatoeba", 1000, 5, 12.345, scores(model), scores(copy), scores(0.4), samples)


def test_the_text_has_a_row_for_each_system_the_signatures_and_the_samples() -> None:
    lines = report(20.0, 13.1).to_text().splitlines()
    assert "tatoeba" in lines[0]
    assert "1,000" in lines[0]
    assert "12.3" in lines[0]
    (header,) = (n for n, line in enumerate(lines) if line.startswith("system"))
    assert lines[header].split() == ["system", "BLEU", "chrF", "TER", "length"]
    assert [line.split()[-4:] for line in lines[header + 1 : header + 4]] == [
        ["20.0", "30.0", "80.0", "0.90"],
        ["13.1", "30.0", "80.0", "0.90"],
        ["0.4", "30.0", "80.0", "0.90"],
    ]
    assert len({len(line) for line in lines[header : header + 4]}) == 1
    assert any("beam 5" in line for line in lines)
    for sample in report(20.0, 13.1).samples:
        for text in dataclasses.astuple(sample):
            # Nothing follows text on its line: its width on a terminal is not known.
            assert any(line.endswith(text) for line in lines)
    assert any(line.startswith("BLEU") and line.endswith("nrefs:1|tok:13a") for line in lines)


@pytest.mark.parametrize(("model", "copy", "beaten"), [(13.2, 13.1, True), (13.1, 13.1, False), (1.0, 13.1, False)])
def test_a_model_that_does_not_beat_copy_is_told_so(model: float, copy: float, beaten: bool) -> None:
    told = "This model does not beat the copy baseline" in report(model, copy).to_text()
    assert told is not beaten
    assert report(model, copy).to_json()["beats_copy"] is beaten


def test_the_json_holds_the_whole_report() -> None:
    made = report(20.0, 13.1)
    read = json.loads(json.dumps(made.to_json()))
    assert read.pop("beats_copy") is True
    read |= {name: Scores(**read[name]) for name in ("model", "copy", "source_copied")}
    read["samples"] = tuple(Sample(**each) for each in read["samples"])
    assert Report(**read) == made
