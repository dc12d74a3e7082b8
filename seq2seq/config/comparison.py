"""A comparison: variants of one base configuration, and the budget and seeds they share."""

import copy
import difflib
import json
import os.path
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from seq2seq.config.loading import Lines, Override, load_config, parse_mapping, read_yaml, validate
from seq2seq.config.schema import Config, Section
from seq2seq.errors import UserError

SHARED = (
    "seed",
    "device",
    "threads",
    "data",
    "training.max_minutes",
    "training.max_steps",
    "training.max_epochs",
    "training.patience",
)
"""Keys that all variants share: the text, the budget, and what decides how fast it is used."""


def _checked(holds: Callable[[object], bool], advice: str) -> BeforeValidator:
    def check(value: object) -> object:
        if not holds(value):
            raise ValueError(advice)
        return value

    return BeforeValidator(check)


def _has_text(value: object) -> bool:
    """Whether this is text with something to see in it: neither blanks nor control or format characters alone."""
    return isinstance(value, str) and any(unicodedata.category(character)[0] not in "CZ" for character in value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_filled(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kind) and bool(value)


def _keys(value: object) -> object:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("give the keys that this variant changes, such as {attention.kind: dot}")
    return value


def _name(text: str) -> str:
    # It becomes the name of files.
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", text):
        raise ValueError("a variant's name is letters, digits, - _ and . after a letter or digit, 100 at most")
    return text


def _may_differ(key: str) -> str:
    if not all(key.split(".")):
        raise ValueError("write the key as section.key, such as attention.kind")
    for shared in SHARED:
        if f"{key}.".startswith(f"{shared}.") or shared.startswith(f"{key}."):
            raise ValueError(f"{shared} is the same for all variants; set it in the base configuration")
    return key


def _distinct(seeds: list[int]) -> list[int]:
    if len(set(seeds)) < len(seeds):
        raise ValueError("a seed stands twice")
    return seeds


Seeds = Annotated[
    list[Annotated[int, Field(ge=0, lt=2**32)]],
    _checked(_is_filled(list), "give one seed or more, such as [1, 2, 3]"),
    AfterValidator(_distinct),
]
Sentence = Annotated[str, _checked(_has_text, "write a sentence, in quotes if it is a number, or leave the key out")]
Name = Annotated[str, _checked(_is_text, "a variant's name is text; put it in quotes"), AfterValidator(_name)]
Key = Annotated[str, _checked(_is_text, "a key is text, such as attention.kind"), AfterValidator(_may_differ)]


class Comparison(Section):
    """Trainings that differ in a few keys, on the same text and under the same budget."""

    base: Annotated[str, _checked(_has_text, "name a configuration file")]
    """Path of the configuration that all variants start from, relative to this file."""
    minutes: Annotated[float, Field(gt=0.0)] | None = None
    """training.max_minutes of each training; null: the budget of the base."""
    seeds: Seeds = Field(default=[1])
    """Each variant is trained once with each seed."""
    sentence: Sentence | None = None
    """Source sentence of the attention maps; null: the first test sentence of median length."""
    variants: Annotated[
        dict[Name, Annotated[dict[Key, Any], BeforeValidator(_keys)]],
        _checked(_is_filled(dict), "give one variant or more, each a name with the keys it changes"),
    ]
    """Name -> dotted keys with values that make the base this variant; null: the base as it is. The others are tested
    against the first."""
    _file: str = PrivateAttr("comparison")
    """What error messages call the file."""
    _lines: Lines = PrivateAttr(default_factory=dict)
    """Where each key stands in it."""

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        if len({name.casefold() for name in self.variants}) < len(self.variants):
            raise ValueError("variants: two names differ in case alone, which some file systems cannot tell apart")
        return self

    def overrides(self, variant: str, seed: int, given: Iterable[str] = ()) -> list[str]:
        """What --set of the train command is given for one training: `given`, the budget, the seed, the variant."""
        return [*self._shared(seed, given), *_sets(self.variants[variant])]

    def config(self, variant: str, seed: int, given: Iterable[str] = ()) -> Config:
        """The whole configuration of one training.

        Raises:
            UserError: the base is not acceptable as it is, or does not take the keys and values of the variant.
        """
        base = load_config(self.base, self._shared(seed, given))
        document = base.model_dump(mode="json", exclude_unset=True)
        for key, value in self.variants[variant].items():
            _put(document, key.split("."), copy.deepcopy(value))
        above = ("variants", variant)
        places = {
            tuple(".".join(keys[2:]).split(".")): Override(self._place(keys))
            for keys in self._lines
            if keys[:2] == above and len(keys) > 2
        }
        return validate(Config, document, {}, self._place(above), places)

    def _shared(self, seed: int, given: Iterable[str]) -> list[str]:
        budget = {} if self.minutes is None else {"training.max_minutes": self.minutes}
        return [*given, *_sets({**budget, "seed": seed})]

    def _place(self, keys: Sequence[str]) -> str:
        """File, line and dotted key, for an error message."""
        line = self._lines.get(tuple(keys))
        return f"{self._file}{'' if line is None else f', line {line}'}: {'.'.join(keys)}"

    def only(self, names: Iterable[str]) -> "Comparison":
        """The comparison of the named variants alone, in its own order.

        Raises:
            UserError: there is no variant of that name.
        """
        names = set(names)
        for name in sorted(names - self.variants.keys()):
            close = difflib.get_close_matches(name, self.variants, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(self.variants)}"
            raise UserError(f"--only {name}: no such variant; {hint}")
        return self.model_copy(update={"variants": {k: v for k, v in self.variants.items() if k in names}})


def _sets(keys: Mapping[str, Any]) -> list[str]:
    # JSON is YAML in one line.
    return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in keys.items()]


def _put(document: dict[str, Any], keys: Sequence[str], value: Any) -> None:
    """Set a nested key; what stands in its way makes room, for validation to refuse."""
    for key in keys[:-1]:
        if not isinstance(document.get(key), dict):
            document[key] = {}
        document = document[key]
    document[keys[-1]] = value


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by their dotted keys."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def load_comparison(path: str | Path) -> Comparison:
    """Read the YAML of a comparison; `base` of what comes back is relative to the current folder.

    Raises:
        UserError: the file or its base cannot be read, the file not parsed, or a key or value is not acceptable.
    """
    document, lines = parse_mapping(read_yaml(path), str(path))
    comparison = validate(Comparison, document, lines, str(path))
    base = os.path.normpath(Path(path).parent / comparison.base)
    comparison = comparison.model_copy(update={"base": base})
    comparison._file, comparison._lines = str(path), lines
    try:
        read_yaml(base)
    except UserError as error:
        raise UserError(f"{comparison._place(['base'])}: {error}") from None
    return comparison
