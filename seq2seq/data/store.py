"""Token ids on disk, memory-mapped: a flat array of ids and where each sentence starts."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2seq.data.tokenizer import TextTokenizer


class TokenStore:
    """Sentences as ids (int32), read from `directory` without being loaded whole."""

    def __init__(self, directory: Path, name: str) -> None:
        self.offsets: NDArray[np.int64] = np.load(directory / f"{name}.offsets.npy", mmap_mode="r", allow_pickle=False)
        self.ids: NDArray[np.int32] = np.load(directory / f"{name}.ids.npy", mmap_mode="r", allow_pickle=False)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[np.int32]:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens in each sentence."""
        return np.diff(self.offsets)


def write_store(directory: Path, name: str, sentences: Iterable[Sequence[int]]) -> None:
    """Write sentences of ids so that `TokenStore(directory, name)` reads them."""
    arrays = [np.asarray(sentence, dtype=np.int32) for sentence in sentences]
    offsets = np.zeros(len(arrays) + 1, dtype=np.int64)
    np.cumsum([len(array) for array in arrays], out=offsets[1:])
    np.save(directory / f"{name}.offsets.npy", offsets)
    np.save(directory / f"{name}.ids.npy", np.concatenate([*arrays, np.zeros(0, dtype=np.int32)]))


class ParallelStore:
    """Both sides of a corpus as ids; what batches are made of."""

    def __init__(self, directory: Path, name: str) -> None:
        self.source = TokenStore(directory, f"{name}.source")
        self.target = TokenStore(directory, f"{name}.target")

    def __len__(self) -> int:
        return len(self.source)


def write_parallel(
    directory: Path,
    name: str,
    sources: Sequence[str],
    targets: Sequence[str],
    source_tokenizer: TextTokenizer,
    target_tokenizer: TextTokenizer,
) -> None:
    """Tokenize both sides and write them so that `ParallelStore(directory, name)` reads them."""
    write_store(directory, f"{name}.source", source_tokenizer.encode_batch(sources))
    write_store(directory, f"{name}.target", target_tokenizer.encode_batch(targets))
