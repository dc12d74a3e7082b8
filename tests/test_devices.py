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


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "cuda:9", "mps"])
def test_a_device_that_is_not_there_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(UserError, match=f"device {name}: this machine has none; use device: auto"):
        choose_device(name)


@pytest.mark.parametrize(("name", "index"), [("cuda", None), ("cuda:0", 0), ("cuda:1", 1)])
def test_one_of_several_devices_is_chosen_by_its_number(name: str, index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device(name).index == index


# torch.device itself reads 256 as 0, 257 as 1 and 128 as -128.
@pytest.mark.parametrize("name", ["cuda:2", "cuda:128", "cuda:256", "cuda:257"])
def test_a_number_above_those_there_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UserError, match=f"device {name}: this machine has none"):
        choose_device(name)


@pytest.mark.parametrize(
    "name", ["abacus", "", "cpu:1", "mps:1", "meta", "cuda:", "cuda:-1", "cuda:1000", "cuda:٣", "a\nb"]
)
def test_a_name_of_no_device_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(UserError) as caught:
        choose_device(name)
    assert str(caught.value) == f"device {repr(name)[1:-1]}: unknown; use auto, cpu, cuda, cuda:N or mps"


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
