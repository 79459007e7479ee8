// BoxConformance: a box and its clients, on every fabric.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "conformance/conformance.h"

namespace farwrite::box {

class BoxConformance : public Conformance {
 protected:
  // Clients and the server close before the fabric's double does.
  ~BoxConformance() override;
  void SetUp() override { serve({}); }

  // Replaces the server. `options.device` is set here.
  void serve(ServerOptions options);
  // On the thread of the test alone.
  Client connect();
  Server& server() { return server_; }

  // A float32 vector filled with zeros.
  static SegmentSpec vector_spec(const std::string& name, std::uint64_t elements);
  static Segment create(const Client& client, const SegmentSpec& spec);
  static std::vector<float> read(const Segment& segment, const ReadOptions& options = {});
  static Change change_of(Operation operation, double factor = 1.0);
  static Change accumulate(const std::vector<float>& values, double factor = 1.0);
  // Posts and waits; the version, or 0 after a failure.
  static std::uint64_t apply(const Segment& segment, const Change& change);
  static std::uint64_t write(const Segment& segment, const std::vector<float>& values);
  static Status error_of(const Segment& segment, const Change& change);

 private:
  Server server_;
  std::vector<Client> clients_;
};

// Whether every element is `value`; shows the first that is not.
testing::AssertionResult all_are(float value, const std::vector<float>& values);

ByteView view(const std::vector<float>& values);

}  // namespace farwrite::box
