"""docs/attention.md in both languages: every snippet runs and prints what the text shows; so does the command."""

import contextlib
import io
import os
import re
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from seq2seq import lesson
from seq2seq.config import load_config, schema
from seq2seq.plotting.labels import display_width
from tests.helpers import ROOT, command

DOCUMENTS = [ROOT / "docs" / "attention.md", ROOT / "docs" / "attention.zh-CN.md"]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHOWN = re.compile(r"# -> (.*)$", re.MULTILINE)
OF_THE_PROJECT = re.compile(r"\bmodule\(|\bSelfAttention\b")


def blocks(document: Path) -> list[str]:
    return BLOCK.findall(document.read_text(encoding="utf-8"))


def run(document: Path, code: list[str]) -> dict[str, Any]:
    """Run blocks in one namespace, comparing what each prints with what it shows."""
    text = document.read_text(encoding="utf-8")
    namespace: dict[str, Any] = {}
    for block in code:
        printed = io.StringIO()
        # Padded with empty lines, so that a traceback gives the line of the document.
        padding = "\n" * text[: text.index(block)].count("\n")
        with contextlib.redirect_stdout(printed):
            exec(compile(padding + block, str(document), "exec"), namespace)
        assert printed.getvalue().splitlines() == SHOWN.findall(block), block
    return namespace


@pytest.fixture(scope="module")
def namespace() -> dict[str, Any]:
    """What the snippets of section 2 leave behind."""
    text = DOCUMENTS[0].read_text(encoding="utf-8")
    code = [block for block in blocks(DOCUMENTS[0]) if text.index(block) < text.index("\n## 3.")]
    return run(DOCUMENTS[0], [block for block in code if not OF_THE_PROJECT.search(block)])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_snippet_prints_what_the_text_shows(document: Path) -> None:
    assert len(blocks(document)) > 40
    run(document, blocks(document))


def test_the_snippets_outside_the_projects_blocks_need_only_torch() -> None:
    code = [block for block in blocks(DOCUMENTS[0]) if not OF_THE_PROJECT.search(block)]
    assert not any("seq2seq" in block for block in code)
    run(DOCUMENTS[0], code)


def test_both_languages_have_the_same_sections_and_snippets() -> None:
    english, chinese = (path.read_text(encoding="utf-8") for path in DOCUMENTS)
    assert blocks(DOCUMENTS[0]) == blocks(DOCUMENTS[1])
    assert [len(re.findall(r"^## \d\.", text, re.MULTILINE)) for text in (english, chinese)] == [9, 9]
    assert re.findall(r"`attention\.\w+`", english) == re.findall(r"`attention\.\w+`", chinese)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_decimal_of_the_prose_stands_in_a_snippet(document: Path) -> None:
    prose = BLOCK.sub("", document.read_text(encoding="utf-8"))
    numbers = re.findall(r"\d+\.\d+", "".join(blocks(document)))
    assert set(re.findall(r"\d+\.\d+", prose)) <= set(numbers)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_table_names_every_kind_of_the_configuration(document: Path) -> None:
    rows = re.findall(r"^\| [^|]+ \| `(\w+)` \|", document.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(typing.get_args(schema.AttentionKind))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)]+)\)", document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_command_takes_the_steps_of_the_text(namespace: dict[str, Any]) -> None:
    names = {"transposed": "scores"} | {name: name for name in ("Q", "K", "expanded", "joined", "weights", "C", "QC")}
    steps = lesson.steps()
    for step, name in (names | {"output": "output"}).items():
        assert torch.allclose(steps[step], namespace[name], atol=1e-6), step
    assert torch.equal(steps["scores"].transpose(1, 2), steps["transposed"])
    assert list(steps["scores"].shape) == [2, 5, 1]


def test_the_commands_formulas_are_those_of_the_text() -> None:
    namespace = run(DOCUMENTS[0], blocks(DOCUMENTS[0]))
    query, keys = lesson.example()
    formulas = {"concat": "concat_linear", "concat_tanh": "concat_linear_tanh_sum", "scaled_dot": "scaled_dot"}
    for name, formula in lesson.scores_of().items():
        assert torch.allclose(formula(query, keys), namespace[formulas[name]](query, keys), atol=1e-6), name


def test_the_command_prints_every_step_in_both_languages() -> None:
    for language, remark in (("en", "Formula 1 does not see the query."), ("zh", "公式 1 看不见查询。")):
        done = command("lesson", "--language", language, cwd=ROOT)
        assert (done.returncode, done.stderr) == (0, "")
        printed = done.stdout.splitlines()
        for number, (name, value) in enumerate(lesson.steps().items(), start=1):
            assert any(line.startswith(f"{number:2}  {name}  {list(value.shape)}  ") for line in printed)
        assert remark in done.stdout
        place, person = (line.split()[-5:] for line in printed if line.startswith("  softmax(Linear([Q;K]))  "))
        assert place == person == ["0.171", "0.171", "0.464", "0.171", "0.023"]
        assert printed[-1].split()[1:] == ["0.468", "0.468", "0.063", "0", "0"]


@pytest.mark.parametrize("language", list(lesson.TEXT))
def test_the_columns_of_a_table_end_one_below_the_other(language: str) -> None:
    *_, formulas, mask = (part.splitlines() for part in "\n".join(lesson.lines(language)).split("\n\n"))
    for table, rows in ((formulas[1:], 7), (mask[1:], 3)):
        assert len(table) == rows
        assert len({display_width(line) for line in table}) == 1


def test_the_texts_of_both_languages_have_the_same_keys() -> None:
    assert lesson.TEXT["en"].keys() == lesson.TEXT["zh"].keys()


def test_an_unknown_language_is_an_error_of_one_line() -> None:
    done = command("lesson", "--language", "fr", cwd=ROOT)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_the_plots_are_made_by_the_script_with_text_as_paths(tmp_path: Path) -> None:
    line = [sys.executable, str(ROOT / "scripts" / "plot_lesson.py"), str(tmp_path)]
    subprocess.run(line, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == sorted(path.name for path in (ROOT / "docs" / "attention").iterdir())
    for path in tmp_path.iterdir():
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.parse(path).iter()}
        assert "path" in tags
        assert "text" not in tags


def test_the_configuration_of_the_lesson_loads_with_every_kind() -> None:
    for kind in typing.get_args(schema.AttentionKind):
        config = load_config(ROOT / "configs" / "lesson.yaml", [f"attention.kind={kind}"])
        assert config.attention.kind == kind
        assert (config.encoder.layers, config.decoder.layers, config.tokenizer.source.kind) == (1, 1, "words")
