"""Prepare corpora of growing size, and read an epoch of each: seconds, memory, cost of a token.

    python scripts/benchmark_preparation.py TSV [--pairs 25000 250000 1000000] [--set KEY=VALUE ...]

The corpora are the pairs of TSV over and over, all but the first time with noise: in each sentence two words change
places (two characters where it has no blanks) and a number is put in, so that pairs and sentences differ. Each is
prepared in one process and read in another one. It needs Linux or macOS. Columns:

    s, pairs/s    to prepare it
    cpu s         the same as processor time, of all processes
    MB            most resident memory: of the process that prepares + of the largest of those that help it
    found s       to find it again: digests of the text and of all that was prepared
    plan s        to open it and plan an epoch
    cold, warm    ns a token to make all batches of an epoch, in shuffled order, while nothing of the corpus is in the
                  system's cache, and once all of it is; padding does not count as tokens
    grown MB      most resident memory while planning and reading, less that before the corpus was opened
    padding       share of padding in batches of 1,000 tokens
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from seq2seq.config import Config, parse_config
from seq2seq.data.corpus import Pair, read_pairs
from seq2seq.data.prepare import prepare

SIZES = (25_000, 250_000, 1_000_000)
BATCH_TOKENS = 1000
# Of configs/tatoeba.yaml.
SETS = ("tokenizer.source.vocabulary_size=3000", "tokenizer.target.vocabulary_size=2500")
HEADER = (
    f"{'pairs':>10}{'s':>8}{'pairs/s':>9}{'cpu s':>8}{'MB':>11}{'found s':>9}{'plan s':>8}{'cold':>7}{'warm':>7}"
    f"{'grown MB':>10}{'padding':>9}"
)
_MEGABYTE = 1 << (20 if sys.platform == "darwin" else 10)
"""In the unit of ru_maxrss."""


def noisy(text: str, draws: random.Random) -> str:
    """The text with two of its words, or characters, in each other's place and a number among them."""
    blank = " " if " " in text else ""
    words = text.split() if blank else list(text)
    if words:
        one, other = draws.randrange(len(words)), draws.randrange(len(words))
        words[one], words[other] = words[other], words[one]
    words.insert(draws.randrange(len(words) + 1), str(draws.randrange(10_000)))
    return blank.join(words)


def corpus(pairs: list[Pair], count: int, seed: int = 1) -> Iterator[str]:
    """That many lines of the pairs over and over, with noise from the second time on."""
    draws = random.Random(seed)
    for number in range(count):
        source, target = pairs[number % len(pairs)]
        if number >= len(pairs):
            source, target = noisy(source, draws), noisy(target, draws)
        yield f"{source}\t{target}\n"


def configuration(text: Path, sets: list[str]) -> Config:
    """How the corpora are prepared."""
    return parse_config("", [f"data.train={text.as_posix()}", *SETS, *sets])


def peak(who: int = resource.RUSAGE_SELF) -> float:
    """Most resident memory so far in MB, of this process or of the largest of those it has started."""
    return resource.getrusage(who).ru_maxrss / _MEGABYTE


def measure_preparing(config: Config, folder: Path) -> dict[str, float]:
    """Prepare a corpus, and find it again."""
    begun = time.perf_counter()
    prepare(config, folder)
    made = time.perf_counter()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    found = {"own": peak(), "helper": peak(resource.RUSAGE_CHILDREN)}
    again = time.perf_counter()
    prepare(config, folder)
    found |= {"seconds": made - begun, "found": time.perf_counter() - again}
    return found | {"cpu": sum(each.ru_utime + each.ru_stime for each in used)}


def measure_reading(config: Config, folder: Path) -> dict[str, float]:
    """Plan an epoch of a corpus that is prepared, and read it twice, cold and warm."""
    from seq2seq.data.batching import Batches  # brings torch along, which preparing does without

    prepared = prepare(config, folder)
    for path in prepared.directory.iterdir():
        forget(path)
    before, begun = peak(), time.perf_counter()
    batches = Batches(prepared.store("train"), BATCH_TOKENS, config.seed)
    batches.plan(0)
    found = {"plan": time.perf_counter() - begun}
    tokens = int(batches.source_lengths.sum()) + int(batches.target_lengths.sum())
    for name in ("cold", "warm"):
        begun = time.perf_counter()
        for _ in batches.epoch(0):
            pass
        found[name] = (time.perf_counter() - begun) / tokens * 1e9
    return found | {"grown": peak() - before, "padding": batches.padding_share()}


def forget(path: Path) -> None:
    """Take a file out of the system's cache, where it can be told to."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


MEASURES = {"preparing": measure_preparing, "reading": measure_reading}


def in_a_process(measure: str, text: Path, folder: Path, sets: list[str]) -> dict[str, float]:
    """What a measure finds, taken in a process of its own."""
    line = [sys.executable, __file__, str(text), "--measure", measure, str(folder)]
    done = subprocess.run([*line, *(part for each in sets for part in ("--set", each))], stdout=subprocess.PIPE)
    if done.returncode:
        raise SystemExit(done.returncode)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def line_of(pairs: int, found: dict[str, float]) -> str:
    """A row of the table."""
    memory = f"{found['own']:.0f}+{found['helper']:.0f}"
    return (
        f"{pairs:>10,}{found['seconds']:>8.1f}{pairs / found['seconds']:>9,.0f}{found['cpu']:>8.1f}{memory:>11}"
        f"{found['found']:>9.2f}{found['plan']:>8.2f}{found['cold']:>7.0f}{found['warm']:>7.0f}"
        f"{found['grown']:>10.0f}{found['padding']:>9.1%}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("text", metavar="TSV", type=Path, help="source<TAB>target lines")
    sizes = " ".join(map(str, SIZES))
    parser.add_argument("--pairs", type=int, nargs="+", default=SIZES, help=f"sizes of the corpora (default: {sizes})")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of the configuration")
    parser.add_argument("--measure", nargs=2, metavar=("WHAT", "DIR"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        what, folder = given.measure
        print(json.dumps(MEASURES[what](configuration(given.text, given.set), Path(folder))))
        return
    pairs = list(read_pairs(str(given.text), "", ""))
    print(HEADER)
    for count in given.pairs:
        with tempfile.TemporaryDirectory() as temporary:
            text = Path(temporary) / "corpus.tsv"
            with text.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(tqdm(corpus(pairs, count), "noise", count, unit=" pairs", unit_scale=True, leave=False))
            found: dict[str, float] = {}
            for measure in MEASURES:
                found |= in_a_process(measure, text, Path(temporary), given.set)
        print(line_of(count, found), flush=True)


if __name__ == "__main__":
    main()
