#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ctest: slow
# The kernel as nvcc makes it: without warnings and without spilling registers on every
# architecture, and with the instructions that each path is there for.
set -eu

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [ ! -x "$nvcc" ]; then
    echo "no nvcc here: skipped"
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
source=$PEAL_SOURCE/runtime/device/kernels.cu
flags="-O3 -std=c++17 -fmad=false -Werror all-warnings"

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

for arch in 80 90 100; do
    "$nvcc" $flags -arch=sm_$arch -Xptxas -v,-warn-spills -cubin -o "$dir/$arch" "$source" \
        >"$dir/log" 2>&1 || { cat "$dir/log"; fail "sm_$arch does not compile"; }
    grep -q "warning" "$dir/log" && { cat "$dir/log"; fail "sm_$arch: warnings"; }
    grep -q "0 bytes spill stores, 0 bytes spill loads" "$dir/log" ||
        { cat "$dir/log"; fail "sm_$arch: registers are spilled"; }
    registers=$(sed -n 's/.*Used \([0-9]*\) registers.*/\1/p' "$dir/log")
    echo "sm_$arch: $registers registers, no spills"
    [ "$registers" -le 255 ] || fail "sm_$arch: 256 threads have not so many registers"
done

"$nvcc" $flags -arch=compute_90 -ptx -o "$dir/ptx" "$source"
need() {
    count=$(grep -c -- "$1" "$dir/ptx" || true)
    echo "$count x $1"
    [ "$count" -gt 0 ] || fail "the PTX has no $1"
}
need cp.async.bulk.shared::cluster.global.mbarrier
need cp.async.bulk.global.shared::cta.bulk_group
need mbarrier.arrive.expect_tx
need mbarrier.try_wait.parity
need cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32
need cp.reduce.async.bulk.global.shared::cta.bulk_group.min.s64
need multimem.ld_reduce
need multimem.st
need ld.acquire.sys
need st.release.sys
grep -q "membar\|fence.acq_rel\|fence.sc" "$dir/ptx" && fail "order is not to come from fences"
grep -q "ld.global.nc" "$dir/ptx" && fail "memory that others write is not to be read as constant"

# Below sm_90 there are none of these.
"$nvcc" $flags -arch=compute_80 -ptx -o "$dir/ptx80" "$source"
grep -q "cp.async.bulk\|multimem\|mbarrier" "$dir/ptx80" && fail "sm_80 has no bulk copies"
echo "ok"
