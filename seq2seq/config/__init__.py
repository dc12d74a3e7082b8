"""Configuration: `schema` says what there is, `loading` reads it."""

from seq2seq.config.loading import dump_config, load_config, parse_config
from seq2seq.config.schema import Config

__all__ = ["Config", "dump_config", "load_config", "parse_config"]
