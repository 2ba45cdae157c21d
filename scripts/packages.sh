# SPDX-License-Identifier: Apache-2.0
# What the build and the tests need from Debian or Ubuntu. Sourced.
# shellcheck shell=bash disable=SC2034

# To build and run peal.
packages_required=(build-essential cmake ninja-build pkg-config libxml2-dev libxxhash-dev
    libjansson-dev nettle-dev liblua5.4-dev)
# To build what is optional, so that it is at least configured.
packages_optional=(libibverbs-dev ibverbs-providers libpmix-dev)
# To test it.
packages_test=(check libsubunit-dev clang clang-format libxml2-utils shellcheck
    python3-jsonschema graphviz libsimgrid-dev chromium fonts-dejavu-core lua5.4)
# To start it as clusters do, and between hosts that are namespaces (tests/net).
packages_net=(iproute2 munge openmpi-bin slurm-client slurmctld slurmd)
# To run it over RDMA in emulated machines (tests/rdma).
packages_rdma=(qemu-system-x86 busybox-static kmod cpio xz-utils zstd iproute2 ibverbs-providers)

package_missing() {
    [ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null)" != "ii " ]
}

# install_packages name...: only those missing, and nothing is asked of anyone when none is.
install_packages() {
    local missing=() name root=()
    if ! command -v dpkg-query >/dev/null; then
        echo "not Debian or Ubuntu: install yourself, in your system's names: $*" >&2
        return 0
    fi
    for name in "$@"; do
        if package_missing "$name"; then missing+=("$name"); fi
    done
    [ "${#missing[@]}" != 0 ] || return 0
    [ "$(id -u)" = 0 ] || root=(sudo)
    echo "installing: ${missing[*]}"
    "${root[@]}" apt-get -qq update
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y \
        --no-install-recommends "${missing[@]}" >/dev/null
}
