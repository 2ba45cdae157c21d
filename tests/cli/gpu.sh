#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs in device memory, on the stand-in for the CUDA driver: every engine and collective, ranks as
# threads and as processes, with the ways that memory is shared; and what a machine without a driver
# says.
set -eu
topologies=$PEAL_SOURCE/examples/topologies
fake=$PEAL_BUILD/fakecuda
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0

fail() {
    echo "gpu: $*"
    cat "$work/out"
    exit 1
}
# right NAME=VALUE... -- TOPOLOGY OPTION...: a checked run, that says what it ran on.
right() {
    local settings=()
    while [ "$1" != -- ]; do
        settings+=("$1")
        shift
    done
    shift
    local topology=$topologies/$1
    shift
    count=$((count + 1))
    env LD_LIBRARY_PATH="$fake" "${settings[@]+"${settings[@]}"}" timeout 120 "$PEAL" run "$topology" "$@" \
        --gpu --check >"$work/out" 2>&1 || fail "${settings[*]-} $topology $*"
    grep -q 'a stand-in, times mean nothing' "$work/out" || fail "$*: does not say what it ran on"
}
# refused TEXT NAME=VALUE... -- TOPOLOGY OPTION...: ends with an error that has the text.
refused() {
    local text=$1 settings=()
    shift
    while [ "$1" != -- ]; do
        settings+=("$1")
        shift
    done
    shift
    local topology=$topologies/$1
    shift
    count=$((count + 1))
    if env "${settings[@]}" timeout 120 "$PEAL" run "$topology" "$@" --gpu --check \
        >"$work/out" 2>&1; then
        fail "not refused: $*"
    fi
    grep -q -- "$text" "$work/out" || fail "$*: no \"$text\""
}

# ---- without a driver all else works
refused 'no CUDA driver on this machine' LD_LIBRARY_PATH="$work" -- dgx-h100.xml -n 2 -b 1K
env LD_LIBRARY_PATH="$work" "$PEAL" run "$topologies/dgx-h100.xml" -n 2 -b 1K --check >"$work/out"
env LD_LIBRARY_PATH="$work" "$PEAL" topo detect >"$work/out" 2>&1
refused 'finds no GPU' LD_LIBRARY_PATH="$fake" FAKECUDA_DEVICES=0 -- dgx-h100.xml -n 2 -b 1K

# ---- kernels: collectives, sizes and types, several calls in a row
right -- dgx-h100.xml -n 2,3 -c all -b 12,100K -d float32 --placement both
right -- dgx-h100.xml -n 3 -c allreduce -a all -b 10K -d bfloat16,float16,uint8 --op max
right -- dgx-h100.xml -n 2 -c allreduce -b 4100 -d all --op all
right -- dgx-h100.xml -n 3 -c reduce-scatter,alltoallv,barrier -b 60K -i 4 --random-delay
right FAKECUDA_DELAY=7 -- dgx-h100.xml -n 3 -c allreduce,alltoall -b 200K --registered

# ---- engines of the host, in one schedule with those of the kernel
right -- dgx-h100.xml -n 3 -c allgather,alltoall,broadcast -b 300K -e nvlink=ce
right FAKECUDA_DELAY=3 -- dgx-h100.xml -n 3 -c allgather -b 300K -e nvlink=ce -i 6
right -- dgx-h100.xml -n 3 -c allgather,alltoall -b 300K -e nvlink=tma
right -- cluster-h100-2.xml --group 0,1,8,9 -c allreduce,alltoall -b 200K
right FAKECUDA_PEER=0 -- cluster-h100-16.xml --group 0,8,16 -c allreduce,allgather -b 3M
right FAKECUDA_PEER=0 -- cluster-h100-16.xml --group 0,8,16 -c alltoallv -b 90K --procs
refused 'does not reach' LD_LIBRARY_PATH="$fake" FAKECUDA_PEER=0 -- pcie-8gpu.xml -n 4 -b 1M

# ---- no SM at all
right -- dgx-h100.xml -n 2,3,4 -c allgather,alltoall,broadcast,scatter,gather --zero-sm -b 12,100K
right FAKECUDA_DELAY=5 -- dgx-h100.xml -n 4 -c allgather,alltoall --zero-sm -b 70K -i 5 --registered
refused 'needs at least one SM' LD_LIBRARY_PATH="$fake" -- dgx-h100.xml -n 2 -b 1K --zero-sm

# ---- processes: file descriptors, IPC; staged and registered buffers; one device
right -- dgx-h100.xml -n 3 -c allreduce,allgather,alltoallv -b 40K --procs -i 4
right -- dgx-h100.xml -n 3 -c allreduce,alltoall -b 40K --procs --registered
right FAKECUDA_VMM=0 -- dgx-h100.xml -n 3 -c allreduce -b 40K --procs --registered
right -- dgx-h100.xml -n 3 -c allgather,scatter -b 40K --procs --zero-sm
right FAKECUDA_VMM=0 FAKECUDA_DEVICES=1 -- dgx-h100.xml -n 4 -c allreduce,alltoall -b 40K
refused 'can be resident' LD_LIBRARY_PATH="$fake" FAKECUDA_DEVICES=1 FAKECUDA_SMS=1 -- \
    dgx-h100.xml -n 8 -b 64K
echo "gpu: $count runs"
