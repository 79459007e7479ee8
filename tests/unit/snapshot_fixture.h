// A directory of the test's own, and segments to write into snapshots.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "box/snapshot_directory.h"
#include "box/snapshot_reader.h"
#include "box/snapshot_writer.h"
#include "unit/damage.h"

namespace farwrite::box {

// A segment and its data.
struct StoredSegment {
  SnapshotEntry entry;
  std::vector<std::byte> data;

  friend bool operator==(const StoredSegment& a, const StoredSegment& b) {
    // The encoding holds every field.
    return a.entry.to_bytes() == b.entry.to_bytes() && a.data == b.data;
  }
};

inline StoredSegment make_segment(const std::string& name, std::vector<std::uint64_t> dims,
                                  std::uint64_t version) {
  StoredSegment segment;
  segment.entry.spec.name = name;
  segment.entry.spec.type = ElementType::kInt32;
  segment.entry.spec.dims = std::move(dims);
  segment.entry.spec.description = "what " + name + " holds";
  segment.entry.spec.buffers = 3;
  segment.entry.key = 1000 + version;
  segment.entry.id = {.epoch = 500 + version, .version = version};
  segment.entry.bytes = 4;
  for (const std::uint64_t dim : segment.entry.spec.dims) segment.entry.bytes *= dim;
  segment.data.resize(segment.entry.bytes);
  for (std::size_t i = 0; i < segment.data.size(); ++i) {
    segment.data[i] = static_cast<std::byte>(i * 31 + i / 256 + version);
  }
  return segment;
}

class SnapshotFolder : public testing::Test {
 protected:
  SnapshotFolder() {
    std::string made = testing::TempDir() + "farwrite-snapshots-XXXXXX";
    EXPECT_NE(::mkdtemp(made.data()), nullptr);
    folder_ = made;
    reopen();
  }
  ~SnapshotFolder() override {
    directory_.reset();
    std::filesystem::remove_all(folder_);
  }

  // As a server that starts again does.
  void reopen() {
    directory_.reset();
    auto opened = SnapshotDirectory::open(folder_);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    directory_ = *opened;
  }

  SnapshotWriter begin() {
    auto writer = SnapshotWriter::begin(directory_);
    EXPECT_TRUE(writer.ok()) << writer.status().to_string();
    return std::move(writer).value();
  }
  static void add(SnapshotWriter& writer, const StoredSegment& segment) {
    const Status status = writer.add(segment.entry, view_of(segment.data));
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  void write(const std::vector<StoredSegment>& segments, std::uint32_t keep = kKeptSnapshots) {
    SnapshotWriter writer = begin();
    for (const StoredSegment& segment : segments) add(writer, segment);
    const Status status = writer.commit(keep);
    EXPECT_TRUE(status.ok()) << status.to_string();
  }

  static std::vector<StoredSegment> rest_of(SnapshotReader& reader) {
    std::vector<StoredSegment> segments;
    while (true) {
      auto entry = reader.next();
      EXPECT_TRUE(entry.ok()) << entry.status().to_string();
      if (!entry.ok() || !entry->has_value()) return segments;
      StoredSegment segment{**entry, std::vector<std::byte>((*entry)->bytes)};
      const Status status = reader.read({segment.data.data(), segment.data.size()});
      EXPECT_TRUE(status.ok()) << status.to_string();
      segments.push_back(std::move(segment));
    }
  }
  // What a server that starts now restores.
  std::vector<StoredSegment> restore() {
    auto reader = SnapshotReader::open(*directory_);
    EXPECT_TRUE(reader.ok()) << reader.status().to_string();
    return reader.ok() ? rest_of(*reader) : std::vector<StoredSegment>();
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string snapshot(std::uint64_t sequence) const {
    std::string digits = std::to_string(sequence);
    return path("snapshot-" + std::string(20 - digits.size(), '0') + digits + ".farwrite");
  }
  // The paths of all files but the lock.
  std::set<std::string> files() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (entry.path().filename() != ".lock") found.insert(entry.path());
    }
    return found;
  }
  static std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  static void put(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  }
  static void damage(const std::string& path) {
    std::string bytes = content(path);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
    put(path, bytes);
  }

  std::string folder_;
  std::shared_ptr<SnapshotDirectory> directory_;
};

}  // namespace farwrite::box
