#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# seeds.sh PEAL plan|asm DIR: small plans for a fuzzer to start from, into DIR.
set -eu
peal=$(realpath "$1")
subject=$2
out=$3
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
topology=$PEAL_SOURCE/examples/topologies/dgx-h100.xml
for ranks in 2 3; do
    for algorithm in ring oneshot twoshot halving; do
        name=$algorithm-$ranks
        "$peal" compile "$topology" --ranks "$ranks" --algorithm "$algorithm" \
            -o "$made/$name" >/dev/null || continue
        case $subject in
        plan) cp "$made/$name" "$out/$name.peal" ;;
        asm) "$peal" dump "$made/$name" >"$out/$name.s" ;;
        esac
    done
done
# One rank's program alone.
for algorithm in ring oneshot tree; do
    "$peal" compile "$topology" --algorithm "$algorithm" --bytes 1K:64K --rank 5 \
        -o "$made/slice" >/dev/null
    case $subject in
    plan) cp "$made/slice" "$out/$algorithm-slice.peal" ;;
    asm) "$peal" dump "$made/slice" >"$out/$algorithm-slice.s" ;;
    esac
done
# A collective of one's own, with what every chunk begins and ends with.
if "$peal" compile "$topology" --ranks 4 --collective custom \
    --algorithm "$PEAL_SOURCE/examples/algorithms/halo.lua" -o "$made/custom" >"$made/said" 2>&1; then
    case $subject in
    plan) cp "$made/custom" "$out/custom.peal" ;;
    asm) "$peal" dump "$made/custom" >"$out/custom.s" ;;
    esac
elif ! grep 'built without Lua' "$made/said"; then
    cat "$made/said"
    exit 1
fi
# What a switch does for a group.
cp "$topology" "$made/host.xml"
(cd "$made" && "$peal" topo cluster host.xml --nodes 1 --multicast -o one.xml >/dev/null &&
    "$peal" compile one.xml --ranks 3 --algorithm nvls --bytes 1M -o switched >/dev/null)
case $subject in
plan) cp "$made/switched" "$out/switched.peal" ;;
asm) "$peal" dump "$made/switched" >"$out/switched.s" ;;
esac
