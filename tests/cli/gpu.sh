#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest: plain
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
grep -q 'note: no CUDA driver' "$work/out" || fail "topo detect does not say that there is no driver"
refused 'finds no GPU' LD_LIBRARY_PATH="$fake" FAKECUDA_DEVICES=0 -- dgx-h100.xml -n 2 -b 1K

# ---- what the driver tells of the machine: a switch for many, a mesh for few, or none
detected() { # detected EXPRESSION NAME=VALUE...: of the topology as JSON
    local expression=$1
    shift
    count=$((count + 1))
    { env LD_LIBRARY_PATH="$fake" "$@" "$PEAL" topo detect -o "$work/this.xml" &&
        "$PEAL" topo "$work/this.xml" --json >"$work/topo.json"; } >"$work/out" 2>&1 || fail "topo detect $*"
    python3 -c "import json, sys; j = json.load(open('$work/topo.json')); sys.exit(not ($expression))" ||
        fail "topo detect $*: not $expression"
}
detected 'len(j["ranks"]) == 8 and j["ranks"][3]["busid"] == "0000:13:00.0"' FAKECUDA_DEVICES=8
detected 'all(r["model"] == "sm_90" for r in j["ranks"])' FAKECUDA_DEVICES=8
grep -q 'target="fffffff:ffff:ff" count="18"' "$work/this.xml" || fail "no switch"
detected 'sum(l["class"] == "nvlink" for l in j["links"]) == 12' FAKECUDA_DEVICES=4 FAKECUDA_ARCH=80
grep -q 'target="0000:12:00.0" count="4" tclass="0x030200"' "$work/this.xml" || fail "no mesh"
detected 'not any(l["class"] == "nvlink" for l in j["links"])' FAKECUDA_DEVICES=2 FAKECUDA_PEER=0

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
right FAKECUDA_PEER=0 -- dgx-h100.xml -n 3 -c allgather,alltoall --zero-sm -b 60K --registered -i 2
right FAKECUDA_PEER=0 FAKECUDA_VMM=0 -- cluster-h100-16.xml --group 0,8 -c allreduce -b 60K
# What others have open by CUDA IPC is freed behind them, however long they take.
right FAKECUDA_VMM=0 FAKECUDA_CLOSE_US=20000 -- dgx-h100.xml -n 3 -c allreduce -b 60K --procs
refused 'does not reach' LD_LIBRARY_PATH="$fake" FAKECUDA_PEER=0 -- pcie-8gpu.xml -n 4 -b 1M

# ---- multicast and folds by a switch, which needs a device a rank
multicast=$work/multicast.xml
cp "$topologies/dgx-h100.xml" "$work/"
"$PEAL" topo cluster "$work/dgx-h100.xml" --nodes 1 --multicast -o "$multicast"
topologies=$work
right FAKECUDA_MULTICAST=1 -- multicast.xml -n 2,3,8 -a nvls -b 4100,100K --registered \
    -c allreduce,reduce-scatter,allgather,broadcast,reduce
right FAKECUDA_MULTICAST=1 -- multicast.xml -n 4 -a nvls -c allreduce -b 16K -d all --op all
right FAKECUDA_MULTICAST=1 -- multicast.xml -n 3 -a nvls -c allreduce -b 100K --procs -i 3
right FAKECUDA_MULTICAST=1 -- multicast.xml -n 3 -a nvls -c allreduce -b 96K --procs --registered
grep -q 'stand in' "$work/out" && fail "the switch is said to be stood in for"
refused 'no multicast memory' LD_LIBRARY_PATH="$fake" -- multicast.xml -n 2 -a nvls -b 64K
refused 'devices of their own' LD_LIBRARY_PATH="$fake" FAKECUDA_MULTICAST=1 FAKECUDA_DEVICES=2 -- \
    multicast.xml -n 4 -a nvls -b 64K
topologies=$PEAL_SOURCE/examples/topologies

# ---- posted to the NIC by the kernel: threads, processes, more than a queue holds
right -- cluster-h100-2.xml --group 0,1,8,9 -c allreduce,alltoall,alltoallv -b 200K -e net=ibgda
grep -q 'ibgda' "$work/out" || fail "the run does not say that it was ibgda"
right -- cluster-h100-16.xml --group 0,8,16 -c all -b 4100 -e net=ibgda -i 3
right -- cluster-h100-16.xml --group 0,8,16 -c allgather -b 8M -e net=ibgda --registered
right -- cluster-h100-16.xml --group 0,8,16 -c allreduce,broadcast -b 90K -e net=ibgda --procs -i 3

# ---- calls beside a kernel of tile products, engine by engine
env LD_LIBRARY_PATH="$fake" FAKECUDA_DEVICES=2 timeout 120 "$PEAL" bench "$topologies/dgx-h100.xml" -n 2 --gpu \
    --beside -c allgather -s 64K:64K -i 3 --json >"$work/overlap.json" 2>"$work/out" || fail "bench --beside"
python3 - "$work/overlap.json" <<'CHECK' || fail "bench --beside: rows"
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
moved = {engine for row in rows for engine in row["engines"]}
assert {"sm", "tma", "ce"} <= moved, moved
assert all(row["progress"] == "stream" and row["wrong"] == 0 and row["checked"] for row in rows)
assert all(row["product_us"] > 0 and row["product_flops"] >= 2 * 32**3 for row in rows)
CHECK

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

# ---- hosts of one NVLink domain: memory by fabric handles, where they are granted
launched() { # launched RANKS NAME=VALUE... -- OPTION...: one a host; all ranks' exit codes and words
    local ranks=$1 settings=() pids=() r code=0
    shift
    while [ "$1" != -- ]; do
        settings+=("$1")
        shift
    done
    shift
    count=$((count + 1))
    local port=$((21000 + $$ % 20000 + count))
    for ((r = 0; r < ranks; r++)); do
        env LD_LIBRARY_PATH="$fake" PEAL_JOB_KEY=sesame MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            WORLD_SIZE="$ranks" RANK=$r PEAL_HOST_ID=h$r "${settings[@]}" timeout 120 "$PEAL" run \
            "$topologies/cluster-h100-16.xml" --gpu --check "$@" >"$work/out.$r" 2>&1 &
        pids+=($!)
    done
    for r in "${pids[@]}"; do
        wait "$r" || code=$?
    done
    cat "$work"/out.[0-9] >"$work/out"
    return $code
}
launched 3 FAKECUDA_FABRIC=1 -- --group 0,8,16 -c allreduce,allgather -b 90K ||
    fail "ranks of three hosts, by fabric handles"
launched 2 FAKECUDA_FABRIC=3 -- --group 0,8 -c allreduce -b 90K ||
    fail "ranks of two hosts, whose fabric handles nobody can show"

refused 'can be resident' LD_LIBRARY_PATH="$fake" FAKECUDA_DEVICES=1 FAKECUDA_SMS=1 -- \
    dgx-h100.xml -n 8 -b 64K
# A deadline that passes in the midst of calls, for one kernel begins late: memory stays as long as
# any rank's call is in it.
code=0
env LD_LIBRARY_PATH="$fake" FAKECUDA_STALL=10 timeout 60 "$PEAL" bench "$topologies/dgx-h100.xml" --gpu \
    -n 4 --sizes 1M:1M -t 50 >"$work/out" 2>&1 || code=$?
[ "$code" = 4 ] || fail "a run whose deadline passes ended with $code"
grep -Eq 'waited 50 ms for (rank|its own transfers)' "$work/out" || fail "it does not say for whom it waited"
echo "gpu: $count runs"
