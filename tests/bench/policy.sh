#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# policy.sh BUILD [TOPO]: what policies cost, on 128 nodes unless a topology is given, with the
# cookbook's policy that asks most (a cost of every candidate); and hostile scripts.
set -euo pipefail
build=$(realpath "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
topology=${2:-$root/examples/topologies/cluster-h100-128.xml}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CC:-cc}" -O2 -std=c11 -D_POSIX_C_SOURCE=200809L -I"$root/include" \
    "$root/tests/bench/policy_bench.c" -o "$work/bench" -L"$build" -lpeal -Wl,-rpath,"$build"
"$work/bench" "$topology" "$root/examples/policies/sm-priced.lua" "$root"/tests/hostile/*.lua
