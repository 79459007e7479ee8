#!/usr/bin/env bash
# Fetches what a guest needs and builds what it boots, in .cache/softroce; nothing is installed.
#
#   tests/softroce/prepare.sh [--siw]
#
# layer/ holds QEMU and the guest's userland beyond what this machine has, boot/ the kernel and the
# initramfs. Costs nothing when both are there and made from what this folder says. --siw builds the
# module siw, too, which Debian's kernels lack (half a minute, once). Exits 77 with the reason where
# something is missing. FARWRITE_SOFTROCE overrides the folder.
set -euo pipefail

cd "$(dirname "$0")/../.."
image=${FARWRITE_SOFTROCE:-$PWD/.cache/softroce}
here=tests/softroce
cannot=77

# Each with the file that is wanted of it. Busybox is looked for by its copyright file, because
# another package has a busybox of the same name that is not static.
userland=(
  qemu-system-x86:usr/bin/qemu-system-x86_64
  ibverbs-providers:etc/libibverbs.d/rxe.driver
  ibverbs-utils:usr/bin/ibv_devinfo
  rdmacm-utils:usr/bin/rping
  perftest:usr/bin/ib_write_bw
  iproute2:usr/bin/rdma
  busybox-static:usr/share/doc/busybox-static/copyright
)
# The kernels for clouds have no rdma_rxe.
kernel=linux-image-amd64
kernel_pattern='linux-image-[0-9]*'

refuse() {
  echo "softroce: $1" >&2
  exit "$cannot"
}

# Prints what a part is made from, so that a change of it makes the part anew.
key_of_layer() { printf '%s\n' "${userland[@]}" "$kernel" | sha256sum; }
key_of_boot() {
  { key_of_layer; cat "$here"/{boot_image.py,init}; find "$image/kernel" -name siw.ko; } | sha256sum
}

is_current() { [[ -e $image/$1.key && $(<"$image/$1.key") == "$2" ]]; }

fetch() {
  # Beside their places, and moved there when they are whole.
  local fresh=$image/fresh
  rm -rf "$fresh"
  mkdir -p "$fresh"/{layer,kernel}
  tools/fetch_debs.sh --into "$fresh/layer" "${userland[@]}" \
    && tools/fetch_debs.sh --into "$fresh/kernel" --only "$kernel_pattern" \
      "$kernel:boot/vmlinuz-*" \
    || return 1
  # Most of a kernel package drives devices that no guest has.
  find "$fresh"/kernel/lib/modules/*/kernel/{drivers,sound} -mindepth 1 -maxdepth 1 \
    ! -name infiniband ! -name net ! -name virtio -exec rm -rf {} +
  rm -rf "$image"/{layer,kernel,boot}{,.key}
  mv "$fresh"/{layer,kernel} "$image"
}

[[ $(uname -m) == x86_64 ]] || refuse "the guests are for x86_64, this machine is $(uname -m)"
mkdir -p "$image"
exec 9>"$image/lock"
flock 9
key=$(key_of_layer)
if ! is_current layer "$key"; then
  echo "softroce: fetching QEMU, a kernel and the guests' programs (about 160 MB)"
  fetch || refuse "QEMU, a kernel with rdma_rxe or its programs cannot be had"
  echo "$key" >"$image/layer.key"
fi
if [[ ${1-} == --siw && -z $(find "$image/kernel" -name siw.ko) ]]; then
  echo "softroce: building the module siw (about 150 MB to fetch)"
  "$here/siw_module.sh" "$image/kernel" "$image/siw" || refuse "the module siw cannot be built"
  rm -rf "$image/siw"
fi
key=$(key_of_boot)
if ! is_current boot "$key"; then
  rm -rf "$image/boot"
  busybox=$image/layer/usr/bin/busybox
  [[ -e $busybox ]] || busybox=/usr/bin/busybox
  python3 "$here/boot_image.py" "$image/kernel" "$busybox" "$here/init" "$image/boot"
  echo "$key" >"$image/boot.key"
fi
