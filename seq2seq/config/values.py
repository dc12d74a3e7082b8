"""The values that settings take: bounds no machine and no patience outlasts, and advice where bounds say too little."""

import re
import unicodedata
from collections.abc import Callable
from typing import Annotated

from pydantic import BeforeValidator, Field

MAX_SEED = 2**32 - 1

Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
"""Updates, validations, pairs, characters."""
Size = Annotated[int, Field(ge=1, le=65_536)]
"""Numbers in a vector, positions in a sentence."""
Layers = Annotated[int, Field(ge=1, le=64)]
Heads = Annotated[int, Field(ge=1, le=1024)]
HeadsOrNone = Annotated[int, Field(ge=0, le=1024)]
Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Weight = Annotated[float, Field(ge=0.0, le=1000.0)]
Temperature = Annotated[float, Field(ge=0.001, le=1000.0)]
"""Smaller ones overflow what they divide."""
Minutes = Annotated[float, Field(gt=0.0, le=525_600.0)]
"""Up to a year."""
Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]


def checked(holds: Callable[[object], bool], advice: str) -> BeforeValidator:
    """Refuse with the advice what is given where it does not hold."""

    def check(value: object) -> object:
        if not holds(value):
            raise ValueError(advice)
        return value

    return BeforeValidator(check)


def matching(pattern: str, advice: str) -> BeforeValidator:
    """Refuse with the advice all but text of this pattern."""
    return checked(lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None, advice)


def has_text(value: object) -> bool:
    """Whether this is text with something to see in it: neither blanks nor control or format characters alone."""
    return isinstance(value, str) and any(unicodedata.category(character)[0] not in "CZ" for character in value)


def is_path(value: object) -> bool:
    """Whether this can name a file: text to see, without control characters, which no message shows as they are."""
    return has_text(value) and not any(unicodedata.category(character) in ("Cc", "Cs") for character in str(value))


Language = Annotated[str, matching(r"[a-z]{2,3}(-[A-Za-z]{1,8})?", "use an ISO 639 code such as zh or en")]
Device = Annotated[str, matching(r"auto|cpu|mps|cuda(:[0-9]{1,3})?", "use auto, cpu, cuda, cuda:N or mps")]
FileName = Annotated[str, checked(is_path, "name a file")]
