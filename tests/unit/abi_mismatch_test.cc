#include "base/abi_mismatch.h"

#include <gtest/gtest.h>

namespace farwrite::plugin {
namespace {

const LoadedFarwrite kLoaded{"/env/farwrite/libfarwrite.so", "0.2.0", 8};

TEST(AbiMismatch, SaysWhatIsNeededWhatIsThereAndHowToCompileAgain) {
  EXPECT_EQ(c_abi_mismatch("/cache/farwrite_tensorflow.so", 7, kLoaded),
            "Farwrite: the plug-in /cache/farwrite_tensorflow.so needs C ABI 7 of Farwrite, and"
            " this process has loaded Farwrite 0.2.0, which has C ABI 8, from"
            " /env/farwrite/libfarwrite.so; compile the plug-in for it: farwrite tensorflow clean"
            " && farwrite tensorflow build; then start this process again");
}

TEST(AbiMismatch, APlugInThatCameCompiledIsInstalledAgain) {
  const std::string sentence =
      c_abi_mismatch("/env/farwrite_tensorflow/farwrite_tensorflow.so", 7, kLoaded);
  EXPECT_NE(sentence.find("; install the plug-in of that release: pip install --force-reinstall"
                          " --no-deps farwrite_tensorflow-0.2.0-*.whl; then start"),
            std::string::npos)
      << sentence;
}

TEST(AbiMismatch, NamesBothTensorFlows) {
  EXPECT_EQ(tensorflow_mismatch("/cache/farwrite_tensorflow.so", "2.21.0", "2.21.1"),
            "Farwrite: the plug-in /cache/farwrite_tensorflow.so needs TensorFlow 2.21.0, and this"
            " process has loaded TensorFlow 2.21.1; compile a plug-in for it: farwrite tensorflow"
            " build; then start this process again");
}

}  // namespace
}  // namespace farwrite::plugin
