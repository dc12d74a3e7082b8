"""Other toolkits get our sizes, our settings and our tokens, in an environment that is made once."""

import subprocess
import venv
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarking import peers
from benchmarking.pieces import write_pieces
from benchmarking.settings import training_config
from seq2seq.config import Config, load_config
from seq2seq.data.prepare import prepare
from seq2seq.data.tokenizer import UNK
from seq2seq.errors import UserError


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.tsv"
    path.write_text("a\tb\n", encoding="utf-8")
    return path


def config_of(text: Path, sizes: str, attend: str = "after") -> Config:
    return training_config(text, sizes, attend, batch_tokens=512, threads=2)


@pytest.mark.parametrize(("attend", "feeds"), [("after", False), ("before", True)])
def test_attend_before_meets_input_feeding(text: Path, attend: str, feeds: bool) -> None:
    config = config_of(text, "opennmt", attend)
    assert config.decoder.attend == attend
    assert peers.joeynmt(config, text.parent, 1)["model"]["decoder"]["input_feeding"] is feeds
    assert peers.opennmt(config, text.parent, 1)["input_feed"] == int(feeds)


def test_joeynmt_gets_our_sizes() -> None:
    model = peers.joeynmt(config_of(Path(__file__), "joeynmt"), Path("folder"), 1)["model"]
    assert (model["encoder"]["hidden_size"], model["decoder"]["hidden_size"]) == (512, 512)
    assert model["encoder"]["bidirectional"] is True
    assert [model[side]["embeddings"]["embedding_dim"] for side in ("encoder", "decoder")] == [256, 256]


def test_opennmt_counts_both_directions_of_the_encoder(text: Path) -> None:
    config = config_of(text, "opennmt")
    settings = peers.opennmt(config, text.parent, 321)
    assert (config.encoder.hidden_size, settings["enc_hid_size"], settings["dec_hid_size"]) == (256, 512, 512)
    assert (settings["batch_type"], settings["batch_size"], settings["bucket_size"]) == ("tokens", 512, 321)


def test_sizes_that_opennmt_cannot_have_are_refused(text: Path) -> None:
    with pytest.raises(UserError, match=r"encoder\.hidden_size: OpenNMT-py needs .* 512, not 1024"):
        peers.opennmt(config_of(text, "joeynmt"), text.parent, 1)


def test_a_folder_is_read_part_by_part(tmp_path: Path) -> None:
    assert training_config(tmp_path, "default", "after", 512, 1).data.dev == str(tmp_path / "dev.tsv")


def test_data_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.tsv: no such file"):
        config_of(tmp_path / "absent.tsv", "default")


def test_pieces_are_the_tokens_of_the_prepared_corpus(digits: Path, tmp_path: Path) -> None:
    # Of three source characters, the rest is unknown.
    config = load_config(digits / "digits.yaml", ["tokenizer.source.vocabulary_size=8"])
    prepared = prepare(config, tmp_path / "data")
    write_pieces(prepared, tmp_path)
    for side in ("source", "target"):
        vocabulary = (tmp_path / f"vocabulary.{side}").read_text(encoding="utf-8").splitlines()
        assert len(vocabulary) == prepared.tokenizer(side).size - 4
        ids = {"<unk>": UNK, **{piece: id for id, piece in enumerate(vocabulary, start=4)}}
        for part in ("train", "dev"):
            lines = (tmp_path / f"{part}.{side}").read_text(encoding="utf-8").splitlines()
            store = getattr(prepared.store(part), side)
            assert [[ids[piece] for piece in line.split(" ")] for line in lines] == [
                store[row].tolist() for row in range(len(store))
            ]
    assert "<unk>" in (tmp_path / "train.source").read_text(encoding="utf-8")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The calls of pip; nothing is installed."""
    calls: list[list[str]] = []

    def run(line: list[str], check: bool) -> SimpleNamespace:
        calls.append(line)
        return SimpleNamespace(returncode=int("broken" in line))

    monkeypatch.setattr(peers, "ROOT", tmp_path)
    monkeypatch.setattr(venv, "create", lambda place, clear, with_pip: place.mkdir(parents=True, exist_ok=True))
    monkeypatch.setattr(subprocess, "run", run)
    return calls


def test_an_environment_is_made_once(installed: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    python = peers.peer_python("opennmt")
    assert peers.peer_python("opennmt") == python
    assert len(installed) == 2
    assert installed[0][0] == str(python)
    assert peers.TORCH in installed[0]
    assert "--no-deps" in installed[1]
    # Other requirements, another environment.
    monkeypatch.setattr(peers, "TORCH", "torch==1")
    peers.peer_python("opennmt")
    assert len(installed) == 4


def test_an_environment_that_pip_could_not_fill_is_made_again(
    installed: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(peers.PEERS, "opennmt", peers.PEERS["opennmt"]._replace(alone=("broken",)))
    for _ in range(2):
        with pytest.raises(UserError, match="pip cannot install"):
            peers.peer_python("opennmt")
    assert len(installed) == 4
