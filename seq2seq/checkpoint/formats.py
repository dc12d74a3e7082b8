"""The format of run directories, and how those of older programs are read."""

import re
from collections.abc import Mapping

from torch import Tensor

FORMAT = 3
"""3: checksums. 2: further kinds of attention, one module for each recurrent layer. 1: the first."""
CHECKED = 3
"""The first format whose files carry checksums."""

# Format 1 kept all layers in one module, and the attention's parameters beside its score.
_RENAMED = (
    (re.compile(r"(\brecurrent\.layers)\.((?:weight|bias)_[ih]h)_l(\d+)"), r"\1.\3.\2_l0"),
    (re.compile(r"(\bdecoder\.attention)\.(?!score\.)"), r"\1.score."),
)


def renamed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of format 1 under the names they have now; what has these names already keeps them."""
    found = {}
    for name, tensor in tensors.items():
        for pattern, replacement in _RENAMED:
            name = pattern.sub(replacement, name)
        found[name] = tensor
    return found
