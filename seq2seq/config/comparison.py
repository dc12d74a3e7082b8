"""A comparison: variants of one base configuration, and the budget and seeds they share."""

import difflib
import json
import os.path
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from seq2seq.config.loading import load_config, parse_mapping, read_yaml, validate
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


Seeds = list[Annotated[int, Field(ge=0, lt=2**32)]]


def _name(text: str) -> str:
    # It becomes the name of files.
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", text):
        raise ValueError("a variant's name is letters, digits, - _ and . after a letter or digit")
    return text


def _may_differ(key: str) -> str:
    for shared in SHARED:
        if f"{key}.".startswith(f"{shared}.") or shared.startswith(f"{key}."):
            raise ValueError(f"{shared} is the same for all variants; set it in the base configuration")
    return key


def _distinct(seeds: list[int]) -> list[int]:
    if len(set(seeds)) < len(seeds):
        raise ValueError("a seed stands twice")
    return seeds


class Comparison(Section):
    """Trainings that differ in a few keys, on the same text and under the same budget."""

    base: str
    """Path of the configuration that all variants start from, relative to this file."""
    minutes: Annotated[float, Field(gt=0.0)] | None = None
    """training.max_minutes of each training; null: the budget of the base."""
    seeds: Annotated[Seeds, Field(min_length=1), AfterValidator(_distinct)] = Field(default=[1])
    """Each variant is trained once with each seed."""
    sentence: str | None = None
    """Source sentence of the attention maps; null: the first test sentence of median length."""
    variants: Annotated[
        dict[Annotated[str, AfterValidator(_name)], dict[Annotated[str, AfterValidator(_may_differ)], Any]],
        Field(min_length=1),
    ]
    """Name -> dotted keys with values that make the base this variant; the others are tested against the first."""

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        if len({name.casefold() for name in self.variants}) < len(self.variants):
            raise ValueError("variants: two names differ in case alone, which some file systems cannot tell apart")
        return self

    def overrides(self, variant: str, seed: int, given: Iterable[str] = ()) -> list[str]:
        """What --set of the train command is given for one training: `given`, the budget, the seed, the variant."""
        budget = {} if self.minutes is None else {"training.max_minutes": self.minutes}
        keys = {**budget, "seed": seed, **self.variants[variant]}
        # JSON is YAML in one line.
        return [*given, *(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in keys.items())]

    def config(self, variant: str, seed: int, given: Iterable[str] = ()) -> Config:
        """The whole configuration of one training.

        Raises:
            UserError: the base cannot be read, or does not take the keys and values of the variant.
        """
        try:
            return load_config(self.base, self.overrides(variant, seed, given))
        except UserError as error:
            raise UserError(f"variant {variant}: {error}") from None

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


def load_comparison(path: str | Path) -> Comparison:
    """Read the YAML of a comparison; `base` of what comes back is relative to the current folder.

    Raises:
        UserError: the file cannot be read or parsed, or a key or value is not acceptable.
    """
    comparison = validate(Comparison, *parse_mapping(read_yaml(path), str(path)), str(path))
    return comparison.model_copy(update={"base": os.path.normpath(Path(path).parent / comparison.base)})
