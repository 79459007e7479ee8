// A folder of the test's own, and the environment variables by which a cookie is found.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>

namespace farwrite {

class TokenEnvironment : public testing::Test {
 protected:
  TokenEnvironment() {
    std::string made = testing::TempDir() + "farwrite-token-XXXXXX";
    EXPECT_NE(::mkdtemp(made.data()), nullptr);
    folder_ = made;
    set("XDG_RUNTIME_DIR", folder("runtime"));
    set("HOME", folder("home"));
    set("FARWRITE_TOKEN_FILE", std::nullopt);
  }
  ~TokenEnvironment() override {
    for (const auto& [name, value] : before_) put(name, value);
    std::filesystem::remove_all(folder_);
  }
  void set(const std::string& name, const std::optional<std::string>& value) {
    const char* const old = std::getenv(name.c_str());
    before_.emplace(name, old == nullptr ? std::nullopt : std::optional<std::string>(old));
    put(name, value);
  }
  // A path in the test's folder.
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string folder(const std::string& name) const {
    std::filesystem::create_directories(path(name));
    return path(name);
  }
  static void write(const std::string& path, const std::string& text, mode_t mode = 0600) {
    std::ofstream(path) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
  }
  static std::string read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  static mode_t mode(const std::string& path) {
    struct stat found{};
    EXPECT_EQ(::stat(path.c_str(), &found), 0) << path;
    return found.st_mode & 07777;
  }

 private:
  static void put(const std::string& name, const std::optional<std::string>& value) {
    value.has_value() ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }

  std::string folder_;
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace farwrite
