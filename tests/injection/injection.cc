// Preloaded into a process, refuses the n-th call of a kind to the system, or ends the process
// there.
//
// The functions below stand before those of libc and libstdc++ of the same name. Each asks
// strike(), and otherwise does what the one behind it does.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "plan.h"
