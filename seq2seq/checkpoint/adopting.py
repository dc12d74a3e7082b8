"""A run goes on with settings that may have changed, or in a newer format."""

import logging

from seq2seq.checkpoint.formats import FORMAT
from seq2seq.checkpoint.run_directory import RunDirectory
from seq2seq.config import Config, dump_config
from seq2seq.config.differences import differences
from seq2seq.data.checksums import digest_of
from seq2seq.data.prepare import Prepared
from seq2seq.errors import UserError

log = logging.getLogger(__name__)

CHANGEABLE = ("training", "teacher_forcing", "search", "device", "threads")
"""Sections of the configuration that may change on resume."""


def adopt(run: RunDirectory, config: Config, prepared: Prepared) -> None:
    """Go on with a configuration, where a run that is under way can take its changes; each is said.

    Raises:
        UserError: a change is one of model, tokenizer or data, or the text itself has changed.
    """
    run.files.check_all()
    changes = list(differences(run.config(), config))
    for key, before, after in changes:
        if key.partition(".")[0] not in CHANGEABLE:
            raise UserError(
                f"{run.path}: {key} is {after}, but the run was begun with {before}; only {', '.join(CHANGEABLE)} "
                f"may change on resume: start a new run for the rest"
            )
    if not _is_of(run, prepared):
        raise UserError(
            f"{run.path}: data: the text of {config.data.train} or another corpus, or what prepares it, has "
            f"changed since the run was begun; start a new run"
        )
    for key, before, after in changes:
        log.info(f"changed since the run was begun or resumed: {key}: {before} -> {after}")
    _upgrade(run, prepared)
    run.files.write("config.yaml", dump_config(config))


def _is_of(run: RunDirectory, prepared: Prepared) -> bool:
    if run.info().get("prepared") == prepared.directory.name:
        return True
    # Names of corpora change with what prepares them: then a run is known by its files.
    ours = [run.path / "dev.tsv", run.path / "test.tsv", *run.path.glob("tokenizer.*")]
    theirs = [prepared.directory / path.name for path in ours]
    return all(b.exists() and digest_of(a) == digest_of(b) for a, b in zip(ours, theirs, strict=True))


def _upgrade(run: RunDirectory, prepared: Prepared) -> None:
    """Bring a run of an older format to this one; run.json, which says which one it is, comes last."""
    if run.info()["format"] == FORMAT:
        return
    for name in ("best", "last"):
        if (run.path / f"{name}.safetensors").is_file():
            run.save_tensors(name, *run.load_tensors(name))
    run.files.guard_all()
    run.write_info(format=FORMAT, prepared=prepared.directory.name)
