#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [BUILD]: all that is to be seen of peal on one GPU, from source to table, in under 8 minutes:
# build, correctness, races, bandwidth, latency, graphs, overlap; the table comes last. BUILD: a build
# directory that is there already. Without a GPU it runs on the stand-in for the driver, a part of
# it, and says so: that it runs is all that shows. What there is no time for says so in the table and
# counts as failed.
set -u
cd "$(dirname "$0")/../.." || exit
began=$(date +%s)
deadline=$((began + 470))
build=${1:-build/device}
topology=examples/topologies/dgx-h100.xml
network=examples/topologies/cluster-h100-2.xml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
table=$work/table

say() { printf '%4d s  %s\n' $(($(date +%s) - began)) "$*"; }
row() { printf '%-34s %s\n' "$1" "$2" >>"$table"; }

# ---- build
if [ $# -eq 0 ]; then
    say "building in $build"
    cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPEAL_TESTS=ON >"$work/out" 2>&1 &&
        cmake --build "$build" --target peal-cli device_table fakecuda >>"$work/out" 2>&1 || {
        tail -n 30 "$work/out"
        exit 1
    }
fi
build=$(cd "$build" && pwd)
peal=$build/peal
bounded() { # bounded SECONDS COMMAND...: also by what is left of the eight minutes
    local seconds=$1 left=$((deadline - $(date +%s)))
    shift
    if [ $left -lt 2 ]; then
        echo "error: no time was left for it" >"$work/late"
        cat "$work/late"
        return 124
    fi
    timeout $((seconds < left ? seconds : left)) "$@"
}

# ---- where
export FAKECUDA_DEVICES=1
if "$peal" run "$topology" -n 2 -b 1K --gpu >"$work/out" 2>&1; then
    where=gpu
    ranks="2 3 4 5 6 7 8"
    types=all
    sizes=4,4100,1000000
else
    where=stand-in
    say "NO GPU: $(grep -m 1 error "$work/out")"
    say "NO GPU: the stand-in for the driver is used; nothing below says anything about a GPU"
    export LD_LIBRARY_PATH=$build/fakecuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    ranks="2 3"
    types=float32,bfloat16,int8
    sizes=4,4100
fi
device=$("$peal" run "$topology" -n 2 -b 1K --gpu 2>&1 | sed -n 's/^peal: note: //p' | head -n 1)
row "where" "$where"
row "device" "$device"

# ---- correctness: every engine, collective and type, 2 to 8 ranks on one device
checked() { # checked NAME OPTION...: one row, right or WRONG
    local name=$1
    shift
    if bounded 90 "$peal" run "$@" --gpu --check >"$work/out" 2>&1; then
        row "$name" "right"
    else
        row "$name" "WRONG: $(grep -m 1 -E 'error|wrong' "$work/out")"
        failures=$((failures + 1))
    fi
}
for n in $ranks; do
    say "correctness, $n ranks"
    checked "sm, all collectives, $n ranks" "$topology" -n "$n" -c all -b $sizes --placement both \
        --max-sms 8
    checked "sm, types and operations, $n ranks" "$topology" -n "$n" -c allreduce -b 4100 \
        -d $types --op all --max-sms 8
    for engine in tma ce; do
        checked "$engine, all collectives, $n ranks" "$topology" -n "$n" -c all -b $sizes \
            -e nvlink=$engine --max-sms 8
    done
    checked "ce, no SM, $n ranks" "$topology" -n "$n" -c allgather,alltoall,broadcast,gather \
        -b $sizes --zero-sm
done
# Types and operations of the other engines: what they fold themselves, and what lanes do for them.
for engine in tma ce; do
    checked "$engine, types and operations" "$topology" -n 2 -c allreduce,reduce-scatter -b 300000 \
        -d $types --op all -e nvlink=$engine --max-sms 8
done
# All streams by one channel, as some programs have it: what a kernel waits for is behind the kernel.
export CUDA_DEVICE_MAX_CONNECTIONS=1
checked "ce, one connection" "$topology" -n 2 -c allgather,alltoall -b $sizes -e nvlink=ce --max-sms 8
checked "ce, no SM, one connection" "$topology" -n 2 -c allgather,alltoall -b $sizes --zero-sm
unset CUDA_DEVICE_MAX_CONNECTIONS
checked "staged in the place of rdma" "$network" --group 0,1,8,9 -c all -b 1000000 --max-sms 8

# Ranks of two hosts, told apart by name, all on this device: what goes between them goes by TCP.
hosts() { # hosts NAME OPTION...
    local name=$1 pids=() code=0 r port=$((21000 + $$ % 20000))
    shift
    for r in 0 1 2 3; do
        MASTER_ADDR=127.0.0.1 MASTER_PORT=$port WORLD_SIZE=4 RANK=$r PEAL_HOST_ID=h$((r / 2)) \
            PEAL_JOB_KEY=device bounded 60 "$peal" run "$network" --group 0,1,8,9 "$@" --gpu --check \
            >"$work/out.$r" 2>&1 &
        pids+=($!)
    done
    for r in "${pids[@]}"; do
        wait "$r" || code=1
    done
    cat "$work"/out.[0-3] >"$work/out"
    if [ $code = 0 ]; then
        row "$name" "right"
    else
        row "$name" "WRONG: $(grep -m 1 -E 'error|wrong' "$work/out")"
        failures=$((failures + 1))
    fi
}
say "two hosts on one device"
hosts "two hosts, by the kernel and TCP" -c allreduce,allgather,alltoall -b 1000000 --max-sms 8
hosts "two hosts, no SM and TCP" -c allgather,alltoall -b 1000000 --zero-sm
# What takes a device a rank, or a NIC: a switch that multicasts, and the NIC driven by the kernel. On
# one GPU they are refused, with the reason; the stand-in has both.
cp "$topology" "$work/host.xml"
"$peal" topo cluster "$work/host.xml" --nodes 1 --multicast -o "$work/multicast.xml" >/dev/null
optional() { # optional NAME OPTION...: right, WRONG, or why it is refused
    checked "$@"
    if [ $where = gpu ] &&
        grep -qE 'no multicast memory|devices of their own|no queue pairs' "$work/out"; then
        failures=$((failures - 1))
        sed -i '$d' "$table"
        row "$1" "not here: $(sed -n 's/.*error: //p' "$work/out" | head -n 1)"
    fi
}
export FAKECUDA_DEVICES=3 FAKECUDA_MULTICAST=1
optional "multicast by the switch" "$work/multicast.xml" -n 3 -a nvls -c allreduce,allgather \
    -b $sizes --registered --max-sms 8
optional "ibgda, NIC posted to by the kernel" "$network" --group 0,8 -c allreduce,alltoall \
    -b 100000 -e net=ibgda --max-sms 8
export FAKECUDA_DEVICES=1
checked "processes" "$topology" -n 2 -c allreduce,allgather,alltoall -b 100000 --procs --max-sms 8

# ---- races and stray accesses, where there is a tool for it
if [ $where = gpu ] && command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck synccheck; do
        for engine in sm tma; do
            say "compute-sanitizer, $tool, $engine"
            if bounded 30 compute-sanitizer --tool $tool --error-exitcode 9 "$peal" run "$topology" \
                -n 2 -c allreduce,allgather -b 4100 -e nvlink=$engine --gpu --check --max-sms 2 \
                >"$work/out" 2>&1; then
                row "compute-sanitizer $tool, $engine" "nothing found"
            else
                row "compute-sanitizer $tool, $engine" "FAILED: $(tail -n 1 "$work/out")"
                failures=$((failures + 1))
            fi
        done
    done
else
    row "compute-sanitizer" "not here"
fi

# ---- figures: a copy on the device first, which bandwidths are compared with
say "latency, graphs"
copy=
if bounded 90 "$build"/tests/device_table 2 "$topology" >"$work/out" 2>&1; then
    while read -r name rest; do row "$name" "$rest"; done <"$work/out"
    copy=$(sed -n 's/^copy  *\([0-9.]*\) GB.*/\1/p' "$work/out")
else
    row "device_table" "FAILED: $(tail -n 1 "$work/out")"
    failures=$((failures + 1))
fi

say "bandwidth"
measured() { # measured NAME OPTION...: of the last size, and what part of a copy's bandwidth it is
    local name=$1 line
    shift
    if bounded 60 "$peal" bench "$@" --gpu --no-check >"$work/out" 2>&1; then
        # size, count, type, operation, root, time, algbw
        line=$(grep -E '^ *[0-9]' "$work/out" | tail -n 1)
        row "$name" "$(awk -v copy="$copy" '{ printf "%s B, %s us, %s GB/s", $1, $6, $7
            if (copy > 0) printf ", %.2f of a copy", $7 / copy }' <<<"$line")"
    else
        row "$name" "FAILED: $(grep -m 1 error "$work/out")"
        failures=$((failures + 1))
    fi
}
large=64M
[ $where = gpu ] || large=64K
for engine in sm tma ce; do
    measured "allgather, $engine, 2 ranks" "$topology" -n 2 -c allgather -a direct -e nvlink=$engine \
        -s $large:$large --max-sms 16 --threads
