"""The schema is documented, matches the code's tables, and every YAML under configs/ fits it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from seq2seq.config import Config, load_config, schema
from seq2seq.config.comparison import load_comparison
from seq2seq.model import CELLS, SCORES, SELECTIONS
from seq2seq.training.optimizer import OPTIMIZERS

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
COMPARISONS = sorted((ROOT / "configs" / "compare").glob("*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_yaml_under_configs_loads(path: Path) -> None:
    load_config(path)
    assert "make train" in path.read_text(encoding="utf-8").split("\ndata:")[0], "its header says how to run it"


@pytest.mark.parametrize("path", COMPARISONS, ids=lambda path: path.stem)
def test_every_comparison_loads_and_so_does_each_of_its_variants(path: Path) -> None:
    comparison = load_comparison(path)
    for variant in comparison.variants:
        comparison.config(variant, comparison.seeds[0])
    assert "python -m seq2seq.compare" in path.read_text(encoding="utf-8").split("\nbase:")[0]


def test_there_are_configs() -> None:
    assert {"default", "tatoeba", "lesson"} <= {path.stem for path in CONFIGS}
    assert {"attention"} <= {path.stem for path in COMPARISONS}


@pytest.mark.parametrize(
    ("literal", "table"),
    [
        (schema.AttentionKind, SCORES),
        (schema.SelectionKind, SELECTIONS),
        (schema.CellKind, CELLS),
        (schema.OptimizerKind, OPTIMIZERS),
    ],
)
def test_what_the_yaml_may_name_is_what_the_code_has(literal: object, table: dict[str, object]) -> None:
    assert set(get_args(literal)) == set(table)


def sections() -> list[type[BaseModel]]:
    return [s for s in vars(schema).values() if isinstance(s, type) and issubclass(s, schema.Section)]


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.__name__)
def test_every_field_is_documented(section: type[BaseModel]) -> None:
    assert section.__doc__
    assert [name for name, field in section.model_fields.items() if not field.description] == []


def test_the_committed_json_schema_is_what_the_command_writes(tmp_path: Path) -> None:
    out = tmp_path / "schema.json"
    subprocess.run([sys.executable, "-m", "seq2seq.config", "--output", str(out)], check=True, cwd=ROOT)
    assert out.read_bytes() == (ROOT / "configs" / "schema.json").read_bytes(), "run `make schema`"
    assert json.loads(out.read_text(encoding="utf-8"))["properties"].keys() == Config.model_fields.keys()
