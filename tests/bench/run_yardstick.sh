#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures peal against the yardstick's reference, Open MPI, MPICH and the least that a program
# written by hand does (yardstick_least.c), interleaved, and prints ratios.
#
#   run_yardstick.sh BUILD [RANKS...]
#
# BUILD: a build directory with libpeal.a. RANKS: default 2 4 8. Environment:
#   PEAL_YARDSTICK  the yardstick (default: ../shared/yardstick beside the tree)
#   ROUNDS          how often each contender runs (3)
#   CONTENDERS      some of: peal private ref ompi mpich least (all there are)
#   LEAST_WAYS      the ways of `least`, as BENCH_LEAST has them: each runs once a round
#   BENCH_SETS      collectives: ar rs ag aa bc (all)
#   BENCH_BUD       seconds a measurement (0.05); BENCH_QUICK= for all sizes
#   BENCH_STAT      of a run's back-to-back blocks: min, or median (median)
#   PEAL_BENCH_TABLE_N  a table's text for N ranks, instead of what peal plans
#
# Columns: us of back-to-back calls of each contender (peal: with buffers that all ranks reach;
# private: with the caller's own), for `least` of the best of its ways, whose name is the last
# column. Then ratios, each of back-to-back calls and, as `apart`, of such that barriers separate:
#   peal/ref   peal and the reference
#   priv/mpi   peal with private buffers, and the better of the MPI libraries that ran
#   least/mpi  the same of `least`
#   verdict    on priv/mpi, likewise twice. The target is 0.67 on two ranks and 0.80 on more; for
#              broadcasts 1.00 below 4 KiB and 0.67 from there on. `met`; `missed`; or `beyond`:
#              missed, and `least` misses it, too: which says little where `least` is the slower.
# Rows are compared only where the flag latencies of both belong to one class (near, far): the two
# processors of a virtual machine may be moved apart between runs. MPICH runs on two ranks only:
# its ranks do not yield.
set -eu

build=$(realpath "${1:?usage: run_yardstick.sh BUILD [RANKS...]}")
shift
ranks=${*:-2 4 8}
here=$(cd "$(dirname "$0")" && pwd)
ways=${LEAST_WAYS:-lines+early lines slots+early@32 slots+nt@64 attach+back attach+early+back \
    mixed+back}
yardstick=$(realpath "${PEAL_YARDSTICK:-$here/../../../shared/yardstick}")
rounds=${ROUNDS:-3}
out=$build/yardstick
rows=$out/rows.csv
export BENCH_SETS=${BENCH_SETS:-ar,rs,ag,aa,bc}
export BENCH_TRY=${BENCH_TRY:-1} BENCH_BUD=${BENCH_BUD:-0.05}
export BENCH_QUICK=${BENCH_QUICK-1}
[ -n "$BENCH_QUICK" ] || unset BENCH_QUICK

mkdir -p "$out"
make -s -C "$yardstick" OUT="$out" "$out/b_ref" "$out/launch"
contenders="peal private ref least"
for mpi in openmpi:ompi mpich:mpich; do
    if command -v "mpicc.${mpi%:*}" >/dev/null && command -v "mpirun.${mpi%:*}" >/dev/null; then
        make -s -C "$yardstick" OUT="$out" "$out/b_${mpi#*:}"
        contenders="$contenders ${mpi#*:}"
    fi
done
contenders=${CONTENDERS:-$contenders}
libs=$(pkg-config --libs libxml-2.0 nettle 2>/dev/null || echo -lxml2 -lnettle)
libs="$libs $(pkg-config --libs libibverbs 2>/dev/null || true)"
# shellcheck disable=SC2086
${CC:-cc} -std=c11 -O2 -Wall -Wextra -I"$here/../../include" -I"$yardstick" \
    "$here/yardstick_peal.c" "$out/bench.o" "$build/libpeal.a" $libs -lpthread -lm -o "$out/b_peal"
case " $contenders " in
*" least "*)
    ${CC:-cc} -std=c11 -O3 -march=native -Wall -Wextra -I"$yardstick" "$here/yardstick_least.c" \
        "$out/bench.o" -lm -o "$out/b_least"
    ;;
esac

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
    least+*) BENCH_LEAST=${1#least+} "$out/launch" "$2" "$out/b_least" ;;
    mpich) mpirun.mpich -np "$2" "$out/b_mpich" ;;
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
            [ "$contender" != mpich ] || [ "$n" -le "$(nproc)" ] || continue
            runs=$contender
            # shellcheck disable=SC2086
            [ "$contender" != least ] || runs=$(printf 'least+%s ' $ways)
            for run in $runs; do
                run_one "$run" "$n" >>"$rows" || echo "FAILED,$run,$n" >>"$rows"
            done
        done
    done
done
grep -E '^(BAD|FAILED)' "$rows" >&2 || true
exec awk -F, -v stat="${BENCH_STAT:-median}" -f "$here/yardstick_table.awk" "$rows"
