"""Errors that a user can cause, and can mend."""


class UserError(Exception):
    """One line for the user: what is wrong, where (file, line, key), what to do.

    Commands print the message without a traceback and exit with status 2.
    """


_OUT_OF_MEMORY = (
    # PyTorch on the CPU (Linux and macOS; Windows), on CUDA and MPS, C++ where nothing else says it, the system.
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "ALLOC_FAILED",
    "std::bad_alloc",
    "Cannot allocate memory",
    # oneDNN, which gives no other reason.
    "could not create a primitive",
    "could not create a memory",
    "could not execute a primitive",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on whatever device; PyTorch is not imported for it."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _OUT_OF_MEMORY)
