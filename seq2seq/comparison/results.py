"""Finished runs measured side by side: the same test sentences, tests against the first, figures by sentence length."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tqdm import tqdm

from seq2seq.checkpoint import RunDirectory
from seq2seq.comparison.machine import device_name, processor_name
from seq2seq.comparison.significance import Estimate, Significance, paired_bootstrap
from seq2seq.comparison.training_figures import TrainingFigures, training_figures
from seq2seq.config.differences import flat
from seq2seq.data.corpus import Pair
from seq2seq.data.files import read_lines, write_text
from seq2seq.errors import UserError
from seq2seq.evaluation.baselines import copy_baseline
from seq2seq.evaluation.scores import corpus_bleu
from seq2seq.inference.translator import Translator

BUCKETS = 5


@dataclass(frozen=True)
class Outcome(TrainingFigures):
    """One training, measured on its test set."""

    run: str
    """The run directory."""
    seed: int
    bleu: Estimate
    chrf: Estimate
    parameters: int
    bleu_by_length: list[float | None]
    """For each bucket; None where no sentence of this test set falls into it."""


@dataclass(frozen=True)
class Variant:
    """One row of the comparison: a configuration, trained once or with several seeds."""

    name: str
    settings: dict[str, Any]
    """Dotted keys that are not the same in all variants."""
    outcomes: list[Outcome]


@dataclass(frozen=True)
class Bucket:
    """Test sentences whose source has from `shortest` to `longest` characters."""

    shortest: int
    longest: int
    sentences: int
    """In the test set of the first training."""


@dataclass(frozen=True)
class CopyBaseline:
    """Each test source given the target of the training pair with the nearest source."""

    bleu: Estimate
    chrf: Estimate


@dataclass(frozen=True)
class ComparisonReport:
    """All variants side by side; outcome i of each was measured on the same sentences."""

    name: str
    variants: list[Variant]
    copy: list[CopyBaseline] | None
    """One for each outcome of the first variant; None where its training text is not here any more."""
    buckets: list[Bucket]
    sentences: int
    """In the test set of the first training."""
    one_test_set: bool
    """Whether it is the same for all seeds."""
    one_training_text: bool
    """Whether, seed for seed, all variants learned from the same text in the same tokens."""
    signatures: dict[str, str]
    """sacreBLEU's, by metric."""
    beams: list[int]
    """search.beam of the variants, each once."""
    threads: list[int | None]
    """The setting of the variants, each once; None: each core of the machine."""
    devices: list[str]
    """The setting of the variants, each once."""
    device: str
    """That made the report."""
    processor: str
    """That made the report."""
    torch: str
    """Version that made the report."""

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self)


class _Translated(NamedTuple):
    translations: list[str]
    parameters: int


def compare_runs(
    name: str, rows: Mapping[str, Sequence[RunDirectory]], kept: Path, device: torch.device
) -> ComparisonReport:
    """Translate the test set of each run, once, and put all figures side by side.

    Args:
        name: of the comparison.
        rows: variant -> its runs, as many for each; run i of every variant is compared with run i of the first.
        kept: folder that keeps the translations, VARIANT-sSEED.txt (see `file_name`) in the order of test.tsv.
        device: where to translate.

    Raises:
        UserError: a run is not finished or damaged, or run i of two variants has not the same test set.
    """
    tests = _common_tests(rows)
    trainings = {variant: [training_figures(run) for run in runs] for variant, runs in rows.items()}
    translated = _translate_all(rows, kept, device)
    first = next(iter(rows.values()))
    language = first[0].config().data.target_language
    copies = [_copied(run, pairs) for run, pairs in zip(first, tests, strict=True)]
    significance: list[Significance] = []
    for index, (pairs, copied) in enumerate(zip(tests, copies, strict=True)):
        systems = [each[index].translations for each in translated.values()]
        references = [pair.target for pair in pairs]
        significance.append(paired_bootstrap([*systems, *([copied] if copied else [])], references, language))
    longest = length_limits([pair.source for pair in tests[0]])
    settings = differences({variant: flat(runs[0].config().model_dump(mode="json")) for variant, runs in rows.items()})
    configs = [runs[0].config() for runs in rows.values()]
    return ComparisonReport(
        name=name,
        variants=[
            Variant(
                variant,
                settings[variant],
                [
                    Outcome(
                        run=str(run.path),
                        seed=run.config().seed,
                        bleu=significance[index].bleu[row],
                        chrf=significance[index].chrf[row],
                        parameters=translated[variant][index].parameters,
                        **vars(trainings[variant][index]),
                        bleu_by_length=_bleu_by_length(
                            translated[variant][index].translations, tests[index], longest, language
                        ),
                    )
                    for index, run in enumerate(runs)
                ],
            )
            for row, (variant, runs) in enumerate(rows.items())
        ],
        copy=[CopyBaseline(each.bleu[-1], each.chrf[-1]) for each in significance] if all(copies) else None,
        buckets=_buckets([pair.source for pair in tests[0]], longest),
        sentences=len(tests[0]),
        one_test_set=all(test == tests[0] for test in tests),
        one_training_text=all(
            run.info().get("prepared") == other.info().get("prepared")
            for runs in rows.values()
            for run, other in zip(runs, first, strict=True)
        ),
        signatures=significance[0].signatures,
        beams=sorted({config.search.beam for config in configs}),
        threads=sorted({config.threads for config in configs}, key=lambda threads: threads or 0),
        devices=sorted({config.device for config in configs}),
        device=device_name(device),
        processor=processor_name(),
        torch=torch.__version__,
    )


