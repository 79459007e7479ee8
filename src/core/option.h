// Option: one row of the tables of options (core/option_table.h), and the parser of its text.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "farwrite/options.h"

namespace farwrite::core {

// What the text of an option is. `farwrite options` shows shown(kind).
enum class OptionKind : std::uint8_t {
  kText,
  kToken,
  kEndpoint,
  kFabrics,
  kCount,
  kSize,     // bytes
  kSeconds,  // in the row and in its field: nanoseconds
  kSwitch,
  kChoice,  // one of the row's words
  kFile,
  kPorts,  // from the first to the last
};

std::string_view shown(OptionKind kind);

// Where an option works; a row adds several up.
enum OptionPlace : std::uint8_t {
  kInDevice = 1,  // a keyword of farwrite.Device in Python, and its environment variable
  kInPlugin = 2,  // the device of the TensorFlow plug-in, by the environment
  kInGrpc = 4,    // gRPC over Farwrite, by the environment
  kInCommands = 8,
  kInTests = 16,
};

// The variable that an option's value is stored in. In a string_view: the row's word, "on" or
// "off".
using OptionField =
    std::variant<std::string*, std::string_view*, Token*, Endpoint*, std::vector<FabricKind>*,
                 std::uint8_t*, std::uint16_t*, std::uint32_t*, std::uint64_t*, int*,
                 std::chrono::nanoseconds*, bool*, std::optional<bool>*, HugePages*, PortRange*>;

// The bounds of a number, of nanoseconds, or of a text's length. A field outside of them that holds
// its default is valid as well: such a default means "choose".
struct OptionBounds {
  std::int64_t low = 0;
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
};

struct Option {
  std::string_view name;      // the keyword, or the option of the command line; empty: none
  std::string_view variable;  // in the environment; empty: none
  unsigned places;
  OptionKind kind;
  OptionField (*field)(DeviceOptions& options);  // null: no field of DeviceOptions
  std::string_view help;
  OptionBounds bounds = {};
  std::string_view default_text = {};  // shown in place of the field's default
  std::span<const std::string_view> choices = {};
};

inline constexpr std::size_t kMaxDeviceNameBytes = 255;  // DeviceOptions::name

// Stores the value that `text` gives to `option`. Returns nothing, or what is wrong with the text:
// "is not a whole number from 1 to 64". Then `field` is unchanged.
std::string parse(const Option& option, std::string_view text, OptionField field);

// Nothing, or what is wrong with the number, or the length of the text, in the option's field:
// "3 is not ...". It only reads.
std::string check(const Option& option, DeviceOptions& options);

// "off", "transparent", "explicit": in the order of the enumeration.
inline constexpr std::array<std::string_view, 3> kHugePagesNames = {"off", "transparent",
                                                                    "explicit"};

}  // namespace farwrite::core
