#include "box/snapshot_reader.h"

#include <fcntl.h>

#include <cerrno>
#include <string_view>
#include <utility>

namespace farwrite::box {
namespace {

constexpr std::string_view kOperation = "restore a snapshot";

// Disks return EIO for what they cannot read any more, which is damage.
bool is_damage(StatusCode code) {
  return code == StatusCode::kProtocolError || code == StatusCode::kUnavailable;
}

std::string_view remedy_for(StatusCode code) {
  switch (code) {
    case StatusCode::kVersionMismatch:
      return "start the version of Farwrite that wrote it, or move the file elsewhere to restore "
             "an older one";
    case StatusCode::kPermissionDenied:
      return "let this user read the file";
    case StatusCode::kResourceExhausted:
      return "raise `ulimit -n`, or free memory";
    case StatusCode::kInvalidArgument:
    case StatusCode::kFailedPrecondition:
      return "call next() first, and read() with memory of the segment's size";
    default:
      return "move the file elsewhere to restore an older one";
  }
}

Status sentence(const Status& failed) {
  return Status::error(failed.code(), {kOperation}, failed.message(), remedy_for(failed.code()));
}

Result<SnapshotFile> open_file(const std::string& path) {
  // A pipe of that name must not hold the server up.
  core::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (file.valid()) return SnapshotFile::open(std::move(file), path);
  const int error_number = errno;
  const StatusCode code = snapshot_io_error("", "", error_number).code();
  return Status::system_error(code, {path}, "cannot be opened", error_number, "");
}

Status none_whole(const std::string& directory, const std::vector<std::string>& damaged) {
  if (damaged.empty()) {
    return Status::error(StatusCode::kNotFound, {kOperation}, directory + " holds no snapshot",
                         "name the directory that holds the snapshots, or start without restoring");
  }
  std::string list;
  for (const std::string& each : damaged) list += (list.empty() ? "" : ", ") + each;
  return Status::error(StatusCode::kNotFound, {kOperation},
                       "no snapshot in " + directory + " is whole: " + list,
                       "copy a whole snapshot into the directory, or start without restoring");
}

}  // namespace

Result<SnapshotReader> SnapshotReader::open(const SnapshotDirectory& directory) {
  auto snapshots = directory.list();
  if (!snapshots.ok()) return snapshots.status();
  std::vector<std::string> damaged;
  for (const SnapshotName& each : *snapshots) {
    auto file = open_file(each.path);
    if (file.ok()) return SnapshotReader(std::move(file).value(), std::move(damaged));
    if (!is_damage(file.status().code())) return sentence(file.status());
    damaged.push_back(file.status().message());
  }
  return none_whole(directory.path(), damaged);
}

Result<std::optional<SnapshotEntry>> SnapshotReader::next() {
  auto entry = file_.next();
  if (!entry.ok()) return sentence(entry.status());
  return entry;
}

Status SnapshotReader::read(MutableByteView out) {
  const Status status = file_.read(out);
  return status.ok() ? status : sentence(status);
}

}  // namespace farwrite::box
