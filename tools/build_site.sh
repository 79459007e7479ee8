#!/usr/bin/env bash
# Builds the documentation site from docs/ into out/site with the tools in the environment VENV.
#
#   tools/build_site.sh VENV
#
# A warning fails the build: a broken link, a page outside the table of contents, a docstring or a
# comment that cannot be read, a public member of a header without a comment.
set -euo pipefail

cd "$(dirname "$0")/.."
if ! tools/fetch_debs.sh doxygen:usr/bin/doxygen; then
  echo "docs: the page of the C++ API needs doxygen, and Debian's package of it could not be" \
    "fetched; install doxygen so that /usr/bin/doxygen exists" >&2
  exit 1
fi
debs=$PWD/.cache/debs
libraries=$debs/usr/lib/$(uname -m)-linux-gnu
doxygen=/usr/bin/doxygen
[[ -x $doxygen ]] || doxygen=$debs/$doxygen

rm -rf out/site out/doxygen
mkdir -p out
LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$doxygen" docs/Doxyfile
"$1/bin/python" -m sphinx --quiet --fresh-env --fail-on-warning --keep-going \
  --doctree-dir out/doctrees docs out/site
echo "docs: open out/site/index.html"
