#include "reply_source.h"

#include <utility>

namespace farwrite::experiments {

google::protobuf::io::ZeroCopyInputStream* ReplySource::contents() {
  spent_ = std::exchange(begun_, true);
  return this;
}

Status ReplySource::finish() {
  release();
  return failed_.ok() ? link_->skip(left_) : failed_;
}

bool ReplySource::Next(const void** data, int* size) {
  release();
  if (left_ == 0 || spent_ || !failed_.ok()) return false;
  Result<ByteView> next = link_->peek(left_);
  if (!next.ok()) {
    failed_ = next.status();
    return false;
  }
  given_ = next->size;
  count_ += static_cast<std::int64_t>(given_);
  *data = next->data;
  *size = static_cast<int>(given_);
  return true;
}

void ReplySource::BackUp(int count) {
  const auto bytes = static_cast<std::uint64_t>(count);
  const std::uint64_t used = given_ - bytes;
  link_->consume(used);
  left_ -= used;
  given_ = 0;
  count_ -= count;
}

bool ReplySource::Skip(int count) {
  auto bytes = static_cast<std::uint64_t>(count);
  while (bytes > 0) {
    const void* data = nullptr;
    int size = 0;
    if (!Next(&data, &size)) return false;
    const auto found = static_cast<std::uint64_t>(size);
    if (found > bytes) {
      BackUp(static_cast<int>(found - bytes));
      return true;
    }
    bytes -= found;
  }
  return true;
}

void ReplySource::release() {
  link_->consume(given_);
  left_ -= given_;
  given_ = 0;
}

}  // namespace farwrite::experiments
