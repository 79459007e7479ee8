#include "farwrite/endpoint.h"

#include <gtest/gtest.h>

namespace farwrite {
namespace {

TEST(Endpoint, ReadsWhatItWrites) {
  for (const char* text : {"127.0.0.1:7777", "host.example:1", "[::1]:65535", "localhost:0"}) {
    auto endpoint = Endpoint::parse(text);
    ASSERT_TRUE(endpoint.ok()) << endpoint.status().to_string();
    EXPECT_EQ(endpoint->to_string(), text);
    EXPECT_EQ(Endpoint::parse(endpoint->to_string()).value(), *endpoint);
  }
  EXPECT_EQ(Endpoint::parse("[::1]:2").value().host, "::1");
  EXPECT_EQ(Endpoint::parse("a:2").value().port, 2);
}

TEST(Endpoint, ShowsWhatIsWrongAndARightOne) {
  for (const char* text :
       {"", ":", "host", "host:", ":7", "host:port", "host:-1", "host:65536", "host:7x", "::1:7",
        "[]:7", "host:7:8", "host: 7", "host:+7", "tcp://host:7"}) {
    const auto endpoint = Endpoint::parse(text);
    ASSERT_FALSE(endpoint.ok()) << text;
    EXPECT_EQ(endpoint.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(endpoint.status().message().find("\"" + std::string(text) + "\""), std::string::npos);
    EXPECT_NE(endpoint.status().message().find("127.0.0.1:7777"), std::string::npos);
  }
  EXPECT_NE(Endpoint::parse("tcp://host:7").status().message().find("a scheme"), std::string::npos);
}

}  // namespace
}  // namespace farwrite
