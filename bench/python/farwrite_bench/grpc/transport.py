"""The transports: what carries the bytes, and how gRPC is set for it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

TCP, UDS, COPY, MPI = "tcp", "uds", "copy", "mpi"
OVER_SHM, OVER_TCP, OVER_VERBS = "farwrite-shm", "farwrite-tcp", "farwrite-verbs"

FABRICS = "FARWRITE_GRPC_FABRICS"
COPIES = "FARWRITE_GRPC_COPY"
ARGUMENTS = {
    "grpc.max_send_message_length": -1,
    "grpc.max_receive_message_length": -1,
    "grpc.http2.max_frame_size": 1 << 20,
}
TCP_ARGUMENTS = {**ARGUMENTS, "grpc.http2.bdp_probe": 0}
UDS_ARGUMENTS = {
    **ARGUMENTS,
    "grpc.experimental.tcp_read_chunk_size": 1 << 20,
    "grpc.experimental.tcp_max_read_chunk_size": 1 << 22,
}
"""What gave the most bytes per second of TCP and of unix sockets. Larger windows gave nothing.
Farwrite's component gets the settings of TCP, whose programs it carries."""


@dataclass(frozen=True)
class Transport:
    """One way to carry the bytes."""

    key: str
    variables: Mapping[str, str] = field(default_factory=dict)
    """The component's options; empty where Farwrite does not carry the bytes."""
    arguments: Mapping[str, int] = field(default_factory=lambda: TCP_ARGUMENTS)
    """The settings of gRPC."""
    start_seconds: float = 0.55
    """About how long a turn of two processes takes to start and to end."""
    is_default: bool = True
    """Measured without being asked for."""

    @property
    def is_farwrite(self) -> bool:
        """Whether Farwrite carries the bytes."""
        return bool(self.variables)

    @property
    def maps_peers(self) -> bool:
        """Whether a process maps the memory of its peers."""
        return self.variables.get(FABRICS) == "shm"

    def command(self, *program: str, required: bool = True) -> list[str]:
        """Return the command line that runs an unmodified `program` over this transport.

        Parameters
        ----------
        *program : str
            The program and its arguments.
        required : bool
            A Farwrite program makes no call on TCP. Otherwise calls are on TCP until the connection
            is upgraded, as programs run by default.
        """
        if not self.is_farwrite:
            return list(program)
        run = [sys.executable, "-m", "farwrite", "run", "--grpc"]
        return [*run, *(["--require"] if required else []), "--", *program]


TRANSPORTS = {
    transport.key: transport
    for transport in (
        Transport(TCP, start_seconds=0.18),
        Transport(UDS, arguments=UDS_ARGUMENTS, start_seconds=0.18),
        Transport(MPI),
        Transport(COPY, {FABRICS: "shm", COPIES: "1"}),
        Transport(OVER_SHM, {FABRICS: "shm"}),
        Transport(OVER_TCP, {FABRICS: "tcp"}),
        Transport(OVER_VERBS, {FABRICS: "verbs"}, is_default=False),
    )
}
