#include "box/whole_io.h"

#include <sys/types.h>
#include <unistd.h>

#include <cerrno>

namespace farwrite::box {

int write_whole(int fd, ByteView bytes) {
  std::size_t done = 0;
  while (done < bytes.size) {
    const ssize_t wrote = ::write(fd, bytes.data + done, bytes.size - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    if (wrote == 0) return EIO;  // no file system does so; the loop must end all the same
    done += static_cast<std::size_t>(wrote);
  }
  return 0;
}

int read_whole(int fd, std::uint64_t offset, MutableByteView out, std::size_t& read) {
  read = 0;
  while (read < out.size) {
    const ssize_t got =
        ::pread(fd, out.data + read, out.size - read, static_cast<off_t>(offset + read));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) break;
    read += static_cast<std::size_t>(got);
  }
  return 0;
}

}  // namespace farwrite::box
