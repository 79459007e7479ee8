#!/usr/bin/env bash
# Unpacks Debian packages into .cache/debs without installing them and without root.
#
#   tools/fetch_debs.sh PACKAGE[:PATH]...
#
# A package comes with those of its dependencies that this machine lacks. PATH (no leading slash)
# names a file the package must provide: if the machine or the cache already holds it, nothing is
# fetched. Afterwards the file is at .cache/debs/PATH, or at /PATH where the machine had it.
# FARWRITE_DEBS overrides the cache folder.
#
# apt's own lists may be missing, stale or unreadable for a plain user, so this script keeps
# private ones and never asks for a version: mirrors drop old ones.
set -euo pipefail

cd "$(dirname "$0")/.."
cache=${FARWRITE_DEBS:-$PWD/.cache/debs}
state=$cache/.apt
lists_are_fresh=

is_present() {
  local package=$1 path=$2
  if [[ -n $path ]]; then [[ -e /$path || -e $cache/$path ]]; else [[ -e $state/have/$package ]]; fi
}

apt() {
  apt-get -qq -o Dir::State::Lists="$state/lists" -o Dir::Cache="$state/cache" \
    -o APT::Sandbox::User=root -o Debug::NoLocking=1 -o Acquire::Retries=3 "$@"
}

refresh_lists() {
  [[ -z $lists_are_fresh ]] || return 0
  mkdir -p "$state"/{lists/partial,cache/archives/partial,have}
  # One unreachable source among several must not stop us: the download below decides.
  apt update || echo "fetch_debs: some package lists could not be read, going on" >&2
  lists_are_fresh=yes
}

fetch() {
  local package=$1 path=$2 folder wanted
  echo "fetch_debs: $package"
  refresh_lists
  # A simulated install names the package and whatever it needs that is not installed here.
  wanted=$(apt --simulate --no-install-recommends install "$package" | awk '/^Inst/ {print $2}') \
    || { echo "fetch_debs: no package list knows '$package'" >&2; return 1; }
  folder=$(mktemp -d "$state/download.XXXXXX")
  # Already installed, yet wanted for a file that is gone: fetch the package alone.
  # shellcheck disable=SC2086  # a list of words
  (cd "$folder" && apt download ${wanted:-$package})
  for deb in "$folder"/*.deb; do dpkg-deb -x "$deb" "$cache"; done
  rm -rf "$folder"
  if [[ -n $path && ! -e $cache/$path ]]; then
    echo "fetch_debs: $package was unpacked but holds no $path" >&2
    return 1
  fi
  touch "$state/have/$package"
}

[[ $# -gt 0 ]] || { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
for request in "$@"; do
  package=${request%%:*}
  path=
  [[ $request == *:* ]] && path=${request#*:}
  is_present "$package" "$path" || fetch "$package" "$path"
done
