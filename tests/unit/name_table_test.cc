#include "device/name_table.h"

#include <thread>
#include <vector>

#include "unit/region_fixture.h"

namespace farwrite::device {
namespace {

class Names : public WithRegions {
 protected:
  NameTable names_;
};

TEST_F(Names, FindWhatWasPublished) {
  const auto region = make_region();
  ASSERT_TRUE(names_.publish("weights", {region, "float32[4]"}).ok());
  const auto found = names_.find("weights");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->region, region);
  EXPECT_EQ(found->description, "float32[4]");
  EXPECT_FALSE(names_.find("weight").has_value());
  EXPECT_FALSE(names_.find("").has_value());
}

TEST_F(Names, KeepTheirRegionsAlive) {
  ASSERT_TRUE(names_.publish("a", {make_region(), ""}).ok());
  EXPECT_GT(used(), 0u);
  EXPECT_TRUE(names_.unpublish("a"));
  EXPECT_FALSE(names_.unpublish("a"));
  EXPECT_EQ(used(), 0u);
  ASSERT_TRUE(names_.publish("a", {make_region(), ""}).ok());
  names_.clear();
  EXPECT_EQ(used(), 0u);
}

TEST_F(Names, AreReplacedByTheNextRegion) {
  ASSERT_TRUE(names_.publish("a", {make_region(), "old"}).ok());
  const auto region = make_region();
  ASSERT_TRUE(names_.publish("a", {region, "new"}).ok());
  EXPECT_EQ(names_.find("a")->description, "new");
  EXPECT_EQ(used(), 4096u);
}

TEST_F(Names, HaveABoundedLength) {
  const auto region = make_region();
  EXPECT_TRUE(names_.publish(std::string(kMaxNameBytes, 'n'), {region, ""}).ok());
  EXPECT_EQ(names_.publish(std::string(kMaxNameBytes + 1, 'n'), {region, ""}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(names_.publish("", {region, ""}).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(names_.publish("d", {region, std::string(kMaxDescriptionBytes, 'd')}).ok());
  const Status refused = names_.publish("d", {region, std::string(kMaxDescriptionBytes + 1, 'd')});
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("1025"), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find("at most 1024"), std::string::npos) << refused.message();
}

TEST_F(Names, AreListedForErrorsUpToAHandful) {
  EXPECT_EQ(names_.names(), "nothing");
  for (const char* name : {"b", "a", "c"}) {
    ASSERT_TRUE(names_.publish(name, {make_region(), ""}).ok());
  }
  EXPECT_EQ(names_.names(), "a, b, c");
  for (char name = 'd'; name <= 'z'; ++name) {
    ASSERT_TRUE(names_.publish(std::string(1, name), {make_region(), ""}).ok());
  }
  EXPECT_EQ(names_.names(), "a, b, c, d, e, f, g, h, ...");
}

TEST_F(Names, StandManyThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, name = std::string(1, static_cast<char>('a' + i % 2))] {
      for (int round = 0; round < 500; ++round) {
        EXPECT_TRUE(names_.publish(name, {make_region(), "d"}).ok());
        const auto found = names_.find(name);
        EXPECT_TRUE(!found.has_value() || found->description == "d");
        if (round % 3 == 0) names_.unpublish(name);
        (void)names_.names();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  names_.clear();
  EXPECT_EQ(used(), 0u);
}

}  // namespace
}  // namespace farwrite::device
