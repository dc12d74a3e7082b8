"""Sequence-to-sequence translation with an attention decoder.

>>> from seq2seq import load
>>> translator = load("runs/default-20260101-120000")
>>> translator.translate(["欢迎来北京"])[0].text

Importing this package is cheap: torch is imported when a name that needs it is first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2seq.inference.translator import Translation, Translator

__version__ = "0.1.0"
__all__ = ["Translation", "Translator", "__version__", "load"]


def load(run: str, device: str = "cpu") -> "Translator":
    """The best model of a run directory, as a Translator.

    Raises:
        UserError: the directory holds no run, or a damaged one.
    """
    from seq2seq.inference.translator import Translator

    return Translator.load(run, device)


def __getattr__(name: str) -> Any:
    if name in ("Translation", "Translator"):
        from seq2seq.inference import translator

        return getattr(translator, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
