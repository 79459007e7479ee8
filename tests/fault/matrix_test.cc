// Every call under every fault ends as its row says, and leaves nothing behind.
#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "fault/child_process.h"
#include "fault/fixture.h"
#include "fault/matrix_world.h"

namespace farwrite::fault {
namespace {

// Faults that one process goes through. While its peer is stopped, calls wait until their limit.
const std::vector<std::vector<std::string>> kTogether = {
    {"killed", "closed", "shut", "parent", "descriptors"}, {"stopped"}, {"forked"}};

TEST(Matrix, HasARowForEveryEntryOfTheHeadersAndNoOther) {
  std::set<std::string> rows;
  for (const Row& row : matrix_rows()) {
    EXPECT_TRUE(rows.insert(row.entry).second) << row.entry << " has two rows";
  }
  const std::set<std::string> entries = matrix_entries();
  std::vector<std::string> differ;
  std::set_symmetric_difference(rows.begin(), rows.end(), entries.begin(), entries.end(),
                                std::back_inserter(differ));
  EXPECT_EQ(differ, std::vector<std::string>());
}

TEST(Matrix, GivesEveryFaultItsTurn) {
  std::set<std::string> turns = {"none"};
  for (const auto& together : kTogether) turns.insert(together.begin(), together.end());
  for (const auto& [fault, meaning] : faults()) EXPECT_EQ(turns.count(fault), 1u) << fault;
}

TEST_F(FaultTest, MatrixRefusesAWordThatIsNeitherAFaultNorAnEntry) {
  const std::vector<std::vector<std::string>> lines = {
      {"tcp", "stoped", "Channel::flush"}, {"tcp", "stopped", "Channel::flsh"}, {"tpc", "stopped"}};
  for (const auto& [arguments, word] :
       {std::pair(lines[0], "stoped"), std::pair(lines[1], "Channel::flsh"),
        std::pair(lines[2], "tpc")}) {
    ChildProcess process("matrix", arguments);
    const int status = process.finish();
    EXPECT_NE(process.last_line().find("'" + std::string(word) + "'"), std::string::npos)
        << process.said();
    EXPECT_EQ(status, 2);
  }
}

class MatrixCalls : public FaultTest,
                    public testing::WithParamInterface<std::tuple<const char*, int>> {};

TEST_P(MatrixCalls, EndAsTheirRowsSay) {
  const auto [fabric, part] = GetParam();
  std::vector<std::string> arguments = {fabric};
  for (const std::string& fault : kTogether.at(part)) arguments.push_back(fault);
  ChildProcess process("matrix", arguments);
  const int status = process.finish();
  EXPECT_EQ(process.last_line(), "survivor fine") << process.said();
  EXPECT_EQ(status, 0);
}
INSTANTIATE_TEST_SUITE_P(Fabrics, MatrixCalls,
                         testing::Combine(testing::Values("shm", "tcp", "encrypted"),
                                          testing::Range(0, 3)));
// Its network can kill a host, and none of its processes: there is one.
INSTANTIATE_TEST_SUITE_P(Simulated, MatrixCalls,
                         testing::Combine(testing::Values("simulated"), testing::Values(0)));

}  // namespace
}  // namespace farwrite::fault
