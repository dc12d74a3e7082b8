"""From YAML text and --set overrides to a Config, or one line that names file, line and key."""

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from seq2seq.config.faults import Origin, Override, describe
from seq2seq.config.schema import Config
from seq2seq.config.yaml_text import MAX_DEPTH, SHOWN, Keys, Lines, dump_yaml, parse_yaml, printable, read_yaml, shown
from seq2seq.errors import UserError

Model = TypeVar("Model", bound=BaseModel)


def load_config(path: str | Path, overrides: Iterable[str] = ()) -> Config:
    """Read a YAML file, apply `key.path=value` overrides, validate.

    Raises:
        UserError: the file cannot be read or parsed, or a key or value is not acceptable.
    """
    return parse_config(read_yaml(path), overrides, name=str(path))


def parse_config(text: str, overrides: Iterable[str] = (), name: str = "config") -> Config:
    """Like `load_config`, from YAML text; `name` stands for the file in error messages."""
    document, lines = parse_mapping(text, name)
    given: dict[Keys, Override] = {}
    for override in overrides:
        said = f"--set {printable(override, SHOWN)}"
        keys, value = _parse_override(override, said)
        while undone := undone_by(keys, given):  # of several the last one holds, as everywhere on a command line
            del given[undone]
        before = copy.deepcopy(document)
        _assign(document, keys, value, said)
        given[keys] = Override(said, before)
    return validate(Config, document, Origin(printable(name), lines, given))


def undone_by(keys: Keys, earlier: Iterable[Keys]) -> Keys | None:
    """Which of the keys that were set earlier has no effect any more once these are set."""
    return next((other for other in earlier if other[: len(keys)] == keys), None)


def parse_mapping(text: str, name: str) -> tuple[dict[str, Any], Lines]:
    """YAML text that holds keys with values, and the line on which each key stands.

    Raises:
        UserError: the text is not valid YAML, or holds something else.
    """
    document, lines = parse_yaml(text, printable(name))
    document = {} if document is None else document
    if not isinstance(document, dict):
        raise UserError(f"{printable(name)}: holds {_kind(document)}, not keys with values; see configs/default.yaml")
    return document, lines


def validate(model: type[Model], document: dict[str, Any], origin: Origin) -> Model:
    """The document as a model.

    Raises:
        UserError: a key or value is not acceptable.
    """
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise UserError(describe(error, model, document, origin)) from None


def dump_config(config: Config) -> str:
    """The whole configuration as YAML, defaults included; `parse_config` reads it back to an equal Config."""
    return dump_yaml(config.model_dump(mode="json"))


def _parse_override(override: str, said: str) -> tuple[Keys, Any]:
    key, equals, text = override.partition("=")
    keys = tuple(part.strip() for part in key.split("."))
    if not equals or not all(keys):
        raise UserError(f"{said}: write it as key.path=value, such as training.max_minutes=15")
    if len(keys) > MAX_DEPTH:
        raise UserError(f"{said}: {len(keys)} keys below one another, which no setting has")
    if not text.strip():
        raise UserError(f"{said}: the value is missing; write {key.strip()}=null for none")
    return keys, parse_yaml(text, f"--set {printable(key.strip(), SHOWN)}")[0]


def _assign(document: dict[str, Any], keys: Sequence[str], value: Any, said: str) -> None:
    for depth, key in enumerate(keys[:-1], start=1):
        inner = document[key] = {} if document.get(key) is None else document[key]
        if not isinstance(inner, dict):
            above = printable(".".join(keys[:depth]), SHOWN)
            raise UserError(f"{said}: {above} holds {_kind(inner)}, not keys; set {above} as a whole")
        document = inner
    document[keys[-1]] = value


def _kind(value: Any) -> str:
    return "a list" if isinstance(value, list) else f"the value {shown(value)}"
