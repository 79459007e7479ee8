"""What gRPC's programs are run over: plain TCP, Farwrite, or one side on each."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import sanitized
from grpc_statistics import Statistics


@dataclass(frozen=True)
class Transport:
    """How the programs of a pair are started: what stands before each one's name.

    An empty prefix starts the program as it is, on TCP. Two prefixes make a Farwrite pair, whose
    connections must be upgraded; one prefix makes a mixed pair, whose connections must stay on TCP.
    """

    name: str
    server: tuple[str, ...] = ()
    client: tuple[str, ...] = ()

    @property
    def upgrades(self) -> bool:
        """Whether the connections between the two must be carried by Farwrite."""
        return bool(self.server and self.client)

    def check_server(self, statistics: Statistics | None) -> None:
        """Fail unless a server that ended carried its connections as this transport promises."""
        self._check(self.server, statistics)

    def check_client(self, statistics: Statistics | None, *, connects: bool = True) -> None:
        """Fail unless a client that ended carried its connections as this transport promises.

        `connects` is false for a client whose calls may all end before it has a connection.
        """
        self._check(self.client, statistics, connects)

    def _check(
        self, prefix: tuple[str, ...], statistics: Statistics | None, connects: bool = True
    ) -> None:
        if not prefix:
            assert statistics is None, "a program that was started plainly wrote statistics"
            return
        if statistics is None and not connects:
            return
        assert statistics is not None, "a program under Farwrite ended without its statistics"
        if not self.upgrades:
            assert statistics.upgraded == 0, f"upgraded without a partner: {statistics}"
            return
        assert statistics.stayed == {}, f"a connection stayed on TCP: {statistics}"
        if connects:
            assert statistics.upgraded > 0, f"no connection was upgraded: {statistics}"
            assert statistics.sent_bytes > 0, f"nothing was sent: {statistics}"
            assert statistics.received_bytes > 0, f"nothing was received: {statistics}"


FARWRITE = (sys.executable, "-m", "farwrite", "run", "--grpc", "--")
REQUIRED = (*FARWRITE[:-1], "--require", "--")
if sanitized.PRESET:
    FARWRITE = sanitized.PRELOAD
    REQUIRED = (*FARWRITE, "FARWRITE_GRPC_REQUIRE=1")

# Add a transport here, and every test of gRPC runs over it.
TRANSPORTS = [
    Transport("tcp"),
    Transport("farwrite", FARWRITE, REQUIRED),
]
if sanitized.PRESET:
    TRANSPORTS = TRANSPORTS[1:]
MIXED_TRANSPORTS = [
    Transport("client-alone", (), FARWRITE),
    Transport("server-alone", FARWRITE, ()),
]
