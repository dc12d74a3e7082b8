"""Attention as a user sees it: pictures, links and their error rate, through the commands."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from seq2seq import load
from seq2seq.checkpoint import RunDirectory
from seq2seq.inference.translator import Translation
from tests.helpers import ROOT, command

PNG = b"\x89PNG\r\n\x1a\n"


def test_a_picture_of_each_kind_is_drawn_beside_the_translation(home: Path, tmp_path: Path) -> None:
    plain = command("translate", "12345", cwd=home).stdout
    for suffix, beginning in (("png", PNG), ("svg", b"<?xml"), ("html", b"<!DOCTYPE html>")):
        path = tmp_path / "new folder" / f"out.{suffix}"
        done = command("translate", "12345", "--attention", path, cwd=home)
        assert (done.returncode, done.stderr, done.stdout) == (0, "", plain)
        assert path.read_bytes().startswith(beginning)
    assert {path.name for path in path.parent.iterdir()} == {"out.png", "out.svg", "out.html"}


def test_pictures_of_several_texts_are_numbered_by_text_and_an_empty_one_has_none(home: Path, tmp_path: Path) -> None:
    done = command("translate", "123", "", "4567", "--attention", tmp_path / "out.html", cwd=home)
    assert len(done.stdout.splitlines()) == 3
    assert done.stderr == "text 2 is empty: there is no attention to draw\n"
    assert {path.name for path in tmp_path.iterdir()} == {"out-1.html", "out-3.html"}
    found = load(str(home / "runs/tiny")).translate(["4567"])[0]
    assert f"<title>{found.text}</title>" in (tmp_path / "out-3.html").read_text("utf-8")


def test_pictures_of_an_input_are_numbered_by_line_even_of_one_line(home: Path, tmp_path: Path) -> None:
    command("translate", "--input", "-", "--attention", tmp_path / "a.svg", cwd=home, input="123\n")
    assert {path.name for path in tmp_path.iterdir()} == {"a-1.svg"}


def test_a_dash_shows_the_attention_after_each_translation_without_escapes_in_a_pipe(home: Path) -> None:
    done = command("translate", "123", "", "45", "--attention", "-", cwd=home)
    first, _, third = command("translate", "123", "", "45", cwd=home).stdout.splitlines()
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert lines[0] == first
    end = lines.index("")
    # The header is as high as its longest name, </s>, and there is a row for each token.
    assert end == 1 + 4 + len(load(str(home / "runs/tiny")).translate(["123"])[0].target_tokens)
    assert lines[end + 1 : end + 3] == ["", third]
    assert lines[-1] == ""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_gets_colours_unless_no_color_is_set(home: Path) -> None:
    import pty

    line = [sys.executable, "-m", "seq2seq.translate", "12", "--attention", "-"]
    for no_color, coloured in (("", True), ("1", False)):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "NO_COLOR": no_color}
        ours, theirs = pty.openpty()
        with subprocess.Popen(line, cwd=home, env=environment, stdout=theirs) as process:
            os.close(theirs)
            shown = b""
            try:
                while block := os.read(ours, 65536):
                    shown += block
            except OSError:  # what Linux gives at the end of a pseudo-terminal
                pass
        os.close(ours)
        assert process.returncode == 0
        assert (b"\x1b[38;5;" in shown) is coloured


def test_with_an_output_file_the_attention_still_goes_to_stdout(home: Path, tmp_path: Path) -> None:
    done = command("translate", "123", "--attention", "-", "--output", tmp_path / "out.txt", cwd=home)
    assert "</s>" in done.stdout
    assert (tmp_path / "out.txt").read_text("utf-8") == command("translate", "123", cwd=home).stdout


def test_with_an_output_file_a_reader_of_the_attention_may_go_away(home: Path, tmp_path: Path) -> None:
    texts = [str(number) for number in range(100, 1600)]
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    line = f"{sys.executable} -m seq2seq.translate --beam 1 --input {tmp_path}/in.txt --output {tmp_path}/out.txt"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line} --attention - | head -1"],
        cwd=home, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 1)
    expected = [each.text for each in load(str(home / "runs/tiny")).translate(texts, beam=1)]
    assert (tmp_path / "out.txt").read_text("utf-8").splitlines() == expected


def test_a_single_empty_text_has_no_picture_and_says_so(home: Path, tmp_path: Path) -> None:
    done = command("translate", " ", "--attention", tmp_path / "out.svg", cwd=home)
    assert (done.returncode, done.stdout) == (0, "\n")
    assert done.stderr == "text 1 is empty: there is no attention to draw\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ("--attention", ["translate", "1", "--attention", "a.html"]),
        ("--attention", ["translate", "1", "--attention", "-"]),
        ("--alignments", ["translate", "1", "--alignments"]),
        ("--alignments", ["translate", "1", "--alignments", "--json"]),
        ("--gold", ["evaluate", "--gold", "none.txt"]),
    ],
)
def test_a_run_that_looks_everywhere_alike_shows_no_attention(
    option: str, line: list[str], home: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(home / "runs/tiny", tmp_path / "run")
    files = RunDirectory(run).files
    config = files.read("config.yaml")
    assert config.count("kind: additive") == 1
    files.write("config.yaml", config.replace("kind: additive", "kind: none"))
    # Without weights, nothing can be translated before it is refused.
    (run / "best.safetensors").unlink()
    done = command(*line, "--model", "run", cwd=tmp_path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "run: has attention.kind: none, which looks at all positions alike" in done.stderr
    assert f"leave {option} out" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def links(translation: Translation) -> list[tuple[int, int]]:
    assert translation.attention is not None
    found = []
    for target, (token, row) in enumerate(zip(translation.target_tokens, translation.attention, strict=True)):
        if token != "</s>":
            best = max(range(len(row) - 1), key=lambda source: row[source])
            found.append((best, target))
    return found


def test_alignments_stand_after_the_text_in_pharaohs_form(home: Path) -> None:
    done = command("translate", "12345", "", "67", "--alignments", cwd=home)
    found = load(str(home / "runs/tiny")).translate(["12345", "", "67"], attention=True)
    expected = [f"{each.text} ||| {' '.join(f'{i}-{j}' for i, j in links(each))}" for each in found]
    assert done.stdout.splitlines() == expected
    assert expected[1] == " ||| "


def test_json_has_the_alignment_where_it_is_asked_for(home: Path) -> None:
    done = command("translate", "12345", "", "--json", "--alignments", cwd=home)
    found, empty = map(json.loads, done.stdout.splitlines())
    translation = load(str(home / "runs/tiny")).translate(["12345"], attention=True)[0]
    assert found["alignment"] == [list(link) for link in links(translation)]
    assert empty["alignment"] == []
    assert "alignment" not in json.loads(command("translate", "12345", "--json", cwd=home).stdout)


def test_links_need_attention_that_was_kept(home: Path) -> None:
    with pytest.raises(ValueError, match="attention=True"):
        load(str(home / "runs/tiny")).translate(["12"])[0].alignment()


def test_a_translation_cut_at_its_limit_has_a_link_for_its_last_token() -> None:
    assert Translation("ab", 0.0, ["x", "</s>"], ["a", "b"], [[0.9, 0.1], [0.2, 0.8]]).alignment() == [(0, 0), (0, 1)]


def test_reading_a_translation_by_force_gives_the_score_and_attention_of_the_search(home: Path) -> None:
    translator = load(str(home / "runs/tiny"))
    sources = ["12345", "9", "3141592"]
    searched = translator.translate(sources, beam=1, attention=True)
    assert all(each.target_tokens[-1] == "</s>" for each in searched), "this test wants finished translations"
    forced = translator.force_decode(sources, [each.text for each in searched])
    for one, other in zip(searched, forced, strict=True):
        assert (one.text, one.source_tokens, one.target_tokens) == (
            other.text,
            other.source_tokens,
            other.target_tokens,
        )
        assert one.score == pytest.approx(other.score, abs=1e-4)
        assert one.attention is not None and other.attention is not None
        np.testing.assert_allclose(one.attention, other.attention, atol=1e-5)


def test_company_changes_nothing_in_what_is_read_by_force(home: Path) -> None:
    translator = load(str(home / "runs/tiny"))
    sources, targets = ["1", "987654", "", "22"], ["23456", "4", "5", ""]
    together = translator.force_decode(sources, targets)
    for source, target, found in zip(sources, targets, together, strict=True):
        (alone,) = translator.force_decode([source], [target])
        assert found.target_tokens == [*target, "</s>"] == alone.target_tokens
        assert found.source_tokens == [*source, "</s>"]
        assert found.score == pytest.approx(alone.score, abs=1e-5)
        assert found.attention is not None and alone.attention is not None
        np.testing.assert_allclose(found.attention, alone.attention, atol=1e-5)
    assert translator.force_decode([], []) == []


def test_sources_and_targets_must_be_as_many(home: Path) -> None:
    with pytest.raises(ValueError, match="sources and targets differ in number: 1 and 2"):
        load(str(home / "runs/tiny")).force_decode(["1"], ["1", "2"])


def test_evaluate_measures_attention_against_gold_links(home: Path, tmp_path: Path) -> None:
    # One word on each side leaves one possible answer; a pair with a missing side has no link and is no fault.
    (tmp_path / "data.tsv").write_text("123\t321\n45\t\n\n678\t876\n", encoding="utf-8")
    gold = tmp_path / "gold.txt"
    for base, line in ((0, "0-0"), (1, "1-1")):
        gold.write_text(f"{line}\n\n\n{line}\n", encoding="utf-8")
        arguments = [
            "--data",
            tmp_path / "data.tsv",
            "--gold",
            gold,
            "--gold-base",
            base,
            "--json",
            tmp_path / "r.json",
        ]
        done = command("evaluate", *arguments, cwd=home)
        assert done.returncode == 0, done.stderr
        assert "alignment of words with words: AER 0.0, precision 100.0, recall 100.0" in done.stdout
        assert "2 links of attention; gold: 2 sure and 0 more possible links in 4 sentences" in done.stdout
        found = json.loads((tmp_path / "r.json").read_text("utf-8"))["alignment"]
        assert (found["scores"]["error_rate"], found["sentences"], found["source_units"]) == (0.0, 4, "words")


def test_links_of_several_words_are_those_of_the_forced_attention(home: Path, tmp_path: Path) -> None:
    (tmp_path / "data.tsv").write_text("12 34\t43 21\n", encoding="utf-8")
    (tmp_path / "gold.txt").write_text("0?0 0?1 1-0 1?1\n", encoding="utf-8")
    (forced,) = load(str(home / "runs/tiny")).force_decode(["12 34"], ["43 21"])
    assert forced.attention is not None
    # Five characters on each side, the blank in the middle belongs to the second word.
    expected = 0
    for rows in ((0, 1), (2, 3, 4)):
        first, second = (sum(forced.attention[row][c] for row in rows for c in cs) for cs in ((0, 1), (2, 3, 4)))
        expected += rows == (0, 1) and second > first
    arguments = ["--data", tmp_path / "data.tsv", "--gold", tmp_path / "gold.txt"]
    done = command("evaluate", *arguments, cwd=home)
    assert f"precision 100.0, recall {100 * expected:.1f}" in done.stdout


ERRORS = [
    (["translate", "1", "--attention", "a.gif"], "a.gif: a picture of attention ends in .png, .svg or .html"),
    (["translate", "1", "--attention", "stdout.txt/a.png"], "stdout.txt is a file, not a folder"),
    (["translate", "1", "--attention", ""], "--attention is empty; name a file"),
    (["translate", "1", "--attention", "-", "--json"], "add --output FILE or leave one out"),
    (["evaluate", "--gold", ""], "--gold is empty; name a file"),
    (["evaluate", "--gold", "none.txt"], "none.txt: no such file"),
    (["evaluate", "--gold", "stdout.txt"], "stdout.txt: "),
    (["evaluate", "--gold", "stdout.txt", "--gold-base", "2"], "invalid choice: 2"),
]


@pytest.mark.parametrize(("line", "message"), ERRORS, ids=[" ".join(line) for line, _ in ERRORS])
def test_a_user_error_is_one_line_and_status_two_before_anything_is_translated(
    line: list[str], message: str, home: Path
) -> None:
    done = command(*line, cwd=home)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_bad_picture_path_is_refused_before_a_model_is_looked_for(home: Path, tmp_path: Path) -> None:
    done = command("translate", "1", "--attention", "a.gif", "--model", "nowhere", cwd=tmp_path)
    assert "a.gif" in done.stderr
    assert "nowhere" not in done.stderr
