"""The log level: which messages Farwrite writes to standard error."""

from __future__ import annotations

from typing import Literal

from farwrite import _farwrite

LogLevel = Literal["off", "error", "warning", "info", "debug"]
LOG_LEVELS: tuple[LogLevel, ...] = ("off", "error", "warning", "info", "debug")


def set_log_level(level: LogLevel) -> None:
    """Set this process's log level. The call overrides FARWRITE_LOG.

    Parameters
    ----------
    level : {"off", "error", "warning", "info", "debug"}
        Each level includes the levels before it in this list. The default is "warning".

    Raises
    ------
    InvalidArgument
        If `level` is not one of these.
    """
    from farwrite.arguments import text  # needs NumPy

    _farwrite.set_log_level(text("set_log_level", "level", level))


def log_level() -> str:
    """Return the current log level."""
    return _farwrite.log_level()
