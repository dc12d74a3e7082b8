"""From YAML text and --set overrides to a Config, or one line that names file, line and key."""

import copy
import difflib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from seq2seq.config.schema import Config
from seq2seq.errors import UserError


class _CoreLoader(yaml.SafeLoader):
    """YAML 1.2 core schema: `3e-4` is a number, `no` and `on` are text, dates are text, a key stands once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.value in seen:
                raise yaml.MarkedYAMLError(None, None, f"key {key_node.value!r} stands twice", key_node.start_mark)
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node)
    return int(text, 0) if text.lstrip("+-").startswith(("0o", "0x")) else int(text)


_CoreLoader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
):
    _CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), list(_first))
_CoreLoader.add_constructor("tag:yaml.org,2002:int", _construct_int)

ADVICE = {"bool_type": "write true or false", "model_type": "give keys with values below it"}
"""What pydantic says less plainly."""
Lines = dict[tuple[str, ...], int]
Model = TypeVar("Model", bound=BaseModel)


class Override(NamedTuple):
    """What gave a key its value, instead of the file: a --set, or a variant of a comparison."""

    text: str
    """What an error message calls it."""
    before: dict[str, Any] | None = None
    """The document without this --set and those after it; None for a variant, whose keys are judged together."""


def load_config(path: str | Path, overrides: Iterable[str] = ()) -> Config:
    """Read a YAML file, apply `key.path=value` overrides, validate.

    Raises:
        UserError: the file cannot be read or parsed, or a key or value is not acceptable.
    """
    return parse_config(read_yaml(path), overrides, name=str(path))


def read_yaml(path: str | Path) -> str:
    """The text of a YAML file.

    Raises:
        UserError: the file cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path}: is a folder, not a config file; configs/ holds some to start from")
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{path}: no such config file; see configs/ for some to start from") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as UTF-8 text: {error}") from None


def parse_config(text: str, overrides: Iterable[str] = (), name: str = "config") -> Config:
    """Like `load_config`, from YAML text; `name` stands for the file in error messages."""
    document, lines = parse_mapping(text, name)
    given: dict[tuple[str, ...], Override] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        keys = tuple(key.strip().split("."))
        if not equals or not all(keys):
            raise UserError(f"--set {override}: write it as key.path=value, such as training.max_minutes=15")
        before = copy.deepcopy(document)
        _assign(document, keys, _parse_yaml(value, f"--set {key}")[0], override)
        # Taken out first, so that the order is that of the values which hold.
        given.pop(keys, None)
        given[keys] = Override(f"--set {override}", before)
    return validate(Config, document, lines, name, given)


def parse_mapping(text: str, name: str) -> tuple[dict[str, Any], Lines]:
    """YAML text that holds keys with values, and the line on which each key stands.

    Raises:
        UserError: the text is not valid YAML, or holds something else.
    """
    document, lines = _parse_yaml(text, name)
    document = {} if document is None else document
    if not isinstance(document, dict):
        raise UserError(f"{name}: holds {_kind(document)}, not keys with values; see configs/default.yaml")
    return document, lines


def validate(
    model: type[Model],
    document: dict[str, Any],
    lines: Lines,
    name: str,
    given: dict[tuple[str, ...], Override] | None = None,
) -> Model:
    """The document as a model; `given` says which keys came from a --set, not from the file `name`, in their order.

    Raises:
        UserError: a key or value is not acceptable.
    """
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise UserError(_describe(error, model, document, lines, given or {}, name)) from None


