"""YAML in and out, in bounded time and memory: the file may come from a stranger."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from seq2seq.errors import UserError

MAX_BYTES = 200_000
MAX_DEPTH = 20
MAX_VALUES = 10_000
MAX_DIGITS = 100
SHOWN = 100
"""Characters of a value or key that a message shows."""

Keys = tuple[str, ...]
Lines = dict[Keys, int]
"""The line on which each key, and each item of a list by its number, stands."""

_CORE_SCALARS = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
)


class _CoreLoader(yaml.SafeLoader):
    """Scalars, lists and mappings of the YAML 1.2 core schema: `3e-4` is a number; `no`, `on` and dates are text.

    Keys are text and stand once. Without aliases, which can stand for more than memory holds, and without tags.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012
    _depth = _values = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            raise _fault(event, f"*{event.anchor} repeats what stands elsewhere; write it out")
        if event.tag is not None:
            raise _fault(event, f"{event.tag} is a tag, which no setting needs; leave it out, or put text in quotes")
        self._depth, self._values = self._depth + 1, self._values + 1
        if self._values > MAX_VALUES:
            raise _fault(event, f"over {MAX_VALUES:,} keys and values, which no configuration has")
        if self._depth > MAX_DEPTH:
            raise _fault(event, f"nested more than {MAX_DEPTH} deep, which no setting is")
        node = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(node, yaml.ScalarNode) and re.search("[\ud800-\udfff]", node.value):
            raise _fault(node, "half of a surrogate pair is no character; take it out")
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:str":
                raise _fault(key, f"a key is text: put {flow(self.construct_object(key, deep=True))} in quotes")
            if key.value in seen:
                raise _fault(key, f"key {key.value!r} stands twice; leave one out")
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_int(self, node: yaml.ScalarNode) -> int:
        text = self.construct_scalar(node)
        if len(text) > MAX_DIGITS:
            raise _fault(
                node, f"a number of {len(text)} digits, which no setting takes; put it in quotes if it is text"
            )
        return int(text, 0) if text.startswith(("0o", "0x")) else int(text)


class _Dumper(yaml.SafeDumper):
    """Quotes text that YAML 1.1 or 1.2 would take for something else, and writes everything out."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # In single quotes PyYAML would write U+0085 as it is, which reads back as a blank.
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=None if data.isprintable() else '"')


for _tag, _pattern, _first in _CORE_SCALARS:
    for _class in (_CoreLoader, _Dumper):
        _class.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), list(_first))
_CoreLoader.add_constructor("tag:yaml.org,2002:int", _CoreLoader.construct_int)
_Dumper.add_representer(str, _Dumper.represent_str)


def _fault(where: Any, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(None, None, problem, where.start_mark)


def read_yaml(path: str | Path) -> str:
    """The text of a YAML file.

    Raises:
        UserError: the file cannot be read, is too large for a configuration, or is not UTF-8.
    """
    path = Path(path)
    name = printable(str(path))
    try:
        if path.is_dir():
            raise UserError(f"{name}: is a folder, not a config file; configs/ holds some to start from")
        if path.exists() and not path.is_file():
            raise UserError(f"{name}: is a pipe or a device, not a config file; save the configuration as a file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UserError(f"{name}: no such config file; see configs/ for some to start from") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{name}: cannot be read: {reason}") from None
    if len(content) > MAX_BYTES:
        raise UserError(f"{name}: over {MAX_BYTES:,} bytes, so no config file; see configs/ for some to start from")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        fault = f"byte 0x{error.object[error.start]:02x}"
        raise UserError(f"{name}, line {line}: cannot be read as UTF-8 text ({fault}); save it as UTF-8") from None


def parse_yaml(text: str, name: str) -> tuple[Any, Lines]:
    """What the YAML says (None where it says nothing), and where; `name` stands for it in error messages.

    What comes back holds None, bool, int, float, str, lists and dicts with keys of str, nothing of it twice.

    Raises:
        UserError: it is not valid YAML, or uses more of YAML than settings need.
    """
    if len(text) > MAX_BYTES:
        raise UserError(f"{name}: over {MAX_BYTES:,} characters, so no configuration")
    try:
        loader = _CoreLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None, {}
        return loader.construct_document(node), dict(_lines(node, ()))
    except yaml.reader.ReaderError as error:
        where = f"{name}, line {text.count(chr(10), 0, error.position) + 1}"
        problem = f"character U+{error.character:04X} is not allowed; take it out"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}, line {mark.line + 1}" if mark else name
        problem = " ".join(filter(None, (error.context, error.problem)))
    except (ValueError, OverflowError) as error:
        # Of an escape such as \UFFFFFFFF, or of %YAML with thousands of digits.
        where, problem = name, str(error)
    raise UserError(f"{where}: not valid YAML: {printable(problem, 2 * SHOWN)}")


def _lines(node: yaml.Node, path: Keys) -> Iterable[tuple[Keys, int]]:
    if isinstance(node, yaml.MappingNode):
        parts = [(key.value, key, value) for key, value in node.value]
    else:
        parts = [(str(n), item, item) for n, item in enumerate(node.value)] if isinstance(node.value, list) else []
    for part, start, value in parts:
        here = (*path, part)
        yield here, start.start_mark.line + 1
        yield from _lines(value, here)


def dump_yaml(document: dict[str, Any]) -> str:
    """As YAML text, a key a line, which `parse_yaml` reads back to an equal document."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def flow(value: Any) -> str:
    """A value as YAML in one line of printable characters, which `parse_yaml` reads back to an equal value."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(key)}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str):
        return value if _stands_plain(value) else '"' + printable(re.sub(r'["\\]', r"\\\g<0>", value)) + '"'
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else re.sub(r"inf|nan", r".\g<0>", repr(value))


def _stands_plain(text: str) -> bool:
    means_more = any(re.fullmatch(pattern, text) for _, pattern, _ in _CORE_SCALARS)
    return not means_more and re.fullmatch(r"[\w./][\w./+-]*", text) is not None


def printable(text: str, limit: int | None = None) -> str:
    """The text in one line: what cannot be printed is escaped as YAML and Python do, and what is too long is cut."""
    if limit is not None and len(text) > limit:
        text = f"{text[: limit - 3]}..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown(value: Any) -> str:
    """A value as a message shows it: as YAML has it, in one line, cut where it is long."""
    return printable(flow(value), SHOWN)
