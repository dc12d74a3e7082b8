"""Small files of a run, each with its digest in SHA256SUMS; none is read from outside the run."""

from pathlib import Path

from seq2seq.checkpoint.tensors import DamagedError
from seq2seq.data.checksums import SUMS, digest_of, read_sums, write_checksums, write_sums
from seq2seq.data.files import move, write_text
from seq2seq.errors import UserError

MOST_BYTES = 1 << 28
"""No text file of a run is larger; one that is would only fill the memory."""


class GuardedFiles:
    """Text and tokenizers below a run directory.

    Args:
        folder: the run directory, be it a link itself.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def guard_all(self) -> None:
        """Write SHA256SUMS of the text files and tokenizers that are there."""
        write_checksums(self.folder, ("*.json", "*.yaml", "*.tsv", "*.model"))

    def write(self, name: str, text: str) -> None:
        """Replace a file and its digest; both digests are good until both files are.

        Raises:
            UserError: the file cannot be written.
        """
        sums = self._sums()
        staged = self.folder / f".{name}.new.tmp"
        write_text(staged, text)
        digest = digest_of(staged)
        write_sums(self.folder, {**sums, name: [*sums.get(name, []), digest]})
        move(staged, self.folder / name)
        write_sums(self.folder, {**sums, name: [digest]})

    def read(self, name: str) -> str:
        """The text of a file.

        Raises:
            UserError: it is missing.
            DamagedError: it is not as it was written.
        """
        path = self.require(name)
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DamagedError(f"{path}: cannot be read: {error}") from None

    def require(self, name: str) -> Path:
        """The path of a file that is as it was written.

        Raises:
            UserError: it is missing.
            DamagedError: it is not as it was written.
        """
        path = self.folder / name
        if not path.is_file() or not path.stat().st_size:
            raise UserError(f"{path}: missing or empty; the run is damaged, train again or copy it anew")
        self.check(name)
        return path

    def check(self, name: str) -> None:
        """See to it that a file, where there is one, is as it was written; one without a digest is taken as it is.

        Raises:
            DamagedError: it is not.
        """
        self.refuse_link(name)
        path = self.folder / name
        if not path.exists():
            return
        if path.stat().st_size > MOST_BYTES:
            raise DamagedError(f"{path}: larger than {MOST_BYTES >> 20} MiB, which no such file of a run is")
        for _ in range(2):  # a training may be replacing the file right now
            known = self._sums().get(name, [])
            if not known or digest_of(path) in known:
                return
        raise DamagedError(
            f"{path}: not as it was written, says {SUMS}; copy the run anew, or if the change is meant, "
            f"delete the line of {name} there"
        )

    def check_all(self) -> None:
        """See to it that all files with a digest are there as they were written.

        Raises:
            UserError: one is missing.
            DamagedError: one is not.
        """
        for name in self._sums():
            self.require(name)

    def refuse_link(self, name: str) -> None:
        """See to it that a file is a plain one of this folder, where there is one.

        Raises:
            DamagedError: it is a symbolic link, a folder, a pipe or a device.
        """
        path = self.folder / name
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise DamagedError(f"{path}: a link or no plain file; a run holds plain files alone, copy it anew")

    def refuse_unguarded(self) -> None:
        """See to it that there is a SHA256SUMS.

        Raises:
            DamagedError: there is none, or it is none.
        """
        if not (self.folder / SUMS).exists():
            raise DamagedError(f"{self.folder / SUMS}: missing; the run is damaged, copy it anew")
        self._sums()

    def _sums(self) -> dict[str, list[str]]:
        """None for runs of older formats."""
        self.refuse_link(SUMS)
        if not (self.folder / SUMS).exists():
            return {}
        try:
            return read_sums(self.folder)
        except (OSError, ValueError) as error:
            raise DamagedError(f"{self.folder / SUMS}: damaged ({error}); copy the run anew") from None