def dump_config(config: Config) -> str:
    """The whole configuration as YAML, defaults included; `parse_config` reads it back to an equal Config."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _parse_yaml(text: str, name: str) -> tuple[Any, Lines]:
    try:
        loader = _CoreLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None, {}
        return loader.construct_document(node), dict(_key_lines(node, ()))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}, line {mark.line + 1}" if mark else name
        raise UserError(f"{where}: not valid YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        raise UserError(f"{name}: not valid YAML: {' '.join(str(error).split())}") from None


def _key_lines(node: yaml.Node, path: tuple[str, ...]) -> Iterable[tuple[tuple[str, ...], int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, str(key.value))
            yield here, key.start_mark.line + 1
            yield from _key_lines(value, here)


def _assign(document: dict[str, Any], keys: tuple[str, ...], value: Any, override: str) -> None:
    for key in keys[:-1]:
        if document.get(key) is None:
            document[key] = {}
        document = document[key]
        if not isinstance(document, dict):
            raise UserError(f"--set {override}: {key} holds {_kind(document)}, not keys; leave out what follows it")
    document[keys[-1]] = value


def _describe(
    error: ValidationError,
    model: type[BaseModel],
    document: Any,
    lines: Lines,
    given: dict[tuple[str, ...], Override],
    name: str,
) -> str:
    """One line for the first fault: where it stands, what is wrong, what would do."""
    # Of a union's faults, the branch that reads keys (given first) says more than "should be a string".
    faults = sorted(
        error.errors(include_url=False), key=lambda f: (f["type"] != "extra_forbidden", f["loc"][-1:] == ("str",))
    )
    fault = faults[0]
    path: list[str] = []
    value: Any = document
    for part in fault["loc"]:
        # A union's branch name, or the mark that a key is at fault, is part of pydantic's location but not of the YAML.
        stands_there = part in value if isinstance(value, dict) else isinstance(value, list) and isinstance(part, int)
        if stands_there:
            path.append(str(part))
            value = value[part]
    dotted = ".".join(path)
    message = ADVICE.get(fault["type"]) or fault["msg"].removeprefix("Value error, ")
    where = _where(tuple(path), lines, given, name)
    if isinstance(value, dict) and fault["type"] in ("value_error", "missing"):
        # Several keys are at fault together, so the one to name may stand below this place.
        where = _blamed(tuple(path), message, faults, model, given) or where
    if fault["type"] == "extra_forbidden":
        options = _fields_at(model, path[:-1])
        close = difflib.get_close_matches(path[-1], options, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(options)}"
        return f"{where}: unknown key {dotted}; {hint}"
    if fault["type"] == "missing":
        return f"{where}: {'.'.join([*path, str(fault['loc'][-1])])} is missing"
    if isinstance(value, dict) and fault["type"] == "value_error":
        return ": ".join(filter(None, (where, dotted, message)))
    return f"{where}: {dotted} is {value!r}: {message[:1].lower()}{message[1:]}"


def _blamed(
    section: tuple[str, ...],
    message: str,
    faults: Sequence[ErrorDetails],
    model: type[BaseModel],
    given: dict[tuple[str, ...], Override],
) -> str | None:
    """The --set since which the first fault, of several keys in a section, is there, else the last one it names."""
    others = {(fault["loc"], fault["type"]) for fault in faults} - {(faults[0]["loc"], faults[0]["type"])}
    sets = {keys: override for keys, override in given.items() if override.before is not None}
    for override in reversed(sets.values()):
        # A fault that is not among the others may hide the first one.
        if override.before is not None and _faults_of(model, override.before) <= others:
            return override.text
    for keys, override in reversed(sets.items()):
        key = ".".join(keys[len(section) :])
        if keys[: len(section)] == section and key and re.search(rf"(?<![\w.]){re.escape(key)}\b", message):
            return override.text
    return None


def _faults_of(model: type[BaseModel], document: dict[str, Any]) -> set[tuple[tuple[int | str, ...], str]]:
    """Place and type of each."""
    try:
        model.model_validate(document)
    except ValidationError as error:
        return {(fault["loc"], fault["type"]) for fault in error.errors(include_url=False)}
    return set()


def _where(keys: tuple[str, ...], lines: Lines, given: dict[tuple[str, ...], Override], name: str) -> str:
    """The --set that gave the keys, or else the file and the line of the nearest key that stands there."""
    for depth in range(len(keys), 0, -1):
        override = given.get(keys[:depth])
        if override:
            return override.text
        if keys[:depth] in lines:
            return f"{name}, line {lines[keys[:depth]]}"
    return name


def _fields_at(model: type[BaseModel], path: list[str]) -> list[str]:
    """Keys known below a path of a model; a number in it is a place in a list."""
    section: Any = model
    for key in path:
        if not key.isdigit():
            section = _section(section.model_fields[key].annotation)
    return list(section.model_fields)


def _section(annotation: Any) -> Any:
    """The section within an annotation such as `str | FilePair` or a list of those."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _section(inner))), None)


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return "a list"
    return "keys" if isinstance(value, dict) else f"the value {value!r}"
