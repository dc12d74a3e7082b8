"""Errors that a user can cause, and can mend."""


class UserError(Exception):
    """One line for the user: what is wrong, where (file, line, key), what to do.

    Commands print the message without a traceback and exit with status 2.
    """


# How PyTorch words it on the CPU (Linux and macOS; Windows) and on MPS, and C++ where nothing else says it.
_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "std::bad_alloc", "ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on whatever device; PyTorch is not imported for it."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _OUT_OF_MEMORY)
