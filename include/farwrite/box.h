/// @file
/// The parameter box: named segments of memory that a server process holds and many clients share,
/// with arithmetic at the server (Soft Memory Box, poster, section 2; requirement M1).
///
/// A Server serves segments. A Client connects to it and gets a Segment by name or by key. Reads
/// are one-sided and never torn. Every change is applied by the server: a client lends its bytes,
/// and the server applies them in that client's order, each change wholly or not at all. So a
/// client that dies in the middle of anything has changed nothing.
///
/// A segment has one or more buffers. One of them is current. A write of the whole segment fills
/// another buffer and makes it current; every other change is made in the current buffer. A lease
/// pins a buffer: its contents then stay as they are until the lease ends, and the next change goes
/// to another buffer. So does every later change of the whole segment, if a buffer is free.
#pragma once

#include "farwrite/box_client.h"
#include "farwrite/box_segment.h"
#include "farwrite/box_server.h"
#include "farwrite/box_types.h"
