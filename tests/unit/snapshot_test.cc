// What is committed is restored, byte for byte; what is not committed never happened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include "box/crc32c.h"
#include "core/log.h"
#include "unit/snapshot_builder.h"
#include "unit/snapshot_fixture.h"

namespace farwrite::box {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint64_t kWordsOfTwoPiecesAndMore = 2 * kSnapshotPiece / 4 + 5;

using ASnapshot = SnapshotFolder;

TEST_F(ASnapshot, RestoresEverySegmentWithItsKeyVersionAndData) {
  StoredSegment model = make_segment("model", {10}, 3);
  model.entry.spec.type = ElementType::kBytes;
  model.entry.bytes = 10;
  model.data.resize(10);
  model.entry.spec.temporary = true;
  const std::vector<StoredSegment> segments = {
      make_segment("weights", {2, 3}, 41), make_segment("an event", {0}, 17), model,
      make_segment("one element", {}, 1), make_segment("large", {kWordsOfTwoPiecesAndMore}, 2)};
  write(segments);
  reopen();
  EXPECT_EQ(restore(), segments);
}

TEST_F(ASnapshot, OfNoSegmentIsWhole) {
  write({});
  EXPECT_THAT(restore(), IsEmpty());
}

TEST_F(ASnapshot, IsKeptWithTheOneBeforeIt) {
  for (std::uint64_t version = 1; version <= 4; ++version) {
    write({make_segment("a", {4}, version)});
  }
  EXPECT_THAT(files(), ElementsAre(snapshot(3), snapshot(4)));
  EXPECT_EQ(restore(), std::vector{make_segment("a", {4}, 4)});
}

TEST_F(ASnapshot, IsKeptWithAsManyAsTheCallerWants) {
  for (const std::uint32_t keep : {3, 3, 3, 3}) write({}, keep);
  EXPECT_THAT(files(), ElementsAre(snapshot(2), snapshot(3), snapshot(4)));
  write({}, 1);
  EXPECT_THAT(files(), ElementsAre(snapshot(5)));
  write({}, 0);
  EXPECT_THAT(files(), ElementsAre(snapshot(6))) << "the newest always stays";
}

TEST_F(ASnapshot, CountsOnAfterARestart) {
  write({});
  write({});
  reopen();
  write({});
  EXPECT_THAT(files(), ElementsAre(snapshot(2), snapshot(3)));
}

TEST_F(ASnapshot, IsPrivateToItsUser) {
  write({});
  const auto rights = std::filesystem::status(snapshot(1)).permissions();
  EXPECT_EQ(rights, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(ASnapshot, FallsBackToTheOneBeforeADamagedOneAndNamesIt) {
  write({make_segment("a", {100}, 1)});
  write({make_segment("a", {100}, 2)});
  damage(snapshot(2));
  auto reader = SnapshotReader::open(*directory_);
  ASSERT_TRUE(reader.ok()) << reader.status().to_string();
  EXPECT_EQ(reader->path(), snapshot(1));
  EXPECT_THAT(reader->damaged(), ElementsAre(AllOf(HasSubstr(snapshot(2)), HasSubstr("checksum"))));
  EXPECT_EQ(rest_of(*reader), std::vector{make_segment("a", {100}, 1)});
}

TEST_F(ASnapshot, FallsBackFromWhatIsNoFile) {
  write({make_segment("a", {1}, 1)});
  std::filesystem::create_directory(snapshot(2));
  ASSERT_EQ(::mkfifo(snapshot(3).c_str(), 0600), 0);
  put(snapshot(4), "");
  auto reader = SnapshotReader::open(*directory_);
  ASSERT_TRUE(reader.ok()) << reader.status().to_string();
  EXPECT_EQ(reader->path(), snapshot(1));
  EXPECT_THAT(reader->damaged(),
              ElementsAre(HasSubstr("ends within its head"), HasSubstr("not a regular file"),
                          HasSubstr("not a regular file")));
}

TEST_F(ASnapshot, IsNotFoundWhereNoneIsWholeAndEachIsNamed) {
  write({make_segment("a", {100}, 1)});
  write({make_segment("a", {100}, 2)});
  damage(snapshot(1));
  damage(snapshot(2));
  const Status status = SnapshotReader::open(*directory_).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(snapshot(1)), HasSubstr(snapshot(2)),
                                      HasSubstr("copy a whole snapshot")));
}

TEST_F(ASnapshot, IsNotFoundInAnEmptyDirectory) {
  const Status status = SnapshotReader::open(*directory_).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr(folder_ + " holds no snapshot"));
}

