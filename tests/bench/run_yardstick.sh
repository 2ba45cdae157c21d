#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures peal against the yardstick's reference and Open MPI, interleaved, and prints ratios.
#
#   run_yardstick.sh BUILD [RANKS...]
#
# BUILD: a build directory with libpeal.a. RANKS: default 2 4 8. Environment:
#   PEAL_YARDSTICK  the yardstick (default: ../shared/yardstick beside the tree)
#   ROUNDS          how often each contender runs (3)
#   BENCH_BUD       seconds a measurement (0.05); BENCH_QUICK= for all sizes
#   PEAL_BENCH_TABLE_N  a table's text for N ranks, instead of what peal plans
# Rows are compared only where the flag latencies of both belong to one class (near, far):
# the two processors of a virtual machine may be moved apart between runs.
set -eu

build=$(realpath "${1:?usage: run_yardstick.sh BUILD [RANKS...]}")
shift
ranks=${*:-2 4 8}
here=$(cd "$(dirname "$0")" && pwd)
yardstick=$(realpath "${PEAL_YARDSTICK:-$here/../../../shared/yardstick}")
rounds=${ROUNDS:-3}
out=$build/yardstick
rows=$out/rows.csv
export BENCH_SETS=ar BENCH_TRY=${BENCH_TRY:-1} BENCH_BUD=${BENCH_BUD:-0.05}
export BENCH_QUICK=${BENCH_QUICK-1}
[ -n "$BENCH_QUICK" ] || unset BENCH_QUICK

mkdir -p "$out"
make -s -C "$yardstick" OUT="$out" "$out/b_ref" "$out/launch"
contenders="peal private ref"
if command -v mpicc.openmpi >/dev/null && command -v mpirun.openmpi >/dev/null; then
    make -s -C "$yardstick" OUT="$out" "$out/b_ompi"
    contenders="$contenders ompi"
fi
libs=$(pkg-config --libs libxml-2.0 2>/dev/null || echo -lxml2)
# shellcheck disable=SC2086
${CC:-cc} -std=c11 -O2 -Wall -Wextra -I"$here/../../include" -I"$yardstick" \
    "$here/yardstick_peal.c" "$out/bench.o" "$build/libpeal.a" $libs -lpthread -lm -o "$out/b_peal"

run_one() { # contender ranks
    local table="PEAL_BENCH_TABLE_$2"
    export BENCH_ID=$RANDOM$RANDOM BENCH_LABEL=$1
    if [ -n "${!table:-}" ]; then
        export PEAL_BENCH_TABLE=${!table}
    else
        unset PEAL_BENCH_TABLE
    fi
    case $1 in
    peal) "$out/launch" "$2" "$out/b_peal" ;;
    private) PEAL_BENCH_PRIVATE=1 "$out/launch" "$2" "$out/b_peal" ;;
    ref) "$out/launch" "$2" "$out/b_ref" ;;
    ompi)
        local extra=""
        if [ "$2" -gt "$(nproc)" ]; then
            extra="--oversubscribe --mca mpi_yield_when_idle 1"
        fi
        # shellcheck disable=SC2086
        mpirun.openmpi --allow-run-as-root $extra -np "$2" "$out/b_ompi"
        ;;
    esac
}

: >"$rows"
for n in $ranks; do
    for _ in $(seq "$rounds"); do
        for contender in $contenders; do
            run_one "$contender" "$n" >>"$rows" || echo "FAILED,$contender,$n" >>"$rows"
        done
    done
done
grep -E '^(BAD|FAILED)' "$rows" >&2 || true

printf '%3s %10s %-5s %10s %10s %10s %10s %9s %12s\n' N bytes flag peal private ref ompi \
    peal/ref private/ompi
# Median over rounds of the back-to-back medians, by class of flag latency.
awk -F, '
    function class(ns) { return ns < 100 ? "near" : "far" }
    function median(list,   v, n, i, j, t) {
        n = split(list, v, " ")
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && v[j] + 0 < v[j - 1] + 0; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
        return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
    }
    function ratio(key, a, b) {
        return ((key, a) in all) && ((key, b) in all) ? \
            sprintf("%.2f", median(all[key, a]) / median(all[key, b])) : "-"
    }
    function show(key, a) { return (key, a) in all ? sprintf("%.2f", median(all[key, a])) : "-" }
    $1 == "R" && class($(NF - 1)) == class($NF) {
        key = sprintf("%3d %10d %-5s", $4, $5, $4 > 2 ? "any" : class($NF))
        all[key, $2] = all[key, $2] " " $8
        keys[key] = 1
    }
    END {
        for (key in keys)
            printf "%s %10s %10s %10s %10s %9s %12s\n", key, show(key, "peal"), \
                show(key, "private"), show(key, "ref"), show(key, "ompi"), \
                ratio(key, "peal", "ref"), ratio(key, "private", "ompi") | "sort -n -k1 -k2"
    }' "$rows"
