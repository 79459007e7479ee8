"""Frames that a hostile or a newer peer could send where connections are upgraded."""

from __future__ import annotations

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HELLO, ANSWER, READY, SWITCH = 1, 2, 3, 4
SETTINGS_TYPE = 0x4
UPGRADE_TYPE = 0xFA
MAGIC = b"farwrite"
NONCE_BYTES = 16


def http2_frame(kind: int, payload: bytes) -> bytes:
    """Return a frame on stream 0, without flags."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, 0]) + bytes(4) + payload


SETTINGS = http2_frame(SETTINGS_TYPE, b"")


def upgrade_frame(
    kind: int,
    *,
    version: int = 1,
    server_nonce: bytes = bytes(NONCE_BYTES),
    local: str = "",
    remote: str = "",
    host: str = "",
) -> bytes:
    """Return a frame of Farwrite; the client's nonce is of zeros."""
    texts = b"".join(struct.pack("<I", len(text)) + text.encode() for text in (local, remote, host))
    device, endpoint, stream = bytes(16), struct.pack("<I", 0), bytes(8)
    nonces = bytes(NONCE_BYTES) + server_nonce
    payload = MAGIC + bytes([version, kind]) + nonces + texts + device + endpoint + stream
    return http2_frame(UPGRADE_TYPE, payload)


def server_nonce(received: bytes) -> bytes | None:
    """Return the server's nonce of an answer among the bytes; None if it is not there yet."""
    found = received.find(bytes([UPGRADE_TYPE]) + bytes(5) + MAGIC)
    begin = found + 1 + 5 + len(MAGIC) + 2 + NONCE_BYTES
    if found < 0 or len(received) < begin + NONCE_BYTES:
        return None
    return received[begin : begin + NONCE_BYTES]
