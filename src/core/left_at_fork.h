// leave_at_fork(): sockets that a forked child does not hold.
//
// A peer learns of the end of a process by its sockets. A child that is forked and does not execute
// another program would hold them open after the end of its parent, and its port as well.
#pragma once

namespace farwrite::core {

// From now on a forked child has /dev/null in place of the socket `fd`, under the same number: what
// it inherits may close it there. Ends with the socket; the number may then be another
// descriptor's. Does nothing for a descriptor of 65536 or more. Thread-safe.
void leave_at_fork(int fd);

}  // namespace farwrite::core
