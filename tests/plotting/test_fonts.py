"""Each character of a picture has a glyph, or the user is told what to install."""

import logging
import warnings
from pathlib import Path

import pytest
from matplotlib import font_manager

from seq2seq.errors import UserError
from seq2seq.plotting.fonts import drawable, families_for, without_font_warnings
from seq2seq.plotting.heatmap import draw_attention
from tests.plotting.conftest import BUNDLED, Machine


def test_latin_text_needs_only_what_matplotlib_brings(machine: Machine) -> None:
    assert families_for("Hello, Zoë → нет ␣") == [BUNDLED]
    assert families_for("") == [BUNDLED]


def test_without_a_chinese_font_the_error_names_the_characters_and_the_packages(machine: Machine) -> None:
    with pytest.raises(UserError) as caught:
        families_for("I 我爱 you")
    message = str(caught.value)
    assert "\n" not in message
    for part in ("我", "爱", "fonts-noto-cjk", "fonts-wqy-microhei", "macOS", "Windows", ".html"):
        assert part in message
    assert "you" not in message


def test_of_many_missing_characters_the_error_shows_some(machine: Machine) -> None:
    with pytest.raises(UserError) as caught:
        families_for("".join(map(chr, range(0x4E00, 0x5E00))))
    assert len(str(caught.value)) < 300


def test_what_is_missing_of_another_script_is_not_called_chinese(machine: Machine) -> None:
    with pytest.raises(UserError, match=r"apt install fonts-noto;"):
        families_for("ไทย")


def test_a_font_must_have_the_very_characters_of_the_text(machine: Machine) -> None:
    machine.install(machine.make(("Part Han", "我爱")))
    assert families_for("我爱 you") == [BUNDLED, "Part Han"]
    with pytest.raises(UserError, match="has 你:"):
        families_for("我爱你")


def test_several_fonts_complete_each_other(machine: Machine) -> None:
    machine.install(machine.make(("Part Han", "我爱")))
    machine.install(machine.make(("Other Han", "你爱")))
    assert set(families_for("我爱你")) == {"Part Han", "Other Han"}


@pytest.mark.skipif(not hasattr(font_manager.FontEntry, "index"), reason="needs matplotlib 3.11: faces of a collection")
def test_each_face_of_a_collection_is_looked_at_on_its_own(machine: Machine) -> None:
    machine.install(machine.make(("First Face", "一"), ("Second Face", "二")))
    assert families_for("一") == ["First Face"]
    assert families_for("二") == ["Second Face"]
    assert families_for("一二") == ["First Face", "Second Face"]


def test_a_font_installed_after_matplotlib_made_its_list_is_found(machine: Machine) -> None:
    damaged = machine.folder / "damaged.ttf"
    damaged.write_bytes(b"no font")
    machine.on_disk(damaged, machine.make(("New Han", "我")))
    assert families_for("我") == ["New Han"]


def test_a_font_that_has_a_box_for_everything_does_not_count(machine: Machine) -> None:
    machine.install(machine.make((".LastResort", "我")))
    with pytest.raises(UserError, match="has 我:"):
        families_for("我")


def test_characters_without_a_picture_need_no_glyph(machine: Machine) -> None:
    assert families_for("a\u200d\ufe0f b") == [BUNDLED]
    assert drawable("a\u200d\ufe0f b") == "a b"


def test_the_warnings_of_matplotlib_are_only_kept_back_for_a_while() -> None:
    log = logging.getLogger("matplotlib.font_manager")
    before = log.level
    with without_font_warnings():
        assert not log.isEnabledFor(logging.WARNING)
    assert log.level == before


def test_what_families_for_finds_is_what_matplotlib_draws_with(machine: Machine, tmp_path: Path) -> None:
    machine.install(machine.make(("Part Han", "我爱")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns of a missing glyph
        draw_attention(tmp_path / "a.png", ["我", "爱"], ["I", "love"], [[1, 0], [0, 1]])


def test_nothing_is_left_of_a_picture_that_cannot_be_drawn(machine: Machine, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with pytest.raises(UserError, match="no font on this machine"):
        draw_attention(folder / "a.png", ["我"], ["I"], [[1]])
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_chinese_is_drawn_with_a_real_font_of_this_machine(suffix: str, tmp_path: Path) -> None:
    try:
        families_for("谢谢，你好。")
    except UserError:
        pytest.skip("needs a Chinese font, such as that of fonts-wqy-microhei")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_attention(tmp_path / f"a.{suffix}", ["谢谢", "，", "你好", "。"], ["▁Thank", "s"], [[0.25] * 4] * 2)
