"""What a report was made on."""

import platform
from pathlib import Path

import torch

_CPU_INFO = Path("/proc/cpuinfo")


def device_name(device: torch.device) -> str:
    """The device, a GPU with its model."""
    return f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else str(device)


def processor_name() -> str:
    """The processor's model as the system tells it, or else its architecture."""
    # On Linux `platform` knows the architecture at most.
    if _CPU_INFO.is_file():
        for line in _CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "unknown"
