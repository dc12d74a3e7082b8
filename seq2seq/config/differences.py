"""Where two configurations differ."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from seq2seq.config.schema import Config
from seq2seq.config.yaml_text import flow


class Difference(NamedTuple):
    """A dotted key and its values, as YAML in one line."""

    key: str
    before: str
    after: str


def differences(before: Config, after: Config) -> Iterator[Difference]:
    """Keys whose values differ, in the order of the schema."""
    old, new = (flat(each.model_dump(mode="json")) for each in (before, after))
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) != new.get(key):
            yield Difference(key, flow(old.get(key)), flow(new.get(key)))


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by their dotted keys."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found
