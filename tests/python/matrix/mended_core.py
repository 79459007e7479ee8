"""Faults that were mended before the matrix was there, and how each is brought back: the core."""

from __future__ import annotations

from matrix.mended import Mended, random

CPP = "farwrite_fault_tests"

MENDED = (
    # --- Handles that are used after their process, peer or memory.
    Mended(
        "forked-child-closes-its-parents-server", "42af4c5", "src/box/server_state.cc",
        '  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("close a box"));\n',
        "",
        (f"{CPP} shm forked",),
    ),
    Mended(
        "forked-child-ends-its-parents-stream", "42af4c5", "src/transfer/sender_state.cc",
        '  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("abandon a stream of tensors"));\n',
        "",
        (f"{CPP} shm forked",),
    ),
    Mended(
        "memory-of-a-dead-box-is-read-for-ever", "6a3086b", "src/box/segment_state.cc",
        "    FARWRITE_RETURN_IF_ERROR(client_->check(\"read\"));\n    const std::byte",
        "    if (!pass) FARWRITE_RETURN_IF_ERROR(client_->check(\"read\"));\n    const std::byte",
        ("program.py shm killed Segment.version Cached.stale",),
    ),
    Mended(
        "leased-bytes-change", "2d1347e", "src/box/session.cc",
        "held->bytes(), [held] {});\n  if (sent.done()",
        "held->bytes(), [] {});\n  if (sent.done()",
        (random("boxes"), random("models")),
    ),
    Mended(
        "children-hold-sockets", "74ee48d", "src/core/left_at_fork.cc",
        "  if (inode == 0) return;\n  left_sockets",
        "  if (inode == 0 || fd > 0) return;\n  left_sockets",
        ("forked_program.py tcp", "forked_program.py shm"),
    ),
    # --- An end that looks like success, or like another end.
    Mended(
        "abandoned-is-taken-for-ended", "e67d821", "src/transfer/receiver_state.cc",
        "  abandoned_ = record.abandoned;\n",
        "  abandoned_ = false;\n",
        (random("tensors"),),
    ),
    Mended(
        "death-is-said-to-be-a-close", "e67d821", "src/fabric/shm/shm_link.cc",
        "  const Status death = error(StatusCode::kPeerDead,",
        "  const Status death = error(StatusCode::kUnavailable,",
        ("program.py shm killed Channel.flush", f"{CPP} shm killed Channel::flush"),
    ),
    Mended(
        "restored-box-has-the-old-epoch", "c91f556", "src/box/segment_directory.cc",
        "{.epoch = new_epoch(stored.epoch), .version = stored.version}",
        "{.epoch = stored.epoch, .version = stored.version}",
        (random("boxes"),),
    ),
    # --- Waits without limit.
    Mended(
        "read-of-a-stopped-box-waits-for-ever", "a9c6f8b", "src/box/client_state.cc",
        "  if (call.is_never() && timeout_ >= kForever) return call;\n",
        "  if (call.is_never()) return call;\n",
        ("program.py tcp stopped Segment.read", f"{CPP} tcp stopped"),
    ),
    Mended(
        "detached-segment-leaves-its-waits", "ba727e7", "src/box/segment_state.cc",
        "  for (const std::uint64_t wait : waits) client_->withdraw(wait, detached());\n",
        "",
        ("program.py shm shut Updates.__iter__",),
    ),
    Mended(
        "callback-waits-for-its-own-client", "ff1e934", "src/box/client_state.cc",
        "  if (!core::Inside::is(this)) return Status();\n",
        "  return Status();\n",
        (random("boxes"),),
    ),
    # --- Refused where the call should wait, or refused as something else.
    Mended(
        "sender-is-not-held-back", "acc63c0", "src/transfer/sender_state.cc",
        "(hopeless && !attempt.hopeful)) return sent;\n",
        "true) return sent;\n",
        (random("tensors"),),
        "no program sends more than its send memory holds",
    ),
    Mended(
        "stopped-readers-lock-others-out", "1222d88", "src/box/pin.cc",
        "    // A holder that came meanwhile is alive, and has the current buffer, which stays.\n",
        "    break;\n",
        (
            "search.py --repeat 'boxes shm 746 create:616 lease:5 stop_lessee:1 stop_lessee:2"
            " stop_lessee:4'",
        ),
        "the client that this program stops leases fewer versions than the segment has buffers",
    ),
    Mended(
        "no-descriptor-is-a-protocol-error", "3e68d50", "src/fabric/shm/packet_socket.cc",
        "(cut && packet.fds.size() == kMaxPacketFds)",
        "cut",
        (
            "refused_program.py shm descriptors openings.memory",
            "refused_program.py shm descriptors openings.box",
            "refused_program.py shm descriptors openings.models",
        ),
    ),
    # --- Wrong bytes.
    Mended(
        "stamps-stay-even-in-a-new-buffer", "31a22ab", "src/box/buffer_set.cc",
        "  begin_all(row);\n",
        "",
        (random("boxes"),),
        "a reader must be delayed between two loads while the server fills a new buffer",
    ),
)  # fmt: skip
