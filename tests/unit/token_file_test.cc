#include "core/token_file.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <set>
#include <thread>
#include <vector>

#include "unit/token_environment.h"

namespace farwrite::core {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class TokenFile : public TokenEnvironment {
 protected:
  // What reading `path` fails with; the error names the file.
  Status refusal(const std::string& path) {
    const Status status = read_or_make_token(path, /*make_folders=*/true).status();
    EXPECT_THAT(status.message(), HasSubstr(path));
    return status;
  }
  const std::string token_ = std::string(64, 'a');
};

TEST_F(TokenFile, IsMadeWithItsFoldersForItsUserAlone) {
  for (const mode_t mask : {mode_t{0}, mode_t{077}}) {
    const mode_t before = ::umask(mask);
    const std::string file = path("cache" + std::to_string(mask) + "/farwrite/token");
    const auto made = read_or_make_token(file, /*make_folders=*/true);
    ::umask(before);
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ(made.value().size(), 64u) << "256 bits in hexadecimal digits";
    EXPECT_EQ(read(file), made.value() + "\n");
    EXPECT_EQ(mode(file), 0600u);
    EXPECT_EQ(mode(file.substr(0, file.rfind('/'))) & 077, 0u);
  }
}

TEST_F(TokenFile, IsAnotherOneEveryTimeItIsMade) {
  const auto one = read_or_make_token(path("one"), false),
             two = read_or_make_token(path("two"), false);
  EXPECT_NE(one.value(), two.value());
}

TEST_F(TokenFile, IsOneForAllThatMakeItAtOnce) {
  for (int round = 0; round < 20; ++round) {
    const std::string folder = path("round" + std::to_string(round));
    std::vector<std::string> tokens(8);
    std::vector<std::thread> makers;
    for (std::string& token : tokens) {
      makers.emplace_back([&] { token = read_or_make_token(folder + "/x/token", true).value(); });
    }
    for (std::thread& maker : makers) maker.join();
    EXPECT_EQ(std::set<std::string>(tokens.begin(), tokens.end()).size(), 1u);
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder + "/x")) {
      EXPECT_EQ(entry.path().filename(), "token") << "a draft is left";
      ++files;
    }
    EXPECT_EQ(files, 1);
  }
}

TEST_F(TokenFile, IsReadWithoutTheWhiteSpaceBehindIt) {
  write(path("token"), token_ + " \r\n\n");
  EXPECT_EQ(read_or_make_token(path("token"), false).value(), token_);
  std::filesystem::create_symlink(path("token"), path("link"));
  EXPECT_EQ(read_or_make_token(path("link"), false).value(), token_) << "as Kubernetes mounts them";
}

TEST_F(TokenFile, IsRefusedWhereOthersCanReadOrWriteIt) {
  for (const mode_t open : {0640, 0604, 0620, 0602, 0644, 0610}) {
    write(path("token"), token_, open);
    const Status status = refusal(path("token"));
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
    EXPECT_THAT(status.message(), HasSubstr("chmod 600 " + path("token")));
  }
  write(path("token"), token_, 0400);
  EXPECT_TRUE(read_or_make_token(path("token"), false).ok());
}

TEST_F(TokenFile, OfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give a file away";
  write(path("token"), token_);
  ASSERT_EQ(::chown(path("token").c_str(), 65534, 65534), 0);
  const Status status = refusal(path("token"));
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("uid 65534"), HasSubstr("FARWRITE_TOKEN_FILE")));
}

TEST_F(TokenFile, ThatIsCutShortIsRefusedAndNeverMadeAnew) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{31}, std::size_t{4097}}) {
    write(path("token"), std::string(size, 'a'));
    const Status status = refusal(path("token"));
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << size;
    EXPECT_THAT(status.message(), HasSubstr("or delete it"));
    EXPECT_EQ(read(path("token")).size(), size);
  }
  for (const std::size_t size : {std::size_t{32}, std::size_t{4096}}) {
    write(path("token"), std::string(size, 'a'));
    EXPECT_EQ(read_or_make_token(path("token"), false).value().size(), size);
  }
}

TEST_F(TokenFile, ThatIsNoFileIsRefusedAtOnce) {
  folder("folder");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const char* const name : {"folder", "pipe"}) {
    EXPECT_EQ(refusal(path(name)).code(), StatusCode::kFailedPrecondition) << name;
  }
}

TEST_F(TokenFile, ThatCannotBeMadeSaysWhatToSet) {
  write(path("file"), "");
  for (const std::string& bad :
       {path("file/farwrite/token"), std::string("/proc/nowhere/x/token")}) {
    const Status status = refusal(bad);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("FARWRITE_TOKEN_FILE"));
  }
  const Status missing = read_or_make_token(path("no/such/token"), /*make_folders=*/false).status();
  EXPECT_EQ(missing.code(), StatusCode::kUnavailable);
  EXPECT_FALSE(std::filesystem::exists(path("no")));
}

TEST_F(TokenFile, HasAnAbsolutePath) {
  EXPECT_EQ(refusal("token").code(), StatusCode::kInvalidArgument);
}

TEST_F(TokenFile, OfACookieLiesInTheRuntimeFolderElseAtHome) {
  EXPECT_EQ(cookie_path().value(), path("runtime/farwrite/token"));
  const std::string at_home = path("home/.cache/farwrite/token");
  for (const std::optional<std::string>& unusable :
       {std::optional<std::string>(), std::optional<std::string>(""),
        std::optional<std::string>("runtime"), std::optional<std::string>(path("missing"))}) {
    set("XDG_RUNTIME_DIR", unusable);
    EXPECT_EQ(cookie_path().value(), at_home) << unusable.value_or("(unset)");
  }
}

TEST_F(TokenFile, OfACookieLiesInNoFolderOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give a folder away";
  ASSERT_EQ(::chown(path("runtime").c_str(), 65534, 65534), 0);
  EXPECT_EQ(cookie_path().value(), path("home/.cache/farwrite/token"));
  ASSERT_EQ(::chown(path("home").c_str(), 65534, 65534), 0);  // as after sudo
  EXPECT_EQ(cookie_path().value(), "/root/.cache/farwrite/token");
}

}  // namespace
}  // namespace farwrite::core
