#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# seeds.sh PEAL plan|asm DIR: small plans for a fuzzer to start from, into DIR.
set -eu
peal=$1
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
