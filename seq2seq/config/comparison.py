"""A comparison: variants of one base configuration, and the budget and seeds they share."""

import copy
import difflib
import os.path
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from seq2seq.config.faults import Origin, Override
from seq2seq.config.loading import load_config, parse_mapping, undone_by, validate
from seq2seq.config.schema import Config, Section
from seq2seq.config.values import Minutes, Seed, checked, has_text, is_path
from seq2seq.config.yaml_text import MAX_DEPTH, SHOWN, Keys, flow, printable, read_yaml
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


def _is_filled(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kind) and bool(value)


def _changes(value: object) -> object:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("give the keys that this variant changes, such as {attention.kind: dot}")
    paths: list[Keys] = []
    for key in value:
        path = tuple(key.split("."))
        if undone := undone_by(path, paths):
            raise ValueError(f"{key} undoes {'.'.join(undone)}, which stands before it; leave one of them out")
        paths.append(path)
    return value


def _name(text: str) -> str:
    # It becomes the name of files.
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", text):
        raise ValueError("a variant's name is letters, digits, - _ and . after a letter or digit, 100 at most")
    return text


def _may_differ(key: str) -> str:
    if not all(key.split(".")) or key.count(".") >= MAX_DEPTH:
        raise ValueError("write the key as section.key, such as attention.kind")
    for shared in SHARED:
        if f"{key}.".startswith(f"{shared}.") or shared.startswith(f"{key}."):
            raise ValueError(f"{shared} is the same for all variants; set it in the base configuration")
    return key


def _distinct(seeds: list[int]) -> list[int]:
    if len(set(seeds)) < len(seeds):
        raise ValueError("a seed stands twice; leave one out")
    return seeds


Seeds = Annotated[
    list[Seed],
    checked(_is_filled(list), "give one seed or more, such as [1, 2, 3]"),
    AfterValidator(_distinct),
]
Sentence = Annotated[str, checked(has_text, "write a sentence, in quotes if it is a number, or leave the key out")]
Name = Annotated[str, AfterValidator(_name)]
Key = Annotated[str, AfterValidator(_may_differ)]


class Comparison(Section):
    """Trainings that differ in a few keys, on the same text and under the same budget."""

    base: Annotated[str, checked(is_path, "name a configuration file")]
    """Path of the configuration that all variants start from, relative to this file."""
    minutes: Minutes | None = None
    """training.max_minutes of each training; null: the budget of the base."""
    seeds: Seeds = Field(default=[1])
    """Each variant is trained once with each seed."""
    sentence: Sentence | None = None
    """Source sentence of the attention maps; null: the first test sentence of median length."""
    variants: Annotated[
        dict[Name, Annotated[dict[Key, Any], BeforeValidator(_changes)]],
        checked(_is_filled(dict), "give one variant or more, each a name with the keys it changes"),
    ]
    """Name -> dotted keys with values that make the base this variant; null: the base as it is. The others are tested
    against the first."""
    _origin: Origin = PrivateAttr(default=Origin("comparison", {}))
    """The file it was read from."""

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        if len({name.casefold() for name in self.variants}) < len(self.variants):
            raise ValueError(
                "variants: two names differ in case alone, which some file systems cannot tell apart; rename one"
            )
        return self

    def overrides(self, variant: str, seed: int, given: Iterable[str] = ()) -> list[str]:
        """What --set of the train command is given for one training: `given`, the budget, the seed, the variant.

        What a later one would undo is left out.
        """
        sets: dict[Keys, str] = {}
        for override in [*self._shared(seed, given), *_sets(self.variants[variant])]:
            keys = tuple(part.strip() for part in override.partition("=")[0].split("."))
            while undone := undone_by(keys, sets):
                del sets[undone]
            sets[keys] = override
        return list(sets.values())

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
            for keys in self._origin.lines
            if keys[:2] == above and len(keys) > 2
        }
        return validate(Config, document, Origin(self._place(above), {}, places))

    def _shared(self, seed: int, given: Iterable[str]) -> list[str]:
        budget = {} if self.minutes is None else {"training.max_minutes": self.minutes}
        return [*given, *_sets({**budget, "seed": seed})]

    def _place(self, keys: Keys) -> str:
        """File, line and dotted key, for an error message."""
        return f"{self._origin.of(keys)}: {printable('.'.join(keys), SHOWN)}"

    def only(self, names: Iterable[str]) -> "Comparison":
        """The comparison of the named variants alone, in its own order.

        Raises:
            UserError: there is no variant of that name.
        """
        names = set(names)
        for name in sorted(names - self.variants.keys()):
            close = difflib.get_close_matches(name, self.variants, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(self.variants)}"
            raise UserError(f"--only {printable(name, SHOWN)}: no such variant; {hint}")
        return self.model_copy(update={"variants": {k: v for k, v in self.variants.items() if k in names}})


def _sets(keys: Mapping[str, Any]) -> list[str]:
    return [f"{key}={flow(value)}" for key, value in keys.items()]


def _put(document: dict[str, Any], keys: list[str], value: Any) -> None:
    """Set a nested key; what stands in its way makes room, for validation to refuse."""
    for key in keys[:-1]:
        if not isinstance(document.get(key), dict):
            document[key] = {}
        document = document[key]
    document[keys[-1]] = value


def load_comparison(path: str | Path) -> Comparison:
    """Read the YAML of a comparison; `base` of what comes back is relative to the current folder.

    Raises:
        UserError: the file or its base cannot be read, the file not parsed, or a key or value is not acceptable.
    """
    document, lines = parse_mapping(read_yaml(path), str(path))
    origin = Origin(printable(str(path)), lines)
    comparison = validate(Comparison, document, origin)
    base = os.path.normpath(Path(path).parent / comparison.base)
    comparison = comparison.model_copy(update={"base": base})
    comparison._origin = origin
    try:
        read_yaml(base)
    except UserError as error:
        raise UserError(f"{comparison._place(('base',))}: {error}") from None
    return comparison
