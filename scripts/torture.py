"""Kill a real training at random moments, many times, and compare its end with that of one that was left alone.

    python scripts/torture.py [--kills 50] [--steps 1200] [--seed 1] [--keep DIR]

Both train the embedded corpus with all that draws random numbers or counts: accumulation, scheduled sampling, dropout,
word dropout, subword sampling, averaging, patience. A killed training gets SIGKILL, SIGTERM, SIGINT, or two SIGINT
within a moment, anywhere from its first import to its last report; the next one goes on with --resume. In the end
weights, optimizer, averages, random state, counters, order of the data and metrics must be equal bit by bit, but for
times. Exit status 1 if they are not.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tqdm import tqdm

from seq2seq.checkpoint.tensors import read_tensors
from seq2seq.errors import UserError

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = """
tokenizer:
  source: {{vocabulary_size: 1000, sampling_alpha: 0.3}}
  target: {{vocabulary_size: 800, sampling_alpha: 0.3}}
encoder: {{embedding_size: 32, hidden_size: 32, word_dropout: 0.1}}
decoder: {{embedding_size: 32, hidden_size: 64, word_dropout: 0.1}}
teacher_forcing: {{ratio: 0.8}}
training: {{max_steps: {steps}, batch_tokens: 400, accumulate: 2, validate_every: 150, validate_sentences: 50,
  patience: 1000, average_decay: 0.99, checkpoint_steps: 40, checkpoint_minutes: 0.02, schedule: plateau}}
device: cpu
threads: 1
"""
TIMES = {"seconds", "validation_seconds", "last_validation_seconds", "minutes", "tokens_per_second"}
WAYS = {"SIGKILL": 6, "SIGTERM": 2, "SIGINT": 2, "SIGINT twice": 2}
"""Ways to end a training, and how often each in twelve."""


def main() -> int:
    """Run both, print what was done and what differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--kills", type=int, default=50, help="how many times the training is ended (default: 50)")
    parser.add_argument("--steps", type=int, default=1200, help="updates of a training (default: 1200)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments and ways (default: 1)")
    parser.add_argument("--keep", metavar="DIR", help="work in this folder and leave it (default: a temporary one)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(given.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "torture.yaml").write_text(SETTINGS.format(steps=given.steps), encoding="utf-8")
        begun = time.monotonic()
        finish(folder, "whole", resume=False)
        seconds = time.monotonic() - begun
        print(f"left alone: {given.steps:,} updates, {seconds:.0f} s")
        counts, sessions = torture(folder, given.kills, random.Random(given.seed), seconds)
        print(f"killed: {sum(counts.values())} times ({', '.join(f'{n} {way}' for way, n in sorted(counts.items()))})")
        print(f"moments: {', '.join(f'{n} {moment}' for moment, n in sorted(sessions.items()))}")
        whole, broken = (outcome(folder / name) for name in ("whole", "broken"))
        different = sorted(key for key in whole.keys() | broken.keys() if whole.get(key) != broken.get(key))
        print(f"compared: {len(whole)} tensors, counters and lines; different: {len(different)}")
        for key in different[:20]:
            print(f"  {key}")
        return int(bool(different))


def command(run: str, resume: bool) -> list[str]:
    """The training, as a user types it."""
    line = [sys.executable, "-m", "seq2seq.train", "torture.yaml", "--run", run]
    return [*line, "--resume"] if resume else line


def finish(folder: Path, run: str, resume: bool) -> None:
    """Train to the end."""
    done = subprocess.run(command(run, resume), cwd=folder, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise SystemExit(f"{run}: exit status {done.returncode}: {done.stderr[-2000:]}")


def torture(folder: Path, kills: int, draws: random.Random, seconds: float) -> tuple[Counter[str], Counter[str]]:
    """End the training that many times, then let it finish; how it was ended, and when."""
    ways, moments = Counter[str](), Counter[str]()
    run = folder / "broken"
    for _ in tqdm(range(kills), desc="kills"):
        resume = (run / "run.json").exists()
        if resume and json.loads((run / "run.json").read_text("utf-8"))["status"] == "finished":
            raise SystemExit(f"finished after {sum(ways.values())} kills; give more --steps")
        before = step_of(run)
        process = subprocess.Popen(
            command("broken", resume), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8"
        )
        # Mostly after the imports, and early enough that the run lasts for all kills.
        wait(process, draws.uniform(0.0, 4.0 + 1.6 * seconds / kills))
        way = draws.choices(list(WAYS), list(WAYS.values()))[0]
        process.send_signal(signal.SIGINT if way == "SIGINT twice" else getattr(signal, way))
        if way == "SIGINT twice":
            wait(process, draws.uniform(0.0, 0.05))
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
        if process.returncode not in (-9, -15, -2, 0, 130, 143):
            raise SystemExit(f"exit status {process.returncode} after {way}: {errors[-2000:]}")
        ways[way] += 1
        moments["after a new checkpoint" if step_of(run) > before else "before one"] += 1
    finish(folder, "broken", resume=(run / "run.json").exists())
    return ways, moments


def wait(process: "subprocess.Popen[str]", seconds: float) -> None:
    """Let a process run for that long, or to its end."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def step_of(run: Path) -> int:
    """The update of the last checkpoint; 0 where there is none, or none that can be read."""
    try:
        return int(json.loads(read_tensors(run / "last.safetensors")[1]["state"])["step"])
    except UserError:
        return 0


def outcome(run: Path) -> dict[str, object]:
    """All that must be equal."""
    found: dict[str, object] = {}
    for name in ("best", "last"):
        tensors, metadata = read_tensors(run / f"{name}.safetensors")
        found |= {f"{name} {key}": tensor.numpy().tobytes() for key, tensor in tensors.items()}
        state = json.loads(metadata.get("state", "{}"))
        found |= {f"{name} state {key}": value for key, value in state.items() if key not in TIMES}
    for number, line in enumerate((run / "metrics.jsonl").read_text("utf-8").splitlines(), start=1):
        found[f"metrics line {number}"] = {k: v for k, v in json.loads(line).items() if k not in TIMES}
    found["report"] = (run / "report.json").read_text("utf-8")
    return found


if __name__ == "__main__":
    sys.exit(main())