// A downgrade must not go back to old data in silence, and then remove the new.
TEST_F(ASnapshot, OfALaterFormatIsAnErrorAndNotSkipped) {
  write({});
  write({});
  std::string bytes = content(snapshot(2));
  bytes[8] = 3;
  const auto sum = snapshot_checksum(crc32c({bytes.data(), 12}));
  for (std::size_t i = 0; i < sum.size(); ++i) bytes[12 + i] = static_cast<char>(sum[i]);
  put(snapshot(2), bytes);
  const Status status = SnapshotReader::open(*directory_).status();
  EXPECT_EQ(status.code(), StatusCode::kVersionMismatch);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(snapshot(2)), HasSubstr("format version 3"),
                                      HasSubstr("move the file elsewhere")));
}

TEST_F(ASnapshot, OfTheFormatBeforeIsRestored) {
  StoredSegment segment = make_segment("a", {100}, 7);
  segment.entry.id.epoch = 0;
  std::vector<std::byte> content_of_1 = segment.entry.to_bytes();
  content_of_1.erase(content_of_1.begin() + 8, content_of_1.begin() + 16);
  std::vector<std::byte> head = snapshot_head();
  head[8] = std::byte{1};
  const auto sum = snapshot_checksum(crc32c({head.data(), 12}));
  std::copy(sum.begin(), sum.end(), head.begin() + 12);
  const std::vector<std::byte> file =
      SnapshotBuilder(head).segment(view_of(content_of_1), view_of(segment.data)).finish();
  put(snapshot(1), std::string(reinterpret_cast<const char*>(file.data()), file.size()));
  EXPECT_EQ(restore(), std::vector{segment});
}

TEST_F(ASnapshot, DoesNotExistBeforeItsCommit) {
  write({make_segment("a", {1}, 1)});
  {
    SnapshotWriter writer = begin();
    add(writer, make_segment("a", {1}, 2));
    EXPECT_EQ(restore(), std::vector{make_segment("a", {1}, 1)});
    EXPECT_THAT(files(), SizeIs(2));
  }
  EXPECT_THAT(files(), ElementsAre(snapshot(1))) << "what was not committed leaves no file";
}

