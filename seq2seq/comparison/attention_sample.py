"""One sentence as each variant of a comparison translates it, with its attention maps."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from seq2seq.checkpoint import RunDirectory
from seq2seq.comparison.results import file_name
from seq2seq.errors import UserError
from seq2seq.inference.translator import Translator
from seq2seq.plotting.heatmap import draw_attention

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AttentionSample:
    """One sentence as the first training of each variant translates it."""

    source: str
    reference: str | None
    """None for a sentence that is not of the test set."""
    translations: dict[str, str]
    """By variant."""
    maps: dict[str, str]
    """Variant -> file of the attention map, relative to the report."""
    alike: list[str]
    """Variants with attention.kind: none, which weigh all positions alike, so that a map would show nothing."""
    left_out: str | None
    """Why maps are missing."""


def attention_sample(
    rows: Mapping[str, Sequence[RunDirectory]], output: Path, sentence: str | None, device: torch.device
) -> AttentionSample:
    """Translate a sentence with the first run of each variant and draw its attention as output/attention/VARIANT.png.

    Args:
        rows: variant -> its runs.
        output: folder of the report.
        sentence: None: the first test sentence of median length.
        device: where to translate.

    Raises:
        UserError: a run is damaged.
    """
    pairs = next(iter(rows.values()))[0].pairs("test")
    references = dict(reversed(pairs))
    if sentence is None:
        median = sorted(len(pair.source) for pair in pairs)[len(pairs) // 2]
        sentence = next(pair.source for pair in pairs if len(pair.source) == median)
    translations: dict[str, str] = {}
    maps: dict[str, str] = {}
    alike = [variant for variant, runs in rows.items() if runs[0].config().attention.kind == "none"]
    left_out = None
    for variant, runs in rows.items():
        (found,) = Translator.load(runs[0].path, device).translate([sentence], attention=True)
        translations[variant] = found.text
        if left_out is None and found.attention and variant not in alike:
            file = f"attention/{file_name(variant)}.png"
            try:
                draw_attention(output / file, found.source_tokens, found.target_tokens, found.attention, variant)
                maps[variant] = file
            except UserError as error:
                left_out = str(error)
                log.warning(f"the attention maps were left out: {left_out}")
    return AttentionSample(sentence, references.get(sentence), translations, maps, alike, left_out)
