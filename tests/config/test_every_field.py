"""Each field of the configuration, given a wrong type or an impossible value, says so in one line."""

import re
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from seq2seq.config import Config, parse_config
from seq2seq.config.comparison import Comparison, load_comparison
from seq2seq.errors import UserError


class Field(NamedTuple):
    """A field that holds no fields."""

    key: str
    kind: Any
    """int, float, bool, str, Literal, list, dict, or a union."""
    options: list[Any]
    """Of a Literal."""
    nullable: bool
    bounds: dict[str, float]
    """ge, gt, le, lt -> the number."""


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[Field]:
    for name, info in model.model_fields.items():
        kind, annotations = bare(info.annotation)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from fields(kind, f"{prefix}{name}.")
        else:
            yield leaf(f"{prefix}{name}", info, kind, annotations)


def leaf(key: str, info: FieldInfo, kind: Any, annotations: list[Any]) -> Field:
    marks = [mark for each in (*info.metadata, *annotations) for mark in getattr(each, "metadata", [each])]
    bounds = {bound: getattr(mark, bound) for mark in marks for bound in BOUNDS if hasattr(mark, bound)}
    nullable = type(None) in get_args(info.annotation)
    literal = get_origin(kind) is Literal
    return Field(key, Literal if literal else kind, list(get_args(kind)) if literal else [], nullable, bounds)


def bare(annotation: Any) -> tuple[Any, list[Any]]:
    """An annotation without Annotated and null, and what stood in the Annotated."""
    marks: list[Any] = []
    while True:
        if get_origin(annotation) is typing.Annotated:
            annotation, *more = get_args(annotation)
            marks += more
        elif get_origin(annotation) in (typing.Union, types.UnionType) and type(None) in get_args(annotation):
            (annotation,) = set(get_args(annotation)) - {type(None)}
        else:
            return get_origin(annotation) if get_origin(annotation) in (list, dict) else annotation, marks


BOUNDS = ("ge", "gt", "le", "lt")
FIELDS = list(fields(Config))
COMPARISON = list(fields(Comparison))
# As YAML has them, and as a message shows them.
WRONG: dict[Any, list[str]] = {
    int: ["[]", "[1]", "{}", "{a: 1}", "two", '""', '"3"', "true", "1.5", "1.0", ".inf", ".nan", "1" + "0" * 30],
    float: ["[]", "[0.5]", "{}", "{a: 1}", "two", '""', '"0.5"', "true", ".inf", "-.inf", ".nan"],
    bool: ["[]", "{}", "no", '"true"', '""', "0", "1", "1.5"],
    Literal: ["[]", "{}", "nothing_like_it", '""', "1", "1.5", "true"],
    str: ["[]", "{}", '""', '" "', "1", "1.5", "true", '"a\\nb\\x00"'],
    list: ["{}", "{a: 1}", "one", '""', "1", "1.5", "true"],
    dict: ["[]", "[a]", "one", '""', "1", "1.5", "true"],
}
NUMBERS = {int: 1.0, float: 1e-3}


def impossible(field: Field) -> list[str]:
    """Values of a wrong type, and numbers beyond the bounds."""
    found = list(WRONG.get(field.kind, ["[]", "[a]", '""', '" "', "1", "1.5", "true"]))
    step = NUMBERS.get(field.kind, 0.0)
    for bound, limit in field.bounds.items():
        beyond = {"ge": limit - step, "gt": limit, "le": limit + step, "lt": limit}[bound]
        found.append(str(int(beyond)) if field.kind is int else repr(float(beyond)))
    return found if field.nullable else [*found, "null"]


def nested(key: str, value: str) -> tuple[str, int]:
    """YAML that gives the key a value, and the line on which it stands."""
    parts = key.split(".")
    lines = [f"{'  ' * depth}{part}:" for depth, part in enumerate(parts)]
    return "\n".join(lines) + f" {value}", len(parts)


def refusal(load: Callable[..., object], *arguments: Any) -> str:
    with pytest.raises(UserError) as caught:
        load(*arguments)
    assert str(caught.value).isprintable()
    return str(caught.value)


def named(field: Field) -> str:
    return field.key


ADVICE = re.compile(r"(write|use|give|name) \S.*")


@pytest.mark.parametrize("field", FIELDS, ids=named)
def test_a_wrong_value_in_a_file_names_line_key_and_value_and_says_what_would_do(field: Field) -> None:
    for value in impossible(field):
        text, line = nested(field.key, value)
        message = refusal(parse_config, text)
        start = f"config, line {line}: {field.key} is {value}: "
        assert message.startswith(start)
        assert ADVICE.fullmatch(message.removeprefix(start)), message


