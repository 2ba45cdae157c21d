#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How long a whole process takes to plan, compile and prove, against one that does nothing but
# read the topology: median of ROUNDS runs.
#
#   planning.sh PEAL
set -eu
peal=$(realpath "${1:?usage: planning.sh PEAL}")
[ -f "$peal" ] && [ -x "$peal" ] || { echo "planning.sh: $1 is no program" >&2; exit 2; }
rounds=${ROUNDS:-11}
cd "$(dirname "$0")/../.."

median_ms() { # median_ms COMMAND...
    local i start
    for ((i = 0; i < rounds; i++)); do
        start=$(date +%s%N)
        "$@" >/dev/null
        echo $((($(date +%s%N) - start) / 1000))
    done | sort -n | sed -n "$((rounds / 2 + 1))p"
}

row() { # row NAME TOPOLOGY COMMAND...
    local name=$1 topology=$2 base us
    shift 2
    base=$(median_ms "$peal" topo "$topology" --json)
    us=$(median_ms "$@")
    awk -v n="$name" -v b="$base" -v u="$us" \
        'BEGIN { printf "%-44s %9.2f ms   %6.2f x reading the topology\n", n, u / 1000, u / b }'
}

t=examples/topologies
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
row "plan, 8 GPUs, 8 B to 8 GiB" $t/dgx-h100.xml "$peal" plan $t/dgx-h100.xml
row "plan, 16 x 8 GPUs" $t/cluster-h100-16.xml "$peal" plan $t/cluster-h100-16.xml
row "plan, 128 x 8 GPUs" $t/cluster-h100-128.xml "$peal" plan $t/cluster-h100-128.xml
row "compile and prove the table, 8 GPUs" $t/dgx-h100.xml \
    "$peal" compile $t/dgx-h100.xml -o "$out/x.peal"
row "compile and prove the table, 2 x 8 GPUs" $t/cluster-h100-2.xml \
    "$peal" compile $t/cluster-h100-2.xml -o "$out/x.peal"

# Against targets: time and memory of the process itself (user and system time, so that others on
# the machine do not count), the least of a few runs; of "beyond" rows, what is left when planning
# is taken off.
cluster() { # cluster HOSTS: writes a cluster of so many
    cat >"$out/c$1.xml" <<XML
<peal version="1" name="c$1"><host name="dgx" count="$1" topology="$PWD/$t/dgx-h100.xml"/>
<network kind="rails"/></peal>
XML
}

least() { # least COMMAND...: "MS KIB"
    local i
    for ((i = 0; i < 3; i++)); do
        /usr/bin/time -f "%U %S %M" -o "$out/time" "$@" >/dev/null 2>&1 || true
        tail -n 1 "$out/time"
    done | awk '{ ms = ($1 + $2) * 1000; if (NR == 1 || ms < m) m = ms; if ($3 > k) k = $3 }
                END { print m, k }'
}

target() { # target WHAT LIMIT_MS OFF_MS COMMAND...: OFF_MS is taken off
    local what=$1 limit=$2 off=$3
    shift 3
    least "$@" | awk -v w="$what" -v l="$limit" -v o="$off" \
        '{ printf "%-62s %9s %9.0f ms %8.1f MiB\n", w, l == "-" ? "-" : l " ms", $1 - o, $2 / 1024 }'
}

cluster 8192
many=$out/c8192.xml
plain=(--algorithm ring --channels 1)
printf '\n%-62s %9s %12s %12s\n' what target measured memory
target "8 GPUs, every collective: plan, compile, prove" 100 0 \
    "$peal" compile $t/dgx-h100.xml --collective all -o "$out/x.peal"
target "128 x 8, every collective: plan" 1000 0 \
    "$peal" plan $t/cluster-h100-128.xml --collective all
target "128 x 8, every collective: one rank's programs" 1000 0 \
    "$peal" compile $t/cluster-h100-128.xml --collective all --rank 77 -o "$out/x.peal"
target "128 x 8, allreduce: compile and prove" - 0 \
    "$peal" compile $t/cluster-h100-128.xml -o "$out/x.peal"
target "8192 x 8, allreduce: plan" 5000 0 "$peal" plan "$many"
target "8192 x 8, every collective: plan" - 0 "$peal" plan "$many" --collective all
target "8192 x 8, allreduce of 1 MiB, hierarchical: plan, prove by classes" 20000 0 \
    "$peal" verify "$many" --algorithm hierarchical --bytes 1M
target "64 ranks, allreduce table: plan, prove" 1000 0 \
    "$peal" verify $t/cluster-h100-16.xml --ranks 64
target "256 ranks, ring of 1 MiB: plan, prove" 5000 0 \
    "$peal" verify $t/cluster-h100-128.xml --ranks 256 --algorithm ring --bytes 1M
target "128 x 8, allreduce of 1 MiB, hierarchical: plan, prove" 20000 0 \
    "$peal" verify $t/cluster-h100-128.xml --algorithm hierarchical --bytes 1M
planned=$(least "$peal" plan "$many" | cut -d' ' -f1)
target "8192 x 8, allreduce: one rank's programs of all rows, beyond" 100 "$planned" \
    "$peal" compile "$many" --rank 40000 -o "$out/x.peal"
planned=$(least "$peal" plan "$many" "${plain[@]}" | cut -d' ' -f1)
target "8192 x 8, plain ring: one rank's program, beyond" 100 "$planned" \
    "$peal" compile "$many" "${plain[@]}" --rank 40000 -o "$out/x.peal"
