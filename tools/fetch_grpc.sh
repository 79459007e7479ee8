#!/usr/bin/env bash
# Fetches gRPC 1.51.1 of Debian 12, without root: what C++ and Ruby programs of gRPC are built from.
#
#   tools/fetch_grpc.sh
#
# .cache/debs gets the development packages, protoc and its gRPC plug-in, and Ruby with its gRPC
# module; a package that the machine has is not fetched. .cache/grpc/grpc-1.51.1 gets gRPC's source,
# 77 MB, with its test programs and its private headers. Debian patches neither, so the original
# tarball is enough. Costs nothing when all are there.
# FARWRITE_DEBS and FARWRITE_GRPC override the folders.
set -euo pipefail

cd "$(dirname "$0")/.."
version=1.51.1
debs=${FARWRITE_DEBS:-$PWD/.cache/debs}
grpc=${FARWRITE_GRPC:-$PWD/.cache/grpc}
state=$grpc/.apt

# Each with the file that is wanted of it.
packages=(
  libgrpc++-dev:usr/include/grpcpp/grpcpp.h
  libgrpc-dev:usr/include/grpc/grpc.h
  protobuf-compiler:usr/bin/protoc
  protobuf-compiler-grpc:usr/bin/grpc_cpp_plugin
  libprotobuf-dev:usr/include/google/protobuf/message.h
  libabsl-dev:usr/include/absl/flags/flag.h
  libre2-dev:usr/include/re2/re2.h
  libc-ares-dev:usr/include/ares.h
  libssl-dev:usr/include/openssl/ssl.h
  zlib1g-dev:usr/include/zlib.h
)
ruby_packages=(
  ruby:usr/bin/ruby
  'ruby-grpc:usr/lib/*/rubygems-integration/*/gems/grpc-*/src/ruby/lib/grpc/grpc_c.so'
)

refuse() {
  echo "fetch_grpc: $1" >&2
  exit 1
}

apt() {
  local tool=$1
  shift
  "$tool" -qq -o Dir::State::Lists="$state/lists" -o Dir::Cache="$state/cache" \
    -o Dir::Etc::SourceList="$state/sources.list" -o Dir::Etc::SourceParts="$state/sources.list.d" \
    -o APT::Sandbox::User=root -o Debug::NoLocking=1 -o Acquire::Retries=3 "$@"
}

# The machine's own apt sources, with its mirrors and keys, asked for sources instead of packages.
write_source_lists() {
  local SOURCE_LIST SOURCE_PARTS file
  eval "$(apt-config shell SOURCE_LIST Dir::Etc::sourcelist/f SOURCE_PARTS Dir::Etc::sourceparts/d)"
  mkdir -p "$state"/{lists/partial,cache/archives/partial,sources.list.d}
  for file in "$SOURCE_LIST" "${SOURCE_PARTS%/}"/*.list; do
    [[ ! -r $file ]] || sed -nE 's/^deb[[:blank:]]+/deb-src /p' "$file"
  done >"$state/sources.list"
  for file in "${SOURCE_PARTS%/}"/*.sources; do
    [[ ! -r $file ]] \
      || sed -E 's/^Types:.*/Types: deb-src/' "$file" >"$state/sources.list.d/${file##*/}"
  done
}

fetch_source() {
  local found wanted folder
  write_source_lists
  # Sources of packages that have no source list fail here: the look-up below decides.
  apt apt-get update || echo "fetch_grpc: some source lists could not be read, going on" >&2
  found=$(apt apt-cache showsrc --only-source grpc | sed -n 's/^Version: //p' | sort -u) || true
  wanted=$(grep -m 1 "^${version//./\\.}-" <<<"$found") \
    || refuse "the mirror has the source of gRPC in version '${found:-none}' and not $version; \
name a mirror of Debian 12 in /etc/apt/sources.list.d"
  folder=$(mktemp -d "$grpc/download.XXXXXX")
  (cd "$folder" && apt apt-get source --download-only "grpc=$wanted")
  tar -x --no-same-owner -f "$folder/grpc_$version.orig.tar.gz" -C "$folder"
  mv "$folder/grpc-$version" "$grpc"  # whole, or not there
  rm -rf "$folder"
}

command -v apt-get >/dev/null || refuse "this is no Debian system: it has no apt-get"
tools/fetch_debs.sh "${packages[@]}"
compgen -G "$debs/usr/lib/*/libgrpc++.so.$version" >/dev/null \
  || compgen -G "/usr/lib/*/libgrpc++.so.$version" >/dev/null \
  || refuse "libgrpc++-dev is not of version $version; name a mirror of Debian 12 in \
/etc/apt/sources.list.d and remove $debs"
tools/fetch_debs.sh "${ruby_packages[@]}" \
  || echo "fetch_grpc: Ruby or its gRPC module could not be fetched, so no Ruby test" >&2
[[ -d $grpc/grpc-$version ]] || fetch_source