done
measured "allgather, no SM, 2 ranks" "$topology" -n 2 -c allgather -a direct --zero-sm -s $large:$large \
    --threads
measured "allreduce, sm, 2 ranks" "$topology" -n 2 -c allreduce -s $large:$large --max-sms 16 --threads
measured "staged in the place of rdma" "$network" --group 0,8 -c allgather -s $large:$large --max-sms 16 \
    --threads

say "overlap"
beside() { # beside NAME OPTION...: a row for each engine, as peal bench --beside has them
    local name=$1 line
    shift
    if bounded 60 "$peal" bench "$@" --gpu --beside >"$work/out" 2>&1; then
        [ -n "$explained" ] ||
            row "beside a matrix product" "$(grep -v '^#' "$work/out" | grep -m 1 'hidden' | tr -s ' ')"
        explained=1
        while read -r line; do
            row "  $name" "$(tr -s ' ' <<<"$line")"
        done < <(grep -v '^#' "$work/out" | grep 'stream')
    else
        row "  $name, beside a product" "FAILED: $(grep -m 1 error "$work/out")"
        failures=$((failures + 1))
    fi
}
explained=
few=(-s 4M:4M)
[ $where = gpu ] || few=(-s 64K:64K -i 2 -w 1)
beside allreduce "$topology" -n 2 -c allreduce "${few[@]}" --max-sms 8
beside allgather "$topology" -n 2 -c allgather "${few[@]}" --max-sms 8
beside "allgather, no SM" "$topology" -n 2 -c allgather "${few[@]}" --zero-sm -e nvlink=ce

say "done"
echo
[ $where = gpu ] || echo "ON A STAND-IN, NOT ON A GPU: times mean nothing"
cat "$table"
echo "$failures failed"
[ "$failures" = 0 ]
