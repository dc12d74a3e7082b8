"""What several tests call."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def command(module: str, *arguments: object, cwd: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run `python -m seq2seq.MODULE ARGUMENTS` in a folder, as a user would."""
    kept = {key: value for key, value in os.environ.items() if key != "SEQ2SEQ_MODEL"}
    environment = {**kept, "PYTHONPATH": str(ROOT), **more.pop("env", {})}
    line = [sys.executable, "-m", f"seq2seq.{module}", *map(str, arguments)]
    return subprocess.run(line, cwd=cwd, env=environment, capture_output=True, encoding="utf-8", timeout=300, **more)
