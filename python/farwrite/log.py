"""How much Farwrite says on standard error."""

from __future__ import annotations

from typing import Literal

from farwrite import _farwrite
from farwrite.arguments import text

LogLevel = Literal["off", "error", "warning", "info", "debug"]
LOG_LEVELS: tuple[LogLevel, ...] = ("off", "error", "warning", "info", "debug")


def set_log_level(level: LogLevel) -> None:
    """Set what this process logs from now on; overrides FARWRITE_LOG.

    Parameters
    ----------
    level : {"off", "error", "warning", "info", "debug"}
        Each logs what those before it log, and more. The default is "warning".

    Raises
    ------
    InvalidArgument
        If there is no such level.
    """
    _farwrite.set_log_level(text("set_log_level", "level", level))


def log_level() -> str:
    """Return the level in force."""
    return _farwrite.log_level()
