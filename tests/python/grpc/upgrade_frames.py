"""Frames that a hostile or a newer peer could send where connections are upgraded."""

from __future__ import annotations

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HELLO, ANSWER, READY, SWITCH = 1, 2, 3, 4
SETTINGS_TYPE = 0x4
UPGRADE_TYPE = 0xFA


def http2_frame(kind: int, payload: bytes) -> bytes:
    """Return a frame on stream 0, without flags."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, 0]) + bytes(4) + payload


SETTINGS = http2_frame(SETTINGS_TYPE, b"")


def upgrade_frame(
    kind: int, *, version: int = 1, local: str = "", remote: str = "", host: str = ""
) -> bytes:
    """Return a frame of Farwrite with nonces of zeros."""
    texts = b"".join(struct.pack("<I", len(text)) + text.encode() for text in (local, remote, host))
    device, endpoint, stream = bytes(16), struct.pack("<I", 0), bytes(8)
    payload = b"farwrite" + bytes([version, kind]) + bytes(32) + texts + device + endpoint + stream
    return http2_frame(UPGRADE_TYPE, payload)
