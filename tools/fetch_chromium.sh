#!/usr/bin/env bash
# Unpacks Debian's Chromium without a window, and a font, into .cache/chromium, and prints the path
# of the program. Nothing is installed, and root is not needed. It downloads about 130 MB once.
#
#   tools/fetch_chromium.sh
#
# The program needs LD_LIBRARY_PATH with .cache/chromium/usr/lib/MACHINE-linux-gnu and its folder
# pulseaudio, where the libraries are that this machine lacks.
set -euo pipefail

cd "$(dirname "$0")/.."
into=$PWD/.cache/chromium
program=usr/lib/chromium/chromium-headless-shell

mkdir -p "$into"
{
  flock 9
  tools/fetch_debs.sh --into "$into" chromium-headless-shell:$program \
    fonts-dejavu-core:usr/share/fonts/truetype/dejavu/DejaVuSans.ttf >&2
} 9>"$into/.lock"
if [[ -x $into/$program ]]; then echo "$into/$program"; else echo "/$program"; fi
