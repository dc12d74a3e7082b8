"""It learns: reversing strings of digits needs every part, and a right model makes no mistake."""

from pathlib import Path

import pytest

from seq2seq import cli, load, train


@pytest.mark.parametrize("attend", ["after", "before"])
def test_it_learns_to_reverse_strings_of_digits_it_never_saw(attend: str, digits: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    sets = ["training.max_steps=700", "training.validate_every=350", f"decoder.attend={attend}"]
    arguments = [str(digits / "digits.yaml"), "--run", str(run), *(part for s in sets for part in ("--set", s))]
    assert cli.run(train.arguments(), train.main, arguments) == 0
    pairs = [line.split("\t") for line in (digits / "test.tsv").read_text(encoding="utf-8").splitlines()]
    translations = load(str(run)).translate([source for source, _ in pairs])
    right = sum(each.text == target for each, (_, target) in zip(translations, pairs, strict=True))
    assert right == len(pairs)
