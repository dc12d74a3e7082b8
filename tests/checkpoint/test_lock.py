"""Two trainings never share a run directory; one that died leaves no lock behind."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from seq2seq.checkpoint.lock import locked
from seq2seq.errors import UserError
from tests.helpers import ROOT

HOLD = "import sys, time\nfrom pathlib import Path\nfrom seq2seq.checkpoint.lock import locked\n"
HOLD += "with locked(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(600)\n"


def test_a_second_holder_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    line = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with pytest.raises(UserError, match="another training is at work here"), locked(tmp_path):
            pytest.fail("two hold the lock")
        other.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
        other.wait()
    with locked(tmp_path):
        assert (tmp_path / ".lock").exists()
    with locked(tmp_path):
        pass
