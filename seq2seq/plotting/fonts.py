"""Fonts of this machine that have a glyph for every character of a text."""

import functools
import logging
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

from seq2seq.errors import UserError

# What matplotlib ships and draws Latin text with, then fonts made for Chinese on Linux, macOS and Windows.
_PREFERRED = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Noto Sans CJK JP",
    "Hiragino Sans GB",
    "STHeiti",
    "Microsoft YaHei",
    "SimHei",
    "Arial Unicode MS",
    "Droid Sans Fallback",
)
# They have an empty glyph or a box for every character.
_NO_REAL_GLYPHS = ("last resort", "lastresort", "adobe blank")
_SHOWN = 20


def drawable(text: str) -> str:
    """The text without characters that have no picture of their own: format characters and variation selectors."""
    return "".join(character for character in text if not _invisible(character))


@contextmanager
def without_font_warnings() -> Iterator[None]:
    """matplotlib keeps to itself that a font has no normal weight, which concerns nobody who has its glyphs."""
    log = logging.getLogger("matplotlib.font_manager")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def families_for(text: str) -> list[str]:
    """Names of font families, in the order in which matplotlib is to look for the glyphs of a text.

    Raises:
        UserError: no font of this machine has some character of the text.
    """
    missing = {ord(character) for character in text if not character.isspace() and not _invisible(character)}
    chosen: list[str] = []
    for family in _candidates():
        if missing & _coverage_of(family):
            chosen.append(family)
            missing -= _coverage_of(family)
        if not missing:
            return chosen or [_PREFERRED[0]]
    raise UserError(_advice("".join(map(chr, sorted(missing)))))


def _candidates() -> Iterator[str]:
    """Families, the preferred ones first, then what was installed after matplotlib made its list of fonts."""
    known = _known_families()
    yield from (family for family in _PREFERRED if family in known)
    yield from sorted(known.difference(_PREFERRED))
    _add_new_fonts()
    yield from sorted(_known_families() - known)


def _known_families() -> set[str]:
    from matplotlib.font_manager import fontManager

    families = {entry.name for entry in fontManager.ttflist}
    return {family for family in families if not family.lower().lstrip(".").startswith(_NO_REAL_GLYPHS)}


def _add_new_fonts() -> None:
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {entry.fname for entry in fontManager.ttflist}
    for path in findSystemFonts():
        if path not in known:
            try:
                fontManager.addfont(path)
            except Exception:  # whatever a damaged font makes FreeType or matplotlib raise
                continue


def _coverage_of(family: str) -> frozenset[int]:
    """Code points of the very face that matplotlib takes for a family."""
    from matplotlib.font_manager import FontProperties, findfont

    face = findfont(FontProperties(family=[family]), fallback_to_default=False)
    # Before 3.11 matplotlib reads only the first face of a collection.
    return _coverage(str(face), getattr(face, "face_index", 0))


@functools.lru_cache(maxsize=256)
def _coverage(path: str, face: int) -> frozenset[int]:
    from fontTools.ttLib import TTFont, TTLibError  # type: ignore[import-untyped]

    try:
        with TTFont(path, fontNumber=face, lazy=True) as font:
            return frozenset(font.getBestCmap() or {})
    except (OSError, TTLibError):
        return frozenset()


def _invisible(character: str) -> bool:
    code = ord(character)
    selector = 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF
    return selector or unicodedata.category(character) == "Cf"


def _advice(characters: str) -> str:
    chinese = any("CJK" in unicodedata.name(character, "") for character in characters)
    package = "fonts-noto-cjk or fonts-wqy-microhei" if chinese else "fonts-noto"
    shown = characters[:_SHOWN] + ("…" if len(characters) > _SHOWN else "")
    return (
        f"no font on this machine has {shown}: install one (Debian, Ubuntu: apt install {package}; macOS and Windows"
        f" bring fonts for most languages), or write .html, which needs none"
    )
