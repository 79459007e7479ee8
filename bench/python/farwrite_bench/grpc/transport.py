"""The transports: where the servers listen, and what runs the program."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

TCP, UDS, COPY, MPI = "tcp", "uds", "copy", "mpi"
OVER_SHM, OVER_TCP, OVER_VERBS = "farwrite-shm", "farwrite-tcp", "farwrite-verbs"

FABRICS = "FARWRITE_GRPC_FABRICS"
COPIES = "FARWRITE_GRPC_COPY"
STATS = "FARWRITE_GRPC_STATS"
"""Names the file to which the component appends its counters when the process ends."""
RUN = (sys.executable, "-m", "farwrite", "run", "--grpc", "--require", "--")
"""Runs an unmodified program over Farwrite, and fails if it stays with TCP."""
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
RUN_UNREQUIRED = tuple(word for word in RUN if word != "--require")
"""The same, with calls on TCP until the connection is upgraded, as programs run by default."""
START_SECONDS, WRAPPED_START_SECONDS = 0.18, 0.55


@dataclass(frozen=True)
class Transport:
    """One way to carry the bytes."""

    key: str
    variables: Mapping[str, str] = field(default_factory=dict)
    """What the component is told; empty where it takes no part."""
    is_default: bool = True
    """Measured without being asked for."""

    @property
    def arguments(self) -> dict[str, int]:
        """The settings of gRPC."""
        return dict(UDS_ARGUMENTS if self.key == UDS else TCP_ARGUMENTS)

    @property
    def is_farwrite(self) -> bool:
        """Whether Farwrite carries the bytes."""
        return bool(self.variables)

    @property
    def maps_peers(self) -> bool:
        """Whether a process maps the memory of its peers."""
        return self.variables.get(FABRICS) == "shm"

    @property
    def start_seconds(self) -> float:
        """About how long a turn of two processes takes to start and to end."""
        return WRAPPED_START_SECONDS if self.is_farwrite or self.key == MPI else START_SECONDS

    def command(self, *program: str, required: bool = True) -> list[str]:
        """Return the command line that runs `program` over this transport.

        Parameters
        ----------
        *program : str
            The program and its arguments.
        required : bool
            A Farwrite program makes no call on TCP; otherwise its first calls may be made there.
        """
        if not self.is_farwrite:
            return list(program)
        return [*(RUN if required else RUN_UNREQUIRED), *program]


TRANSPORTS = {
    transport.key: transport
    for transport in (
        Transport(TCP),
        Transport(UDS),
        Transport(MPI),
        Transport(COPY, {FABRICS: "shm", COPIES: "1"}),
        Transport(OVER_SHM, {FABRICS: "shm"}),
        Transport(OVER_TCP, {FABRICS: "tcp"}),
        Transport(OVER_VERBS, {FABRICS: "verbs"}, is_default=False),
    )
}
