"""A report names the processor and the device it was made on."""

import platform
from pathlib import Path

import pytest
import torch

from seq2seq.comparison import machine

INTEL = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R) CPU @ 2.00GHz\nprocessor\t: 1\n"


def test_on_linux_the_processor_is_named_by_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text(INTEL, encoding="utf-8")
    monkeypatch.setattr(machine, "_CPU_INFO", tmp_path / "cpuinfo")
    assert machine.processor_name() == "Intel(R) Xeon(R) CPU @ 2.00GHz"


@pytest.mark.parametrize(
    ("processor", "architecture", "name"),
    [("arm", "arm64", "arm"), ("", "aarch64", "aarch64"), ("", "", "unknown")],
)
@pytest.mark.parametrize("info", ["processor\t: 0\nmodel name\t:\n", None])
def test_without_a_model_it_is_named_as_the_platform_does(
    info: str | None, processor: str, architecture: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if info is not None:
        (tmp_path / "cpuinfo").write_text(info, encoding="utf-8")
    monkeypatch.setattr(machine, "_CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(platform, "processor", lambda: processor)
    monkeypatch.setattr(platform, "machine", lambda: architecture)
    assert machine.processor_name() == name


def test_a_gpu_is_named_with_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"NVIDIA number {device.index}")
    assert machine.device_name(torch.device("cuda:1")) == "cuda:1 (NVIDIA number 1)"
    assert machine.device_name(torch.device("cpu")) == "cpu"
