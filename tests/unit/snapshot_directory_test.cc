// One server has a directory of snapshots at a time, and each mistake is explained.
#include "box/snapshot_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/snapshot_fixture.h"

namespace farwrite::box {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using ADirectoryOfSnapshots = SnapshotFolder;

TEST_F(ADirectoryOfSnapshots, IsRefusedToASecondServer) {
  const Status second = SnapshotDirectory::open(folder_).status();
  EXPECT_EQ(second.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(second.message(),
              AllOf(HasSubstr(folder_), HasSubstr("process " + std::to_string(::getpid())),
                    HasSubstr("name another directory")));
  reopen();  // the lock ends with its server
}

TEST_F(ADirectoryOfSnapshots, IsRefusedToAServerOfAnotherProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    const Status second = SnapshotDirectory::open(folder_).status();
    ::_exit(second.code() == StatusCode::kAlreadyExists ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(ADirectoryOfSnapshots, IsFreeWhenItsServerWasKilled) {
  directory_.reset();
  int ready[2] = {-1, -1};
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto opened = SnapshotDirectory::open(folder_);
    (void)!::write(ready[1], opened.ok() ? "y" : "n", 1);
    ::pause();
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_EQ(SnapshotDirectory::open(folder_).status().code(), StatusCode::kAlreadyExists);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ::close(ready[0]);
  ::close(ready[1]);
  reopen();
}

TEST_F(ADirectoryOfSnapshots, StaysLockedWhenAForkedChildDropsItsCopy) {
  const pid_t child = ::fork();
  if (child == 0) {
    directory_.reset();
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(SnapshotDirectory::open(folder_).status().code(), StatusCode::kAlreadyExists);
}

TEST_F(ADirectoryOfSnapshots, IsFreeThoughAForkedChildLivesOn) {
  int hold[2] = {-1, -1};
  ASSERT_EQ(::pipe(hold), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(hold[1]);
    char end = 0;
    (void)!::read(hold[0], &end, 1);
    ::_exit(0);
  }
  reopen();
  ::close(hold[1]);
  ::close(hold[0]);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST_F(ADirectoryOfSnapshots, IsLockedAgainOnceItWasReplaced) {
  for (const bool whole : {true, false}) {
    if (whole) {
      ASSERT_EQ(::rename(folder_.c_str(), (folder_ + ".old").c_str()), 0);
      ASSERT_EQ(::mkdir(folder_.c_str(), 0777), 0);
    } else {
      put(snapshot(7), "x");  // of this server
      ASSERT_EQ(::unlink(path(".lock").c_str()), 0);
    }
    auto begun = directory_->create_partial();
    ASSERT_TRUE(begun.ok()) << begun.status().to_string();
    directory_->drop_partial(begun->path);
    EXPECT_EQ(SnapshotDirectory::open(folder_).status().code(), StatusCode::kAlreadyExists);
  }
  std::filesystem::remove_all(folder_ + ".old");
}

TEST_F(ADirectoryOfSnapshots, OfAnotherServerIsNotTakenOverByItsPath) {
  ASSERT_EQ(::rename(folder_.c_str(), (folder_ + ".old").c_str()), 0);
  ASSERT_EQ(::mkdir(folder_.c_str(), 0777), 0);
  {
    const auto other = SnapshotDirectory::open(folder_);
    ASSERT_TRUE(other.ok()) << other.status().to_string();
    EXPECT_EQ(directory_->create_partial().status().code(), StatusCode::kAlreadyExists);
    put(snapshot(7), "x");
  }
  const Status begun = directory_->create_partial().status();
  EXPECT_EQ(begun.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(begun.message(), AllOf(HasSubstr(folder_), HasSubstr("move them away")));
  EXPECT_TRUE(std::filesystem::exists(snapshot(7)));
  std::filesystem::remove_all(folder_ + ".old");
}

TEST_F(ADirectoryOfSnapshots, ListsTheNewestFirstAndNothingElse) {
  for (const std::uint64_t sequence : {7, 123, 99}) put(snapshot(sequence), "x");
  for (const char* other : {"snapshot-7.farwrite", "snapshot-00000000000000000007.farwrite.old",
                            "snapshot-99999999999999999999.farwrite",
                            "snapshot-0000000000000000000x.farwrite", ".partial-1"}) {
    put(path(other), "x");
  }
  const auto found = directory_->list().value();
  std::vector<std::string> paths;
  for (const SnapshotName& each : found) paths.push_back(each.path);
  EXPECT_THAT(paths, ElementsAre(snapshot(123), snapshot(99), snapshot(7)));
}

// Root may do everything that rights forbid, so these failures do not depend on rights.
TEST_F(ADirectoryOfSnapshots, IsExplainedWhenItCannotBeUsed) {
  const Status missing = SnapshotDirectory::open(path("missing")).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), AllOf(HasSubstr(path("missing")), HasSubstr("No such file"),
                                       HasSubstr("create the directory")));
  put(path("file"), "x");
  const Status below_a_file = SnapshotDirectory::open(path("file/below")).status();
  EXPECT_EQ(below_a_file.code(), StatusCode::kNotFound);
  EXPECT_THAT(below_a_file.message(),
              AllOf(HasSubstr(path("file/below")), HasSubstr("Not a directory"),
                    HasSubstr("name a directory")));
}

TEST_F(ADirectoryOfSnapshots, IsExplainedWhenItIsNotWritable) {
  const Status read_only = SnapshotDirectory::open("/proc/self").status();
  EXPECT_FALSE(read_only.ok());
  EXPECT_THAT(read_only.message(), HasSubstr("/proc/self/.lock cannot be opened"));
  EXPECT_EQ(snapshot_io_error("write", "/a", EACCES).code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(snapshot_io_error("write", "/a", EROFS).code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(snapshot_io_error("write", "/a", EACCES).message(),
              HasSubstr("let this user create files"));
}

TEST_F(ADirectoryOfSnapshots, IsTheSameAfterTheWorkingDirectoryChanged) {
  directory_.reset();
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  directory_ = SnapshotDirectory::open(".").value();
  std::filesystem::current_path(before);
  write({make_segment("a", {1}, 1)});
  EXPECT_THAT(files(), ElementsAre(snapshot(1)));
}

TEST_F(ADirectoryOfSnapshots, IsExplainedWhenTheNumbersAreUsedUp) {
  put(snapshot(~std::uint64_t{0}), "x");
  SnapshotWriter writer = begin();
  const Status status = writer.commit();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("rename or remove that file"));
}

}  // namespace
}  // namespace farwrite::box
