#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The kernel as nvcc made it for this build: without warnings and without spilling registers on every
# architecture, and with the instructions that each path is there for.
set -eu

kept=$PEAL_BUILD/device_code
log=$kept/log
if [ ! -s "$log" ]; then
    echo "no device code in this build: skipped"
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

grep -i "warning" "$log" && fail "warnings"
for arch in 80 90 100; do
    # What ptxas says of the kernel on the architecture.
    sed -n "/Compiling entry function .*peal_dev_kernel.* for 'sm_$arch'/,/Used/p" "$log" >"$dir/about"
    grep -q "0 bytes spill stores, 0 bytes spill loads" "$dir/about" ||
        { cat "$log"; fail "sm_$arch: registers are spilled, or nothing is said of it"; }
    registers=$(sed -n 's/.*Used \([0-9]*\) registers.*/\1/p' "$dir/about")
    echo "sm_$arch: $registers registers, no spills"
    [ "$registers" -le 255 ] || fail "sm_$arch: 256 threads have not so many registers"
done

ptx() { # ptx ARCHITECTURE: into $dir/ptx
    cat "$kept"/kernels*compute_"$1"*.ptx >"$dir/ptx" || fail "no PTX for sm_$1"
    grep -q "^.target sm_$1" "$dir/ptx" || fail "PTX of something else than sm_$1"
}
need() {
    count=$(grep -c -- "$1" "$dir/ptx" || true)
    echo "$count x $1"
    [ "$count" -gt 0 ] || fail "the PTX has no $1"
}
ptx 90
need cp.async.bulk.shared::cluster.global.mbarrier
need cp.async.bulk.global.shared::cta.bulk_group
need mbarrier.arrive.expect_tx
need mbarrier.try_wait.parity
need cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f64
need cp.reduce.async.bulk.global.shared::cta.bulk_group.min.s64
need multimem.ld_reduce
need multimem.st
need ld.acquire.sys
need st.release.sys
grep -q "membar\|fence.acq_rel\|fence.sc" "$dir/ptx" && fail "order is not to come from fences"
grep -q "ld.global.nc" "$dir/ptx" && fail "memory that others write is not to be read as constant"

# Below sm_90 there are none of these.
ptx 80
grep -q "cp.async.bulk\|multimem\|mbarrier" "$dir/ptx" && fail "sm_80 has no bulk copies"
echo "ok"
