#include "device/name_table.h"

#include <utility>
#include <vector>

#include "core/mutex.h"

namespace farwrite::device {
namespace {

constexpr std::size_t kNamesInErrors = 8;

}  // namespace

Status check_name(std::string_view operation, std::string_view name) {
  if (!name.empty() && name.size() <= kMaxNameBytes) return Status();
  return Status::error(StatusCode::kInvalidArgument, {operation},
                       "the name has " + std::to_string(name.size()) + " bytes",
                       "use 1 to " + std::to_string(kMaxNameBytes));
}

Status NameTable::publish(std::string_view name, PublishedRegion published) {
  constexpr std::string_view kOperation = "publish";
  FARWRITE_RETURN_IF_ERROR(check_name(kOperation, name));
  if (published.description.size() > kMaxDescriptionBytes) {
    return Status::error(
        StatusCode::kInvalidArgument, {kOperation},
        "the description has " + std::to_string(published.description.size()) + " bytes",
        "use at most " + std::to_string(kMaxDescriptionBytes));
  }
  // Declared before the lock, so destroyed after it: a region's end may take a while.
  std::vector<PublishedRegion> removed;
  const core::Lock lock(mutex_);
  PublishedRegion& entry = regions_[std::string(name)];
  removed.push_back(std::exchange(entry, std::move(published)));
  std::erase_if(regions_, [&](auto& other) {
    if (!other.second.region->closed()) return false;
    removed.push_back(std::move(other.second));  // nothing can open it any more
    return true;
  });
  return Status();
}

bool NameTable::unpublish(std::string_view name) {
  PublishedRegion removed;
  const core::Lock lock(mutex_);
  const auto found = regions_.find(name);
  if (found == regions_.end()) return false;
  removed = std::move(found->second);
  regions_.erase(found);
  return true;
}

std::optional<PublishedRegion> NameTable::find(std::string_view name) const {
  const core::Lock lock(mutex_);
  const auto found = regions_.find(name);
  if (found == regions_.end()) return std::nullopt;
  return found->second;
}

std::string NameTable::names() const {
  const core::Lock lock(mutex_);
  std::string text;
  std::size_t count = 0;
  for (const auto& [name, published] : regions_) {
    if (!text.empty()) text += ", ";
    if (++count > kNamesInErrors) return text + "...";
    text += name;
  }
  return text.empty() ? "nothing" : text;
}

void NameTable::clear() {
  std::map<std::string, PublishedRegion, std::less<>> removed;
  const core::Lock lock(mutex_);
  removed.swap(regions_);
}

}  // namespace farwrite::device
