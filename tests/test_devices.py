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


@pytest.fixture
def set_threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every number of threads that torch is told to use."""
    told: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(7)), raising=False)
    return told


def test_threads_are_as_many_as_asked_for(set_threads: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    for given in ("", "5"):
        monkeypatch.setenv("OMP_NUM_THREADS", given)
        use_threads(3)
    assert set_threads == [3, 3]


@pytest.mark.parametrize("given", ["1", " 4 ", "2,1", "012"])
def test_threads_that_the_environment_gives_are_left_alone(
    given: str, set_threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    use_threads(None)
    assert set_threads == []


@pytest.mark.parametrize("given", [None, "", "0", "-1", "many", "1.5", ",2"])
def test_without_a_number_in_the_environment_there_is_a_thread_for_each_core(
    given: str | None, set_threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if given is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    use_threads(None)
    assert set_threads == [7]