TEST_F(ASnapshot, IsUnchangedByACallAfterItsCommit) {
  SnapshotWriter writer = begin();
  ASSERT_TRUE(writer.commit().ok());
  const StoredSegment late = make_segment("late", {1}, 1);
  EXPECT_EQ(writer.add(late.entry, view_of(late.data)).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(writer.commit().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(restore(), IsEmpty());
}

TEST_F(ASnapshot, LeavesOutASegmentThatDoesNotFitItsData) {
  SnapshotWriter writer = begin();
  const StoredSegment segment = make_segment("weights", {2}, 1);
  const Status wrong = writer.add(segment.entry, {segment.data.data(), 7});
  EXPECT_EQ(wrong.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(wrong.message(), AllOf(HasSubstr("'weights'"), HasSubstr("7 bytes of data")));
  SnapshotEntry nameless = segment.entry;
  nameless.spec.name.clear();
  EXPECT_EQ(writer.add(nameless, view_of(segment.data)).code(), StatusCode::kInvalidArgument);
  add(writer, segment);
  ASSERT_TRUE(writer.commit().ok());
  EXPECT_EQ(restore(), std::vector{segment});
}

TEST_F(ASnapshot, RemovesWhatAKilledServerLeft) {
  directory_.reset();
  const pid_t child = ::fork();
  if (child == 0) {
    auto directory = SnapshotDirectory::open(folder_);
    auto writer = SnapshotWriter::begin(*directory);
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_THAT(files(), SizeIs(1)) << "a partial file was left";
  reopen();
  write({});
  EXPECT_THAT(files(), ElementsAre(snapshot(1)));
}

TEST_F(ASnapshot, LeavesThePartialFileOfALivingWriter) {
  SnapshotWriter living = begin();
  add(living, make_segment("a", {1}, 1));
  write({});
  EXPECT_THAT(files(), SizeIs(2));
  ASSERT_TRUE(living.commit().ok());
  EXPECT_THAT(files(), ElementsAre(snapshot(1), snapshot(2)));
  EXPECT_EQ(restore(), std::vector{make_segment("a", {1}, 1)});
}

TEST_F(ASnapshot, OfAParentIsNotRemovedByItsForkedChild) {
  SnapshotWriter writer = begin();
  const pid_t child = ::fork();
  if (child == 0) {
    {
      const SnapshotWriter dropped = std::move(writer);
    }
    ::_exit(SnapshotWriter::begin(directory_).status().code() == StatusCode::kForked ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(writer.commit().ok());
}

// Stands for a full disk: a file may grow to `bytes` and no further. Applies to a forked child,
// which returns what `act` returns.
template <typename Act>
bool with_files_limited_to(rlim_t bytes, const Act& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, bytes};
    ::_exit(::setrlimit(RLIMIT_FSIZE, &limit) == 0 && act() ? 0 : 1);
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

bool explains_exhaustion(const Status& status, const std::string& folder) {
  const std::string& message = status.message();
  if (status.code() == StatusCode::kResourceExhausted &&
      message.find(folder) != std::string::npos &&
      message.find("raise `ulimit -f`") != std::string::npos) {
    return true;
  }
  std::fprintf(stderr, "got: %s\n", status.to_string().c_str());
  return false;
}

TEST_F(ASnapshot, ThatDoesNotFitOnTheDiskLeavesTheOlderOnesAndNothingElse) {
  const StoredSegment first = make_segment("a", {1}, 1);
  const StoredSegment large = make_segment("a", {kWordsOfTwoPiecesAndMore}, 2);
  write({first});
  directory_.reset();
  EXPECT_TRUE(with_files_limited_to(5 * kSnapshotPiece / 4, [&] {
    auto directory = SnapshotDirectory::open(folder_).value();
    auto writer = SnapshotWriter::begin(directory).value();
    const Status full = writer.add(large.entry, view_of(large.data));
    return explains_exhaustion(full, folder_) &&
           writer.add(first.entry, view_of(first.data)).message() == full.message() &&
           writer.commit().message() == full.message();
  }));
  // The child ended without its destructors, as a killed server does.
  reopen();
  EXPECT_EQ(restore(), std::vector{first});
}

TEST_F(ASnapshot, ThatDoesNotFitIsRemovedWithItsWriter) {
  write({make_segment("a", {1}, 1)});
  directory_.reset();
  const StoredSegment large = make_segment("a", {kWordsOfTwoPiecesAndMore}, 2);
  EXPECT_TRUE(with_files_limited_to(5 * kSnapshotPiece / 4, [&] {
    auto directory = SnapshotDirectory::open(folder_).value();
    {
      auto writer = SnapshotWriter::begin(directory).value();
      if (writer.add(large.entry, view_of(large.data)).ok()) return false;
    }
    return files() == std::set<std::string>{snapshot(1)};
  }));
  EXPECT_THAT(files(), ElementsAre(snapshot(1)));
}

TEST_F(ASnapshot, ThatDoesNotFitFailsAtItsStartAndAtItsEndAlike) {
  directory_.reset();
  // Room for half of the head; then for all but the last byte of the end.
  EXPECT_TRUE(with_files_limited_to(kSnapshotHeadBytes / 2, [&] {
    auto directory = SnapshotDirectory::open(folder_).value();
    return explains_exhaustion(SnapshotWriter::begin(directory).status(), folder_) &&
           files().empty();
  }));
  const std::vector<std::byte> end = SnapshotEnd().to_bytes();
  const std::size_t whole =
      kSnapshotHeadBytes + snapshot_record(SnapshotRecord::kEnd, view_of(end)).size();
  EXPECT_TRUE(with_files_limited_to(whole - 1, [&] {
    auto directory = SnapshotDirectory::open(folder_).value();
    {
      auto writer = SnapshotWriter::begin(directory).value();
      if (!explains_exhaustion(writer.commit(), folder_)) return false;
    }
    return files().empty();
  }));
  EXPECT_TRUE(with_files_limited_to(whole, [&] {
    auto directory = SnapshotDirectory::open(folder_).value();
    return SnapshotWriter::begin(directory).value().commit().ok();
  })) << "one byte more is enough";
  EXPECT_THAT(files(), ElementsAre(snapshot(1)));
}

TEST_F(ASnapshot, IsExplainedWhenItsDirectoryIsGone) {
  SnapshotWriter writer = begin();
  std::filesystem::remove_all(folder_);
  const Status status = writer.commit();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(folder_), HasSubstr("create the directory")));
  EXPECT_EQ(SnapshotWriter::begin(directory_).status().code(), StatusCode::kNotFound);
}

// What cannot be removed is reported, and the new snapshot counts all the same.
TEST_F(ASnapshot, IsCommittedThoughAnOlderOneCannotBeRemoved) {
  std::filesystem::create_directories(snapshot(1) + "/not empty");
  // The log is that of the process, in which threads of earlier tests may write.
  static std::mutex mutex;
  static std::vector<std::string>* const lines = new std::vector<std::string>();
  core::set_log_level(core::LogLevel::kWarning);  // other tests may have turned it off
  core::set_log_sink([](core::LogLevel, std::string_view line) {
    const std::lock_guard<std::mutex> lock(mutex);
    lines->emplace_back(line);
  });
  write({make_segment("a", {1}, 1)}, 1);
  core::set_log_sink(nullptr);
  EXPECT_EQ(restore(), std::vector{make_segment("a", {1}, 1)});
  const std::lock_guard<std::mutex> lock(mutex);
  std::vector<std::string> ours;
  std::copy_if(lines->begin(), lines->end(), std::back_inserter(ours),
               [&](const std::string& line) { return line.find(folder_) != std::string::npos; });
  EXPECT_THAT(ours,
              ElementsAre(AllOf(HasSubstr("remove an old snapshot"), HasSubstr(snapshot(1)))));
}

}  // namespace
}  // namespace farwrite::box
