"""Devices are found in the documented order, and one that is not there is said in one line."""

import pytest
import torch

from seq2seq.devices import choose_device, use_threads
from seq2seq.errors import UserError


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")]
)
def test_auto_is_cuda_else_mps_else_cpu(cuda: bool, mps: bool, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert choose_device("auto").type == expected


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps", "abacus"])
def test_a_device_that_is_not_there_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(UserError, match=f"device {name}: "):
        choose_device(name)


def test_threads_are_as_many_as_asked_for() -> None:
    before = torch.get_num_threads()
    use_threads(1)
    assert torch.get_num_threads() == 1
    use_threads(None)
    assert torch.get_num_threads() >= 1
    torch.set_num_threads(before)
