#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Real verbs where there is no RDMA device: Debian's kernel with its software one (rxe) in QEMU, one
# guest with both hosts of a plan, then two guests joined by a socket, with and without lost packets;
# what breaks, breaks with an error. Speed means nothing here: processors are emulated. Skipped where
# the emulator or the kernel's package is not to be had. PEAL_RDMA_KEEP=DIR keeps what it makes.
# ctest: slow
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
here=$PEAL_SOURCE/tests/rdma
cache=$PEAL_BUILD/rdma-guest
timeout_s=${PEAL_RDMA_SECONDS:-150}

skip() {
    echo "skipped: $*"
    exit 77
}
[ "$(uname -m)" = x86_64 ] || skip "the guest is an x86_64"
for tool in qemu-system-x86_64 busybox cpio modprobe depmod dpkg-deb apt-get apt-cache python3; do
    command -v "$tool" >/dev/null || skip "no $tool here (packages_rdma of scripts/packages.sh)"
done
ip=$(PATH=$PATH:/usr/sbin:/sbin command -v ip) || skip "no ip here"
tc=$(PATH=$PATH:/usr/sbin:/sbin command -v tc) || skip "no tc here"
rdma=$(PATH=$PATH:/usr/sbin:/sbin command -v rdma) || skip "no rdma (of iproute2) here"
ldd "$PEAL" | grep -q libibverbs || skip "peal was built without libibverbs"
provider=$(find /usr/lib -name 'librxe-rdmav*.so' 2>/dev/null | head -n 1)
[ -n "$provider" ] || skip "no provider for rxe (ibverbs-providers)"

# ---- the kernel: fetched once for a build, never installed

kernel() {
    local package
    package=$(apt-cache depends linux-image-amd64 2>/dev/null |
        awk '/Depends: linux-image/ {print $2; exit}')
    [ -n "$package" ] || skip "no kernel package is known here"
    release=${package#linux-image-}
    tree=$cache/$release
    [ ! -s "$tree/vmlinux" ] || return 0
    mkdir -p "$tree"
    (cd "$tree" && timeout 120 apt-get download "$package") >apt.log 2>&1 ||
        skip "the kernel package cannot be fetched"
    dpkg-deb --fsys-tarfile "$tree"/*.deb | tar -x -C "$tree" ./boot ./lib
    rm -f "$tree"/*.deb
    depmod -b "$tree" "$release"
    python3 "$here/unpack_kernel.py" "$tree/boot/vmlinuz-$release" "$tree/vmlinux.part"
    mv "$tree/vmlinux.part" "$tree/vmlinux"
}

# ---- what the guest has

put() { # put FILE [NAME]: into the guest, with what it is linked to
    local lib to=$root${2:-/usr/bin/${1##*/}}
    [ -e "$to" ] || install -D -m 755 "$(readlink -f "$1")" "$to"
    for lib in $(ldd "$1" 2>/dev/null | grep -oE '/[^ ]+'); do
        [ -e "$root$lib" ] || install -D -m 755 "$(readlink -f "$lib")" "$root$lib"
    done
}

modules() {
    local wanted file at
    wanted="virtio_pci virtio_net rdma_rxe crc32_generic crc32-pclmul sch_netem"
    for file in $(for m in $wanted; do
        modprobe -d "$tree" -S "$release" --show-depends "$m" 2>/dev/null || true
    done | awk '/^insmod/ {print $2}' | sort -u); do
        at=$root${file#"$tree"}
        install -D -m 644 "$file" "$at"
        case $at in *.xz) xz -d "$at" ;; *.zst) zstd -dq --rm "$at" ;; esac
    done
    cp "$tree/lib/modules/$release"/modules.{order,builtin,builtin.modinfo} \
        "$root/lib/modules/$release/"
    depmod -b "$root" "$release"
}

plans() {
    local collective
    for collective in allreduce allgather alltoall; do
        "$PEAL" compile "$topologies/cluster-h100-2.xml" --group 0,1,8,9 -c "$collective" \
            --engine net=rdma --bytes 8:32M -o "$root/payload/$collective.peal" >/dev/null
    done
}

guest() {
    root=$PWD/root
    mkdir -p "$root"/{bin,dev,etc/libibverbs.d,lib64,payload,proc,run,sys,tmp}
    install -m 755 "$(command -v busybox)" "$root/bin/busybox"
    ln -s busybox "$root/bin/sh"
    put "$ip"
    put "$tc"
    put "$rdma"
    put "$PEAL"
    put "$PEAL_RDMA_RANK"
    put "$provider" "$provider"
    put /lib/x86_64-linux-gnu/libgcc_s.so.1 /lib/x86_64-linux-gnu/libgcc_s.so.1
    echo 'driver rxe' >"$root/etc/libibverbs.d/rxe.driver"
    install -m 755 "$here/guest_init.sh" "$root/init"
    install -m 644 "$here/guest_cases.sh" "$root/payload/cases.sh"
    modules
    plans
    (cd "$root" && find . | cpio -o -H newc --quiet) >guest.cpio
}

# ---- guests

# boot NAME MEGABYTES NETDEV MAC: in the background; $pid
boot() {
    timeout -k 5 "$timeout_s" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -M q35 -smp 1 -m "$2" \
        -nodefaults -no-user-config -display none -serial "file:$1.log" \
        -kernel "$tree/vmlinux" -initrd guest.cpio \
        -append "console=ttyS0 panic=-1 nokaslr mitigations=off quiet loglevel=3 role=$1" \
        -netdev "$3" -device "virtio-net-pci,netdev=n0,romfile=,mac=52:54:00:00:00:0$4,host_mtu=9000" \
        -no-reboot </dev/null >"$1.qemu" 2>&1 &
    pid=$!
}

# verdict NAME END: the guest came to its end, and all its cases were as they should be
verdict() {
    tr -d '\r' <"$1.log" >out 2>/dev/null || true
    cp "$1.qemu" err
    grep -E '^(case|time) ' out | sed "s/^/$1: /" || true
    if grep -q '^case .* FAILED' out; then
        sed -i -n '/FAILED/,$p' out
        die "guest $1: a case failed"
    fi
    grep -q "^$2" out || die "guest $1 did not come to its end"
}

one_guest() {
    boot single 768 user,id=n0,restrict=on 1
    wait "$pid" || true
    verdict single 'end of cases'
}

two_guests() {
    local first
    boot a 640 "dgram,id=n0,local.type=unix,local.path=$PWD/a.sock,remote.type=unix,remote.path=$PWD/b.sock" 1
    first=$pid
    boot b 640 "dgram,id=n0,local.type=unix,local.path=$PWD/b.sock,remote.type=unix,remote.path=$PWD/a.sock" 2
    wait "$pid" || true
    wait "$first" || true
    verdict a 'end of cases'
    verdict b 'this host dies now' # in the last case
}

# shellcheck disable=SC2317 # a trap
clean() {
    if [ -n "${PEAL_RDMA_KEEP:-}" ]; then cp ./*.log "$PEAL_RDMA_KEEP/" || true; fi
    rm -rf "$scratch"
}
trap clean EXIT

kernel
guest
SECONDS=0
one_guest
echo "one guest: $SECONDS s"
SECONDS=0
two_guests
echo "two guests: $SECONDS s"
