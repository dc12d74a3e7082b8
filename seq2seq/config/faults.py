"""What pydantic refuses, as one line: where it stands, the key, its value, and what would do."""

import difflib
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from seq2seq.config.yaml_text import SHOWN, Keys, Lines, flow, printable, shown

Node = dict[str, Any]
"""A part of a JSON schema."""


class Override(NamedTuple):
    """What gave a key its value, instead of the file: a --set, or a variant of a comparison."""

    text: str
    """What an error message calls it."""
    before: dict[str, Any] | None = None
    """The document without this --set and those after it; None for a variant, whose keys are judged together."""


class Origin(NamedTuple):
    """Where a document comes from."""

    name: str
    """What error messages call the file."""
    lines: Lines
    """Where its keys stand in it."""
    given: Mapping[Keys, Override] = {}
    """What came from elsewhere, in its order."""

    def of(self, keys: Keys) -> str:
        """What gave the keys or some below them, or else the file and the line of the nearest key that stands there."""
        below = [override for each, override in self.given.items() if keys and each[: len(keys)] == keys]
        if below and keys not in self.lines:
            return below[-1].text
        for depth in range(len(keys), 0, -1):
            if override := self.given.get(keys[:depth]):
                return override.text
            if line := self.lines.get(keys[:depth]):
                return f"{self.name}, line {line}"
        return self.name


def describe(error: ValidationError, model: type[BaseModel], document: Any, origin: Origin) -> str:
    """One line for the first fault."""
    # Of a union's faults, the branch that reads keys (given first) says more than "should be a string".
    faults = sorted(
        error.errors(include_url=False, include_input=False),
        key=lambda fault: (fault["type"] != "extra_forbidden", fault["loc"][-1:] == ("str",)),
    )
    fault = faults[0]
    path, value = _found(document, fault["loc"])
    schema = _schema(model)
    node = _at(schema, path)
    known = [key for branch in _branches(schema, node) for key in branch.get("properties", {})]
    advice = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        return f"{origin.of(path)}: {_unknown(schema, path)}"
    if fault["type"] == "missing":
        place = _blamed(path, advice, faults, model, origin.given) or origin.of(path)
        return f"{place}: {_dotted((*path, str(fault['loc'][-1])))} is missing; add it"
    if fault["type"] != "value_error":
        return f"{origin.of(path)}: {_dotted(path)} is {shown(value)}: write {_wanted(schema, node)}"
    if known and isinstance(value, dict):
        # Several keys of a section are at fault together: the advice begins with one, and may name others.
        at_fault = (*path, *advice.partition(":")[0].split("."))
        place = _blamed(path, advice, faults, model, origin.given) or origin.of(at_fault)
        return f"{place}: {'.'.join([*path, advice])}"
    return f"{origin.of(path)}: {_dotted(path)} is {shown(value)}: {advice}"


@functools.cache
def _schema(model: type[BaseModel]) -> Node:
    return model.model_json_schema()


def _found(document: Any, location: Sequence[int | str]) -> tuple[Keys, Any]:
    """Keys and value of what pydantic locates.

    A union's branch, or the mark that a key is at fault, is part of its location but not of the document.
    """
    path: list[str] = []
    for part in location:
        if part in document if isinstance(document, dict) else isinstance(document, list) and isinstance(part, int):
            path.append(str(part))
            document = document[part]
    return tuple(path), document


def _dotted(path: Sequence[str]) -> str:
    return printable(".".join(path), SHOWN)


def _unknown(schema: Node, path: Keys) -> str:
    known = [key for branch in _branches(schema, _at(schema, path[:-1])) for key in branch.get("properties", {})]
    close = difflib.get_close_matches(path[-1][:SHOWN], known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
    return f"unknown key {_dotted(path)}; {hint}"


def _at(schema: Node, path: Keys) -> Node:
    """What a schema says of a key; nothing where it does not know it."""
    node = schema
    for part in path:
        node = next((below for branch in _branches(schema, node) for below in _below(branch, part)), {})
    return node


def _below(node: Node, part: str) -> Iterator[Node]:
    if part in node.get("properties", {}):
        yield node["properties"][part]
    elif part.isdigit() and "items" in node:
        yield node["items"]
    elif isinstance(node.get("additionalProperties"), dict):
        yield node["additionalProperties"]


def _branches(schema: Node, node: Node) -> list[Node]:
    """What a value may be, each without a reference."""
    if "$ref" in node:
        return [schema["$defs"][node["$ref"].rpartition("/")[2]]]
    inner = node.get("anyOf") or node.get("allOf")
    return [each for branch in inner for each in _branches(schema, branch)] if inner else [node]


def _wanted(schema: Node, node: Node) -> str:
    """What would do, in words."""
    return ", or ".join(_in_words(branch) for branch in _branches(schema, node))


def _in_words(node: Node) -> str:
    if "enum" in node:
        *others, last = map(flow, node["enum"])
        return f"{', '.join(others)} or {last}"
    words = {
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
        "array": "a list such as [a, b]",
        "object": "keys with values below it, or leave it out",
        "null": "null",
    }
    return " ".join(filter(None, (words.get(node.get("type", ""), "text"), _bounds(node))))


def _bounds(node: Node) -> str:
    if "minimum" in node and "maximum" in node:
        return f"from {node['minimum']:.15g} to {node['maximum']:.15g}"
    words = {"minimum": "of at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    return " and ".join(f"{text} {node[bound]:.15g}" for bound, text in words.items() if bound in node)


def _blamed(
    section: Keys,
    message: str,
    faults: Sequence[ErrorDetails],
    model: type[BaseModel],
    given: Mapping[Keys, Override],
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
