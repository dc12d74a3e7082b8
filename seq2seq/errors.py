"""Errors that a user can cause, and can mend."""


class UserError(Exception):
    """One line for the user: what is wrong, where (file, line, key), what to do.

    Commands print the message without a traceback and exit with status 2.
    """
