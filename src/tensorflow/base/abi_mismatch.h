// What a user reads whose plug-in, Farwrite and TensorFlow do not fit together.
#pragma once

#include <cstdint>
#include <string>

namespace farwrite::plugin {

// The libfarwrite.so that a process has loaded.
struct LoadedFarwrite {
  std::string path;     // of the file
  std::string version;  // "0.1.0"
  std::uint32_t c_abi = 0;
};

// Both return a sentence: what the plug-in needs, what the process has, and the command that makes
// them fit. `plugin` is the path of the plug-in's library.
std::string c_abi_mismatch(const std::string& plugin, std::uint32_t needed,
                           const LoadedFarwrite& loaded);
std::string tensorflow_mismatch(const std::string& plugin, const std::string& needed,
                                const std::string& loaded);

}  // namespace farwrite::plugin
