// The targets of sessions whose steps go over Farwrite: "grpc+farwrite://host:port".
#pragma once

namespace farwrite::plugin {

inline constexpr char kSessionTarget[] = "grpc+farwrite://";
inline constexpr char kStockTarget[] = "grpc://";

}  // namespace farwrite::plugin
