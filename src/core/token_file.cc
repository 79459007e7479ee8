#include "core/token_file.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/sha256.h"
#include "core/unique_fd.h"

namespace farwrite::core {
namespace {

constexpr std::string_view kGetToken = "get the token";
constexpr std::string_view kElsewhere =
    "set FARWRITE_TOKEN_FILE to a file that only this user can read, or give all peers one token";
constexpr std::size_t kLeastBytes = 32;
constexpr std::size_t kMostBytes = 4096;
constexpr int kTries = 3;

bool is_own_folder(const std::string& path) {
  struct stat found{};
  return !path.empty() && path.front() == '/' && ::stat(path.c_str(), &found) == 0 &&
         S_ISDIR(found.st_mode) && found.st_uid == ::geteuid();
}

// Empty if it is not set, and in a process that runs with more rights than its user.
std::string environment(const char* name) {
  const char* const value = ::secure_getenv(name);
  return value == nullptr ? "" : value;
}

std::string home_of_account() {
  std::vector<char> buffer(16384);
  passwd account{};
  passwd* found = nullptr;
  if (::getpwuid_r(::geteuid(), &account, buffer.data(), buffer.size(), &found) != 0) return {};
  return found == nullptr || found->pw_dir == nullptr ? "" : found->pw_dir;
}

// After sudo, HOME may be another user's: a file of ours there would lock that user out. In a
// container, the account may have no home, and HOME belongs to root.
std::string home() {
  std::string named = environment("HOME");
  if (is_own_folder(named)) return named;
  std::string account = home_of_account();
  return is_own_folder(account) || named.empty() ? account : named;
}

Status failed(StatusCode code, const std::string& path, const std::string& cause,
              std::string_view remedy) {
  return Status::error(code, {kGetToken}, "the file " + path + " " + cause, remedy);
}

Status failed_now(const std::string& path, const std::string& cause) {
  return Status::system_error(StatusCode::kUnavailable, {kGetToken},
                              "the file " + path + " " + cause, errno, kElsewhere);
}

std::string octal(mode_t mode) {
  std::string text = "0000";
  for (int i = 3; i >= 0; --i, mode >>= 3) text[static_cast<std::size_t>(i)] += mode & 7;
  return text;
}

// As PostgreSQL asks of its keys: 0600 if the file is ours; root's may be read by a group of ours,
// as secrets that a container is given are.
Status check_rights(const std::string& path, const struct stat& file) {
  if (!S_ISREG(file.st_mode)) {
    return failed(StatusCode::kFailedPrecondition, path, "is not a regular file", kElsewhere);
  }
  if (file.st_uid != ::geteuid() && file.st_uid != 0) {
    return failed(StatusCode::kPermissionDenied, path,
                  "belongs to uid " + std::to_string(file.st_uid) + ", and this process runs as " +
                      std::to_string(::geteuid()),
                  kElsewhere);
  }
  const mode_t open_to_others = file.st_uid == ::geteuid() ? 077 : 037;
  if ((file.st_mode & open_to_others) == 0) return Status();
  return failed(StatusCode::kPermissionDenied, path,
                "is open to other users (mode " + octal(file.st_mode & 07777) + ")",
                "delete the file, or trust its content and run chmod 600 " + path);
}

// kNotFound if no file has that path.
Result<std::string> read_token(const std::string& path) {
  // Without O_NONBLOCK a pipe of that name would hold us for ever.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file.valid()) {
    if (errno == ENOENT) return Status(StatusCode::kNotFound, path);
    return failed_now(path, "cannot be opened");
  }
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return failed_now(path, "cannot be examined");
  const Status rights = check_rights(path, status);
  if (!rights.ok()) return rights;
  std::array<char, kMostBytes + 1> bytes{};
  std::size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + size, bytes.size() - size);
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed_now(path, "cannot be read");
    size += static_cast<std::size_t>(got);
  }
  std::string_view token(bytes.data(), size);
  token = token.substr(0, token.find_last_not_of(" \t\r\n") + 1);
  if (token.size() >= kLeastBytes && size <= kMostBytes) return std::string(token);
  const std::string held = size > kMostBytes ? "more than 4096" : std::to_string(token.size());
  return failed(StatusCode::kFailedPrecondition, path,
                "holds " + held + " bytes, and a token has 32 to 4096",
                "write a token into it (openssl rand -hex 32), or delete it: a device makes a new "
                "one, --token-file does not");
}

Status check_path(const std::string& path) {
  if (path.front() == '/') return Status();
  return failed(StatusCode::kInvalidArgument, path, "does not have an absolute path",
                "write a path that starts with /");
}

std::string new_token() {
  std::array<std::byte, 32> bits;
  random_bytes({bits.data(), bits.size()});
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bits) {
    text += kDigits[std::to_integer<std::size_t>(byte >> 4)];
    text += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

Status make_folder(const std::string& folder, const std::string& path) {
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return Status();
  return failed_now(path, "cannot be created, because its folder cannot be created: " + folder);
}

// Writes the whole file as a draft, then links it to `path`, unless that exists meanwhile.
Status make_token(const std::string& path) {
  const std::string draft = path + "." + new_token().substr(0, 16);
  const std::string token = new_token() + "\n";
  UniqueFd file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return failed_now(path, "cannot be created");
  // After a power failure the file is whole or missing.
  Status status;
  if (::write(file.get(), token.data(), token.size()) != static_cast<ssize_t>(token.size()) ||
      ::fsync(file.get()) != 0) {
    status = failed_now(path, "cannot be written");
  } else if (::link(draft.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    status = failed_now(path, "cannot be created");
  }
  ::unlink(draft.c_str());
  return status;
}

}  // namespace

Result<std::string> cookie_path() {
  const std::string runtime = environment("XDG_RUNTIME_DIR");
  if (is_own_folder(runtime)) return runtime + "/farwrite/token";
  const std::string found = home();
  if (!found.empty() && found.front() == '/') return found + "/.cache/farwrite/token";
  return Status::error(
      StatusCode::kUnavailable, {kGetToken},
      "this user has neither XDG_RUNTIME_DIR nor a home folder to keep the token in", kElsewhere);
}

Result<std::string> read_or_make_token(const std::string& path, bool make_folders) {
  FARWRITE_RETURN_IF_ERROR(check_path(path));
  for (int turn = 0; turn < kTries; ++turn) {
    auto token = read_token(path);
    if (token.ok() || token.status().code() != StatusCode::kNotFound) return token;
    const std::string folder = folder_of(path);
    if (make_folders) {
      FARWRITE_RETURN_IF_ERROR(make_folder(folder_of(folder), path));
      FARWRITE_RETURN_IF_ERROR(make_folder(folder, path));
    }
    FARWRITE_RETURN_IF_ERROR(make_token(path));
  }
  return failed(StatusCode::kUnavailable, path, "was deleted each time that it was created",
                kElsewhere);
}

Status check_token_file_variable() {
  const std::string path = environment("FARWRITE_TOKEN_FILE");
  if (path.empty()) return Status();
  FARWRITE_RETURN_IF_ERROR(check_path(path));
  Status read = read_token(path).status();
  if (read.code() != StatusCode::kNotFound) return read;
  if (::access(folder_of(path).c_str(), W_OK) == 0) return Status();
  return failed_now(path, "cannot be created");
}

}  // namespace farwrite::core
