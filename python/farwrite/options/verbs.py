"""VerbsOptions: the options of a `Device` that the fabric verbs alone reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import SupportsIndex

from farwrite.options.docstring import add_parameters


@partial(add_parameters, fabric="verbs")
@dataclass(frozen=True, kw_only=True)
class VerbsOptions:
    """Options of the fabric verbs, for ``Device(verbs=...)``.

    docs/how-to/rdma.md explains when to change one.

    Parameters
    ----------
    {options}

    The value of a field that is not given, or is None, comes from the environment: `port` from
    FARWRITE_VERBS_PORT, and so on. If the variable is not set, the default applies.

    `Device` checks the values, and its errors name a field as ``verbs.port``.

    Examples
    --------
    >>> import farwrite as fw
    >>> with fw.Device(verbs=fw.VerbsOptions(send_queue_depth=256, chunk_bytes="64M")) as device:
    ...     weights = device.allocate((1024, 1024), "float32")
    """

    device: str | None = None
    port: SupportsIndex | None = None
    gid_index: SupportsIndex | None = None
    send_queue_depth: SupportsIndex | None = None
    receive_credits: SupportsIndex | None = None
    chunk_bytes: SupportsIndex | str | None = None
    signal_every: SupportsIndex | None = None
    inline_bytes: SupportsIndex | str | None = None
    retry_count: SupportsIndex | None = None
    rnr_retry_count: SupportsIndex | None = None
    relaxed_ordering: bool | None = None
    use_immediate: bool | None = None