@pytest.mark.parametrize("field", FIELDS, ids=named)
def test_a_wrong_value_of_a_set_names_the_set_the_key_and_the_value(field: Field) -> None:
    for value in impossible(field):
        given = f"{field.key}={value}"
        message = refusal(parse_config, "", ["seed=1" if field.key == "data.extra" else "data.extra=[hsk]", given])
        start = f"--set {given}: {field.key} is {value}: "
        assert message.startswith(start)
        assert ADVICE.fullmatch(message.removeprefix(start)), message


@pytest.mark.parametrize("field", COMPARISON, ids=named)
def test_a_wrong_value_in_a_comparison_names_line_key_and_value(field: Field, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    others = {"base": "b.yaml", "variants": "{a: {}}"}
    for value in impossible(field):
        if field.key == "sentence" and "\\x00" in value:
            continue  # it is cleaned like all text
        lines = [f"{key}: {given}" for key, given in others.items() if key != field.key]
        path.write_text("\n".join([*lines, f"{field.key}: {value}"]), encoding="utf-8")
        start = f"{path}, line {len(lines) + 1}: {field.key} is {value}: "
        message = refusal(load_comparison, path)
        assert message.startswith(start)
        assert ADVICE.fullmatch(message.removeprefix(start)), message


@pytest.mark.parametrize("field", [f for f in FIELDS + COMPARISON if f.kind in (int, float)], ids=named)
def test_every_number_has_a_least_and_a_greatest_value(field: Field) -> None:
    assert field.bounds.keys() & {"ge", "gt"}
    # What these divide or compare may be as large as can be: nothing grows with them.
    assert field.bounds.keys() & {"le", "lt"} or field.key in ("data.cleaning.max_ratio", "training.clip_norm")


@pytest.mark.parametrize("field", [field for field in FIELDS if field.bounds], ids=named)
def test_a_bound_that_is_allowed_is_itself_no_wrong_value(field: Field) -> None:
    for bound in field.bounds.keys() & {"ge", "le"}:
        value = field.bounds[bound]
        try:
            parse_config("", [f"{field.key}={value}"])
        except UserError as error:
            assert f"{field.key} is " not in str(error), "only in combination with others"


@pytest.mark.parametrize("field", [f for f in FIELDS if f.nullable], ids=named)
def test_null_is_taken_where_a_message_offers_it(field: Field) -> None:
    ends = "max_epochs" if field.key == "training.max_steps" else "max_steps"
    parse_config(f"training: {{{ends}: 1}}", [f"{field.key}=null"])
    if field.kind in (int, float):
        assert refusal(parse_config, "", [f"{field.key}=[1]"]).endswith(", or null")


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("value", [*WRONG[str], "null"])
def test_a_file_of_a_pair_that_is_no_path_is_said(side: str, value: str) -> None:
    pair = {"source": "a", "target": "b", side: value}
    text = f"data:\n  extra:\n    - hsk\n    - source: {pair['source']}\n      target: {pair['target']}"
    line = {"source": 4, "target": 5}[side]
    message = refusal(parse_config, text)
    assert message == f"config, line {line}: data.extra.1.{side} is {value}: name a file"


@pytest.mark.parametrize("value", ["[]", "two", "true", "1.5", "null", "-1", "4294967296", '""'])
def test_a_seed_of_a_comparison_that_is_none_is_said(value: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(f"base: b\nvariants: {{a: }}\nseeds:\n  - 1\n  - {value}", encoding="utf-8")
    expected = f"{path}, line 5: seeds.1 is {value}: write a whole number from 0 to 4294967295"
    assert refusal(load_comparison, path) == expected


SECTIONS = ["data", "data.cleaning", "tokenizer", "tokenizer.source", "encoder", "training", "search"]


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("value", ["null", "[]", "1", "x", "true", '""'])
def test_a_section_that_is_none_is_said(section: str, value: str) -> None:
    text, line = nested(section, value)
    message = refusal(parse_config, text)
    assert message == f"config, line {line}: {section} is {value}: write keys with values below it, or leave it out"


def test_the_walk_meets_every_kind_of_field() -> None:
    assert {field.kind for field in FIELDS} >= {int, float, bool, str, Literal, list}
    assert {"tokenizer.target.kind", "data.cleaning.max_ratio", "seed", "training.skip_limit"} <= {
        f.key for f in FIELDS
    }
    assert {field.key for field in COMPARISON} == {"base", "minutes", "seeds", "sentence", "variants"}
