#!/usr/bin/env bash
# Unpacks Debian packages into .cache/debs without installing them and without root.
#
#   tools/fetch_debs.sh [--suite SUITE [--arch ARCH]] [--into FOLDER] [--only PATTERN] PACKAGE[:PATH]...
#   tools/fetch_debs.sh --suite SUITE --source FOLDER PACKAGE...
#
# A package comes with those of its dependencies that this machine lacks. PATH (no leading slash,
# may hold a *) names a file the package must provide: if the machine or the folder already holds
# it, nothing is fetched. Afterwards the file is at .cache/debs/PATH, or at /PATH where the machine
# had it. --into unpacks elsewhere, with bin, lib and sbin merged into usr, so that the folder can
# be laid over a system, or be one (tools/run_in_root.sh). --only takes just what matches PATTERN
# from the package and everything it needs, whatever this machine has: a kernel, say, of which / may
# hold another. --suite takes another Debian's packages, from the same mirror: bullseye, say, and
# --arch those of another processor: arm64. --source downloads source packages, as they are, into
# FOLDER. FARWRITE_DEBS overrides the cache folder, FARWRITE_DEBIAN the mirror of another suite.
#
# apt's own lists may be missing, stale or unreadable for a plain user, so this script keeps
# private ones and never asks for a version: mirrors drop old ones.
set -euo pipefail

cd "$(dirname "$0")/.."
cache=${FARWRITE_DEBS:-$PWD/.cache/debs}
state=$cache/.apt
into=$cache
merged=
only=
suite=
arch=
source_folder=
sources=()

path_of() { if [[ $1 == *:* ]]; then echo "${1#*:}"; fi; }

is_present() {
  local package=$1 path=$2
  if [[ -z $path ]]; then
    [[ -e $into/.apt/have/$package ]]
  else
    [[ -z $only ]] && compgen -G "/$path" >/dev/null || compgen -G "$into/$path" >/dev/null
  fi
}

apt() {
  apt-get -qq "${sources[@]}" -o Dir::State::Lists="$state/lists" -o Dir::Cache="$state/cache" \
    -o APT::Sandbox::User=root -o Debug::NoLocking=1 -o Acquire::Retries=3 "$@"
}

# The sources of another suite: those of this machine's own, by the other name.
choose_suite() {
  local keys=/usr/share/keyrings/debian-archive-keyring.gpg mirror=${FARWRITE_DEBIAN:-}
  [[ -n $mirror ]] || mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
    | grep -m1 '/debian/\?$') || {
    echo "fetch_debs: apt knows no mirror of Debian; name one, or its archive, in FARWRITE_DEBIAN" >&2
    return 1
  }
  state=$cache/.apt-$suite${arch:+-$arch}${source_folder:+-source}
  mkdir -p "$state"
  echo "deb${source_folder:+-src} [signed-by=$keys] $mirror $suite main" >"$state/sources.list"
  sources=(-o Dir::Etc::SourceList="$state/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o Dir::State::status=/dev/null)
  [[ -z $arch ]] || sources+=(-o APT::Architecture="$arch" -o APT::Architectures="$arch")
}

refresh_lists() {
  if ! { command -v apt-get && command -v dpkg-deb; } >/dev/null; then
    echo "fetch_debs: this is no Debian system: it has no apt-get or no dpkg-deb" >&2
    return 1
  fi
  if [[ -n $suite ]]; then choose_suite; fi
  mkdir -p "$state"/{lists/partial,cache/archives/partial} "$into/.apt/have"
  # One unreachable source among several must not stop us: the download below decides.
  apt update || echo "fetch_debs: some package lists could not be read, going on" >&2
}

# A simulated install names the packages and whatever they need that is not installed here.
names_wanted_for() {
  local status=()
  [[ -z $only ]] || status=(-o Dir::State::status=/dev/null)
  apt "${status[@]}" --simulate --no-install-recommends install "$@" \
    | awk '/^Inst/ {print $2}' | while read -r name; do
      # shellcheck disable=SC2053  # a pattern
      if [[ -z $only || $name == $only ]]; then echo "$name"; fi
    done
}

unpack() {
  if [[ -z $merged ]]; then
    dpkg-deb -x "$1" "$into"
    return
  fi
  local name
  for name in bin lib lib64 sbin; do
    mkdir -p "$into/usr/$name"
    [[ -e $into/$name ]] || ln -s "usr/$name" "$into/$name"
  done
  dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink --no-same-owner -C "$into"
}

fetch() {
  local folder wanted deb
  echo "fetch_debs: $*"
  refresh_lists
  wanted=$(names_wanted_for "$@") \
    || { echo "fetch_debs: no package list${suite:+ of $suite} knows all of: $*" >&2; return 1; }
  # One that is installed, yet wanted for a file that is gone, is not among those to be installed.
  [[ -n $only ]] || wanted=$(printf '%s\n' "$@" $wanted | sort -u)
  folder=$(mktemp -d "$state/download.XXXXXX")
  # shellcheck disable=SC2086  # a list of words
  (cd "$folder" && apt download $wanted)
  for deb in "$folder"/*.deb; do unpack "$deb"; done
  # A linker follows an absolute link to this machine's own file.
  if [[ -n $merged ]]; then
    find "$into" -lname '/*' -printf '%p\n%l\n' | while read -r link && read -r to; do
      ln -sfnr "$into$to" "$link"
    done
  fi
  rm -rf "$folder"
}

while [[ ${1-} == --* ]]; do
  case $1 in
    --into) into=$2 merged=yes ;;
    --only) only=$2 ;;
    --suite) suite=$2 ;;
    --arch) arch=$2 ;;
    --source) source_folder=$2 ;;
    *) break ;;
  esac
  shift 2
done
[[ -z $arch$source_folder || -n $suite ]] || {
  echo "fetch_debs: --arch and --source need --suite" >&2
  exit 2
}
[[ $# -gt 0 && $1 != --* ]] || { sed -n '2,21s/^# \{0,1\}//p' "$0" >&2; exit 2; }
if [[ -n $source_folder ]]; then
  refresh_lists
  cd "$source_folder"
  apt source --download-only "$@"
  exit
fi
find_missing() {
  local request
  missing=()
  for request in "$@"; do
    is_present "${request%%:*}" "$(path_of "$request")" || missing+=("$request")
  done
}

find_missing "$@"
[[ ${#missing[@]} -gt 0 ]] || exit 0
# One process at a time unpacks into a folder.
mkdir -p "$into"
exec 9>"$into/.fetching"
flock -n 9 || { echo "fetch_debs: waiting for another one" >&2; flock 9; }
find_missing "$@"
[[ ${#missing[@]} -gt 0 ]] || exit 0
fetch "${missing[@]%%:*}"
for request in "${missing[@]}"; do
  path=$(path_of "$request")
  if [[ -n $path ]] && ! compgen -G "$into/$path" >/dev/null; then
    echo "fetch_debs: ${request%%:*} was unpacked but holds no $path" >&2
    exit 1
  fi
  touch "$into/.apt/have/${request%%:*}"
done
