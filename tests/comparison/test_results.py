"""Sentences fall into length buckets, settings are told apart, and the page says what the figures do not show."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from seq2seq.comparison.attention_sample import AttentionSample
from seq2seq.comparison.caveats import below_copy, caveats
from seq2seq.comparison.markdown import bucket_label, estimate_cells, mean_by_length, results_table, to_markdown
from seq2seq.comparison.results import (
    Bucket,
    ComparisonReport,
    CopyBaseline,
    Outcome,
    Variant,
    differences,
    file_name,
    in_buckets,
    length_limits,
)
from seq2seq.comparison.significance import Estimate
from seq2seq.comparison.text import to_text
from seq2seq.config.differences import flat
from seq2seq.plotting.labels import display_width


def test_buckets_are_about_equal_and_hold_each_sentence_once_short_before_long() -> None:
    sources = ["x" * int(length) for length in np.random.default_rng(0).integers(1, 60, size=500)]
    limits = length_limits(sources)
    buckets = in_buckets(sources, limits)
    assert sorted(place for places in buckets for place in places) == list(range(500))
    assert all(80 <= len(places) <= 120 for places in buckets) and len(buckets) == 5
    for shorter, limit, longer in zip(buckets, limits, buckets[1:], strict=False):
        assert max(len(sources[place]) for place in shorter) == limit < min(len(sources[place]) for place in longer)


def test_sentences_of_one_length_are_one_bucket() -> None:
    assert length_limits(["ab", "cd", "ef"]) == [2]
    assert in_buckets(["ab", "cd"], [2]) == [[0, 1]]


def test_another_test_set_may_have_longer_sentences_or_leave_a_bucket_empty() -> None:
    assert in_buckets(["a", "x" * 99], [3, 5, 8]) == [[0], [], [1]]


def test_only_settings_that_differ_are_told() -> None:
    settings = {
        "a": flat({"seed": 1, "encoder": {"cell": "gru", "layers": 1}, "data": {"dev": None}}),
        "b": flat({"seed": 1, "encoder": {"cell": "lstm", "layers": 1}, "data": {"dev": {"source": "x"}}}),
    }
    assert differences(settings) == {
        "a": {"encoder.cell": "gru", "data.dev": None},
        "b": {"encoder.cell": "lstm", "data.dev.source": "x"},
    }


def test_a_file_s_name_is_safe_short_and_another_for_each_text() -> None:
    assert file_name("scaled_dot-2.1") == "scaled_dot-2.1"
    long = ["runs/" + 100 * "x" + end for end in "ab"]
    texts = ["a/b", "a-b", "../a", "/a", "a b", "con,", ".", "", "x" * 101, "注意" * 50, *long]
    names = [file_name(text) for text in texts]
    assert len({name.casefold() for name in names}) == len(texts)
    for name in names:
        assert len(name.encode()) <= 100 and Path(name).name == name
        assert name[0] not in "-." and not set(name) & set(r'\/:*?"<>| ')


def outcome(bleu: float, p: float | None, seed: int = 1, updates: int = 1000) -> Outcome:
    return Outcome(
        run=f"runs/x-s{seed}",
        seed=seed,
        bleu=Estimate(bleu, bleu - 2, bleu + 2, p),
        chrf=Estimate(40.0, 39.0, 41.0, p),
        perplexity=12.5,
        parameters=1_234_567,
        tokens_per_second=9000.0,
        updates=updates,
        epoch=7,
        minutes=6.0,
        bleu_by_length=[bleu, None if seed == 2 else bleu / 2],
        dev_curve=[(1.0, 5.0), (6.0, bleu)],
    )


def report(*variants: Variant, copied: float = 13.0) -> ComparisonReport:
    estimate = Estimate(copied, copied - 1, copied + 1, 0.5)
    return ComparisonReport(
        name="pair",
        variants=list(variants),
        copy=[CopyBaseline(estimate, estimate)] * len(variants[0].outcomes),
        buckets=[Bucket(3, 5, 60), Bucket(6, 6, 40)],
        sentences=100,
        one_test_set=True,
        one_training_text=True,
        signatures={"BLEU": "nrefs:1|bs:1000", "chrF2": "nrefs:1|nc:6"},
        beams=[5],
        threads=[None],
        devices=["auto"],
        device="cuda:0 (NVIDIA X_1)",
        processor="Chip C*2",
        torch="2.6.0",
    )


ONCE = report(
    Variant("none", {"attention.kind": "none"}, [outcome(20.0, None)]),
    Variant("dot", {"attention.kind": "dot"}, [outcome(25.0, 0.001)]),
)
TWICE = report(
    Variant("none", {"attention.kind": "none"}, [outcome(20.0, None), outcome(21.0, None, seed=2)]),
    Variant("dot", {"attention.kind": "dot"}, [outcome(25.0, 0.001), outcome(23.0, 0.04, seed=2)]),
)
SAMPLE = AttentionSample(
    "源|文", "the source", {"none": "a|b", "dot": "c"}, {"dot": "attention/dot.png"}, ["none"], None
)


def cells(table: str, variant: str) -> list[str]:
    """The row of a variant."""
    (row,) = (line for line in table.splitlines() if line.startswith(f"| {variant} |"))
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_a_row_has_every_figure_of_a_variant() -> None:
    assert cells(results_table(ONCE), "dot") == [
        "dot", "25.0", "23.0 to 27.0", "0.001", "40.0", "39.0 to 41.0", "0.001",
        "12.50", "1,234,567", "9,000", "1,000", "7", "6.0",
    ]  # fmt: skip
    assert cells(results_table(ONCE), "none")[3] == ""
    assert cells(results_table(ONCE), "(copy)")[1] == "13.0"


def test_several_seeds_give_mean_range_widest_interval_and_largest_p() -> None:
    assert cells(results_table(TWICE), "dot")[:4] == ["dot", "24.0 (23.0 to 25.0)", "21.0 to 27.0", "0.040"]
    assert mean_by_length(TWICE.variants[1]) == [24.0, 12.5]
    assert "for each seed on its own" in to_markdown(TWICE, SAMPLE)
    assert "for each seed on its own" not in to_markdown(ONCE, SAMPLE)


def test_the_page_has_tables_figures_signatures_and_the_sentence() -> None:
    page = to_markdown(ONCE, SAMPLE)
    for part in (
        "![BLEU by length of the source](bleu_by_length.png)", "](learning_curves.png)", "(<attention/dot.png>)",
        "| variant | 3-5 | 6 |", "| (sentences) | 60 | 40 |", r"源\|文", "the source", r"a\|b",
        '| setting | none | dot |\n| --- | --- | --- |\n| attention.kind | "none" | "dot" |\n',
        "`nrefs:1|bs:1000`", "one for each core", "PyTorch of this report: 2.6.0", "test sentences: 100",
        r"device of this report: cuda:0 (NVIDIA X\_1)", "device in training: auto", r"of this report: Chip C\*2",
    ):  # fmt: skip
        assert part in page
    assert [bucket_label(bucket) for bucket in ONCE.buckets] == ["3-5", "6"]


def test_a_variant_without_attention_has_a_line_where_the_others_have_their_map() -> None:
    page = to_markdown(ONCE, SAMPLE)
    assert page.count("No attention map of none: it looks at all positions alike.\n\n![attention of dot]") == 1
    assert page.count("![attention of") == 1


def test_a_key_that_only_one_variant_has_leaves_the_other_s_cell_empty() -> None:
    made = report(
        Variant("none", {"attention.kind": "none", "data.dev": None}, [outcome(20.0, None)]),
        Variant("dot", {"attention.kind": "dot", "data.dev.source": "a|b"}, [outcome(25.0, 0.001)]),
    )
    page = to_markdown(made, SAMPLE)
    assert '| data.dev | null |  |\n| data.dev.source |  | "a\\|b" |' in page


def test_text_of_a_corpus_or_a_model_means_nothing_to_markdown() -> None:
    text, shown = "\\ ` * _ < [ ] | & ~ $ # 1", r"\\ \` \* \_ \< \[ \] \| \& \~ \$ # 1"
    sample = AttentionSample(
        text, f"r{text}", {f"n{text}": f"t{text}"}, {f"n{text}": "attention/x.png"}, [], f"l{text}"
    )
    lines = to_markdown(dataclasses.replace(ONCE, name=text), sample).splitlines()
    for line in (
        f"# Comparison: {shown}",
        f"| (source) | {shown} |",
        f"| (reference) | r{shown} |",
        f"| n{shown} | t{shown} |",
        f"![attention of n{shown}](<attention/x.png>)",
        f"The attention maps were left out: l{shown}",
    ):
        assert line in lines


def test_a_sentence_of_several_lines_stays_in_its_row() -> None:
    assert "| (source) | a b |" in to_markdown(ONCE, dataclasses.replace(SAMPLE, source="a\nb\n"))


def test_the_terminal_shows_aligned_columns() -> None:
    assert to_text(ONCE).splitlines() == [
        "variant  BLEU  95% interval      p  chrF  minutes",
        "none     20.0  18.0 to 22.0         40.0      6.0",
        "dot      25.0  23.0 to 27.0  0.001  40.0      6.0",
        "(copy)   13.0  12.0 to 14.0  0.500  13.0",
    ]
    assert to_text(TWICE).splitlines()[:3] == [
        "variant                 BLEU  95% interval      p  chrF  minutes",
        "none     20.5 (20.0 to 21.0)  18.0 to 23.0         40.0      6.0",
        "dot      24.0 (23.0 to 25.0)  21.0 to 27.0  0.040  40.0      6.0",
    ]


def test_the_terminal_s_lines_are_at_most_100_columns_wide_and_a_long_name_keeps_its_end() -> None:
    first, second = TWICE.variants
    names = [f"runs/{100 * 'x'}/none", f"runs/{100 * '源'}/dot"]
    made = report(dataclasses.replace(first, name=names[0]), dataclasses.replace(second, name=names[1]), copied=90.0)
    lines = to_text(made).splitlines()
    assert max(map(display_width, lines[:4])) == 100 and max(map(len, lines[:4])) <= 100
    for line, end in zip(lines[1:3], ("x/none", "源/dot"), strict=True):
        assert line.startswith("…") and line.split()[0].endswith(end)


def test_a_variant_below_the_copy_baseline_is_told_under_the_terminal_s_table_too() -> None:
    below = report(*ONCE.variants, copied=22.0)
    assert below_copy(below) == "Not above the copy baseline, so not worth comparing yet: none."
    assert to_text(below).splitlines()[-2:] == ["", below_copy(below)]
    assert below_copy(ONCE) is None and "Not above" not in to_text(ONCE)
    assert below_copy(dataclasses.replace(below, copy=None)) is None


def test_maps_that_could_not_be_drawn_are_told_with_the_reason() -> None:
    left_out = dataclasses.replace(SAMPLE, maps={}, left_out="no font")
    assert "The attention maps were left out: no font" in to_markdown(ONCE, left_out)


def said(made: ComparisonReport) -> str:
    return "\n".join(caveats(made))


def with_settings(key: str) -> ComparisonReport:
    first, second = ONCE.variants
    return report(first, dataclasses.replace(second, settings={key: 1}))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (ONCE, "trained once. The intervals and p-values cover the choice of test sentences only"),
        (TWICE, "the largest of the 2 tests, one for each seed"),
        (dataclasses.replace(TWICE, one_test_set=False), "split off anew for each seed"),
        (report(*ONCE.variants, ONCE.variants[1]), "significant where p is below 0.0250"),
        (dataclasses.replace(ONCE, one_training_text=False), "they did not learn from the same"),
        (with_settings("data.train"), "need not have learned from the same text"),
        (with_settings("training.max_minutes"), "The budgets differ"),
        (with_settings("tokenizer.target.kind"), "perplexities, which count each token, are then not comparable"),
        (report(ONCE.variants[0], Variant("slow", {}, [outcome(20, 0.5, updates=500)])), "from 500 to 1,000 updates"),
        (report(*ONCE.variants, copied=22.0), "Not above the copy baseline, so not worth comparing yet: none."),
    ],
)
def test_a_caveat_stands_where_the_figures_call_for_it_and_nowhere_else(made: ComparisonReport, words: str) -> None:
    assert words in said(made)
    assert sum(words in said(other) for other in (ONCE, TWICE)) == (made in (ONCE, TWICE))


def test_the_json_holds_the_whole_report(tmp_path: Path) -> None:
    read = json.loads(json.dumps(TWICE.to_json(), allow_nan=False))
    assert read["variants"][1]["outcomes"][1]["bleu"] == {"score": 23.0, "lower": 21.0, "upper": 25.0, "p_value": 0.04}
    assert read["variants"][1]["settings"] == {"attention.kind": "dot"}


def test_seeds_that_disagree_on_which_is_better_show_no_difference() -> None:
    first = [Estimate(20.0, 19.0, 21.0, None), Estimate(20.0, 19.0, 21.0, None)]
    agreeing = [Estimate(22.0, 21.0, 23.0, 0.01), Estimate(21.0, 20.0, 22.0, 0.02)]
    disagreeing = [Estimate(22.0, 21.0, 23.0, 0.01), Estimate(18.0, 17.0, 19.0, 0.02)]
    assert estimate_cells(agreeing, first)[2] == "0.020"
    assert estimate_cells(disagreeing, first)[2] == "1.000"
