"""What a machine and a transport cost: the constants of the model, all of them measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from farwrite.errors import InvalidArgument

VERSION = 1
RDMA, RDMA_BYTES_S = "farwrite rdma", 1e12
"""A transport that was not measured. An adapter moves bytes by itself, so only the link limits it.
"""


@dataclass(frozen=True)
class TransportCosts:
    """The costs of a transport, beside the link's."""

    cpu_s_per_byte: float
    """Seconds of a processor for a byte that goes from one task to another, at both ends."""
    stream_bytes_s: float
    """The highest rate of one connection, if nothing else runs."""
    message_s: float
    """For how long a message occupies its connection, beside its bytes."""
    message_cpu_s: float
    """Seconds of a processor for a message, at both ends."""
    step_s: float
    """How long a step takes that moves nothing: its control calls, and its wake-ups."""
    step_cpu_s: float
    """Seconds of a processor for such a step of two tasks."""


@dataclass(frozen=True)
class Costs:
    """A calibration."""

    cores: int
    """The processors of the machine that was measured."""
    pass_s_per_byte: float
    """Seconds in which one thread reads or writes a byte of a large tensor once."""
    transports: Mapping[str, TransportCosts]
    """By the transport and its fabric, such as "grpc" or "farwrite tcp"."""
    measured: Mapping[str, Any] = field(default_factory=dict)
    """What they were computed from: the steps of each probe over each way that were timed."""

    def facts(self) -> dict[str, Any]:
        """Return what a file of this calibration holds."""
        return {"version": VERSION, **asdict(self)}

    def transport(self, key: str) -> TransportCosts:
        """Return the costs of a transport.

        `RDMA` has Farwrite's control, and no processor's time for bytes.

        Raises
        ------
        InvalidArgument
            If it was not calibrated.
        """
        if key == RDMA:
            ours = self.transport("farwrite tcp")
            return replace(ours, cpu_s_per_byte=0.0, stream_bytes_s=RDMA_BYTES_S)
        if key not in self.transports:
            raise InvalidArgument(
                f"farwrite plan: the calibration has no transport {key}, only"
                f" {', '.join(self.transports)}; use one of them, or calibrate again"
            )
        return self.transports[key]


def write_costs(path: Path, costs: Costs) -> None:
    """Write a calibration as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(costs.facts(), indent=2) + "\n")


def read_costs(path: Path) -> Costs:
    """Read a calibration.

    Raises
    ------
    InvalidArgument
        If the file is missing, or is no calibration of this version.
    """
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        version = facts.pop("version")
        transports = {
            key: TransportCosts(**values) for key, values in facts.pop("transports").items()
        }
        costs = Costs(transports=transports, **facts)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgument(
            f"farwrite plan: {path} is no calibration ({error}); make one with"
            f" `farwrite plan --calibrate --calibration {path}`"
        ) from error
    if version != VERSION:
        raise InvalidArgument(
            f"farwrite plan: {path} has version {version}, not {VERSION}; calibrate again,"
            f" with `farwrite plan --calibrate --calibration {path}`"
        )
    return costs
