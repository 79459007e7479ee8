#!/usr/bin/env bash
# Writes the seeds of every fuzz target to tests/fuzz/corpus, with Farwrite's own encoders.
#
#   tools/make_fuzz_corpus.sh [BUILD]       build/release by default
#
# Run it when a message or a target changed, and commit what it writes. The seeds of the TensorFlow
# plug-in's targets need Farwrite and TensorFlow in .venv, and are left alone without.
set -euo pipefail

cd "$(dirname "$0")/.."
build=${1:-build/release}
if [[ ! -e $build/build.ninja ]]; then
  [[ $# -eq 0 ]] || { echo "make_fuzz_corpus: $build is no build folder" >&2; exit 2; }
  cmake --preset release --log-level=WARNING >/dev/null
fi
cmake --build "$build" --target farwrite_fuzz_corpus -- --quiet
"$build/tests/fuzz/farwrite_fuzz_corpus" tests/fuzz/corpus
if .venv/bin/python tests/fuzz/tensorflow/flags.py compile >/dev/null 2>&1; then
  cmake -DFARWRITE_PLUGIN_FUZZ=ON "$build" --log-level=WARNING >/dev/null
  cmake --build "$build" --target farwrite_plugin_fuzz_corpus -- --quiet
  "$build/tests/fuzz/tensorflow/farwrite_plugin_fuzz_corpus" tests/fuzz/tensorflow/corpus
fi
git status --short tests/fuzz/corpus tests/fuzz/tensorflow/corpus
