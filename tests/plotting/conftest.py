"""Machines with other fonts than this one, and a picture to look at."""

from pathlib import Path

import pytest
from fontTools.fontBuilder import FontBuilder  # type: ignore[import-untyped]
from fontTools.pens.ttGlyphPen import TTGlyphPen  # type: ignore[import-untyped]
from fontTools.ttLib import TTCollection  # type: ignore[import-untyped]
from matplotlib import font_manager

BUNDLED = "DejaVu Sans"


class Machine:
    """What matplotlib knows of the fonts of a machine, at first only what it brings itself."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._bundled = [entry for entry in font_manager.fontManager.ttflist if "mpl-data" in entry.fname]
        self._patch = monkeypatch
        self.forget()

    def forget(self) -> None:
        """Only the fonts that matplotlib brings, and none on the disk."""
        self._patch.setattr(font_manager.fontManager, "ttflist", list(self._bundled))
        self.on_disk()

    def install(self, path: Path) -> None:
        """A font that was there when matplotlib made its list."""
        font_manager.fontManager.addfont(path)

    def on_disk(self, *paths: Path) -> None:
        """All that a search of the disk finds."""
        self._patch.setattr(font_manager, "findSystemFonts", lambda: list(map(str, paths)))

    def make(self, *faces: tuple[str, str]) -> Path:
        """A font file with a square for each character: (family, characters); of several faces a collection."""
        made = [_font(family, characters) for family, characters in faces]
        path = self.folder / f"{faces[0][0]}.{'ttf' if len(made) == 1 else 'ttc'}"
        if len(made) == 1:
            made[0].save(path)
        else:
            collection = TTCollection()
            collection.fonts = made
            collection.save(path)
        return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine without a font for Chinese."""
    folder = tmp_path / "fonts"
    folder.mkdir()
    return Machine(folder, monkeypatch)


def _font(family: str, characters: str):
    pen = TTGlyphPen(None)
    pen.moveTo((100, 0))
    for corner in ((100, 700), (800, 700), (800, 0)):
        pen.lineTo(corner)
    pen.closePath()
    square, names = pen.glyph(), [".notdef", *(f"uni{ord(each):04X}" for each in characters)]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(each): f"uni{ord(each):04X}" for each in characters})
    builder.setupGlyf(dict.fromkeys(names, square))
    builder.setupHorizontalMetrics(dict.fromkeys(names, (1000, 100)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": family, "styleName": "Regular"})
    builder.setupOS2(usWeightClass=400)
    builder.setupPost()
    return builder.font
