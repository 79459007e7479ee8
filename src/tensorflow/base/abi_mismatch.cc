#include "base/abi_mismatch.h"

namespace farwrite::plugin {
namespace {

// Whether the package farwrite-tensorflow has brought it, so that its user may have no compiler.
bool is_prebuilt(const std::string& plugin) {
  return plugin.find("/farwrite_tensorflow/") != std::string::npos;
}

}  // namespace

std::string c_abi_mismatch(const std::string& plugin, std::uint32_t needed,
                           const LoadedFarwrite& loaded) {
  const std::string remedy =
      is_prebuilt(plugin)
          ? "install the plug-in of that release: pip install --force-reinstall --no-deps"
            " farwrite_tensorflow-" +
                loaded.version + "-*.whl"
          : "compile the plug-in for it: farwrite tensorflow clean && farwrite tensorflow build";
  return "Farwrite: the plug-in " + plugin + " needs C ABI " + std::to_string(needed) +
         " of Farwrite, and this process has loaded Farwrite " + loaded.version +
         ", which has C ABI " + std::to_string(loaded.c_abi) + ", from " + loaded.path + "; " +
         remedy + "; then start this process again";
}

std::string tensorflow_mismatch(const std::string& plugin, const std::string& needed,
                                const std::string& loaded) {
  return "Farwrite: the plug-in " + plugin + " needs TensorFlow " + needed +
         ", and this process has loaded TensorFlow " + loaded +
         "; compile a plug-in for it: farwrite tensorflow build; then start this process again";
}

}  // namespace farwrite::plugin
