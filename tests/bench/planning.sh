#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How long a whole process takes to plan, compile and prove, against one that does nothing but
# read the topology: median of ROUNDS runs.
#
#   planning.sh PEAL
set -eu
peal=$(realpath "${1:?usage: planning.sh PEAL}")
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