def length_limits(sources: Sequence[str], count: int = BUCKETS) -> list[int]:
    """The longest source, in characters, of each of about `count` equal buckets; fewer where many are equally long."""
    lengths = [len(source) for source in sources]
    shares = np.arange(1, count + 1) / count
    return sorted({int(limit) for limit in np.quantile(lengths, shares, method="inverted_cdf")})


def in_buckets(sources: Sequence[str], limits: Sequence[int]) -> list[list[int]]:
    """The places of the sources of each bucket; one longer than the last limit belongs to the last bucket."""
    bucket = np.searchsorted(limits[:-1], [len(source) for source in sources], side="left")
    return [np.flatnonzero(bucket == index).tolist() for index in range(len(limits))]


def differences(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of flat settings by variant, the keys on which they do not agree."""
    keys = dict.fromkeys(key for each in settings.values() for key in each)
    missing = object()
    first = next(iter(settings.values()))
    differing = [k for k in keys if any(each.get(k, missing) != first.get(k, missing) for each in settings.values())]
    return {name: {key: each[key] for key in differing if key in each} for name, each in settings.items()}


def file_name(text: str) -> str:
    """A name for a file, of 100 bytes at most: the text where it is one already, else its letters and a hash of it."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", text):
        return text
    kept = re.sub(r"[^\w.-]+", "-", text).strip("-.").encode()[:80].decode(errors="ignore")
    return f"{kept}-{hashlib.sha256(text.encode()).hexdigest()[:12]}".lstrip("-")


def _common_tests(rows: Mapping[str, Sequence[RunDirectory]]) -> list[list[Pair]]:
    """The test set of each seed."""
    for run in (run for runs in rows.values() for run in runs):
        if run.info().get("status") != "finished":
            raise UserError(f"{run.path}: training is not finished; go on with seq2seq.train ... --resume")
    first = next(iter(rows.values()))
    tests = [run.pairs("test") for run in first]
    for runs in rows.values():
        for run, reference, pairs in zip(runs, first, tests, strict=True):
            if run.pairs("test") != pairs:
                raise UserError(
                    f"{run.path}: its test set is not that of {reference.path}, so their figures cannot be compared; "
                    f"train on the same data.* and seed, or set data.test"
                )
    return tests


def _translate_all(
    rows: Mapping[str, Sequence[RunDirectory]], kept: Path, device: torch.device
) -> dict[str, list[_Translated]]:
    translated: dict[str, list[_Translated]] = {}
    with tqdm(total=sum(map(len, rows.values())), unit="run", dynamic_ncols=True) as bar:
        for variant, runs in rows.items():
            translated[variant] = []
            for run in runs:
                bar.set_description(f"translating test with {variant}")
                path = kept / f"{file_name(variant)}-s{run.config().seed}.txt"
                translated[variant].append(_translate(run, path, device))
                bar.update()
    return translated


def _translate(run: RunDirectory, path: Path, device: torch.device) -> _Translated:
    """The test set as the run translates it, from `path` where model, test set and search are still the same."""
    notes = path.with_name(f"{path.name}.json")
    made_from = {
        "model": _digest(run.path / "best.safetensors"),
        "test": _digest(run.path / "test.tsv"),
        "search": run.config().search.model_dump(),
    }
    try:
        known = json.loads(notes.read_text(encoding="utf-8"))
        if known["made_from"] == made_from and known["translations"] == _digest(path):
            return _Translated([line for _, line in read_lines(path)], known["parameters"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # nothing kept, or damaged: translate
    translator = Translator.load(run.path, device)
    translations = [each.text for each in translator.translate([pair.source for pair in run.pairs("test")])]
    parameters = sum(parameter.numel() for parameter in translator.model.parameters())
    write_text(path, "".join(f"{text}\n" for text in translations))
    content = {"made_from": made_from, "translations": _digest(path), "parameters": parameters}
    write_text(notes, json.dumps(content, indent=1) + "\n")
    return _Translated(translations, parameters)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _copied(run: RunDirectory, pairs: Sequence[Pair]) -> list[str] | None:
    prepared = run.prepared()
    return None if prepared is None else copy_baseline(prepared.pairs("train"), [pair.source for pair in pairs])


def _buckets(sources: Sequence[str], limits: Sequence[int]) -> list[Bucket]:
    shortest = [min(map(len, sources)), *(limit + 1 for limit in limits)]
    return [
        Bucket(start, end, len(places))
        for start, end, places in zip(shortest, limits, in_buckets(sources, limits), strict=False)
    ]


def _bleu_by_length(
    translations: Sequence[str], pairs: Sequence[Pair], limits: Sequence[int], language: str
) -> list[float | None]:
    found = []
    for places in in_buckets([pair.source for pair in pairs], limits):
        hypotheses, references = [translations[i] for i in places], [pairs[i].target for i in places]
        found.append(corpus_bleu(hypotheses, references, language) if places else None)
    return found
