#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# peal run: hierarchical schedules by every pair of parts, on equal and unequal hosts.
# ctest: slow
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
all=allreduce,reduce-scatter,allgather,broadcast,reduce,gather,scatter,barrier

cat > mixed.xml <<XML
<peal version="1" name="mixed">
  <host name="a" topology="$topologies/slingshot-4gpu.xml"/>
  <host name="b" topology="$topologies/dgx-h100.xml"/>
  <host name="c" topology="$topologies/slingshot-4gpu.xml"/>
  <network kind="leaf-spine"/>
</peal>
XML
cat > boxes.xml <<XML
<peal version="1" name="boxes">
  <host name="a" count="2" topology="$topologies/pcie-8gpu.xml"/>
  <network kind="leaf-spine"/>
</peal>
XML
cat > pods.xml <<XML
<peal version="1" name="pods">
  <host name="a" count="4" topology="$topologies/slingshot-4gpu.xml"/>
  <network kind="leaf-spine" hosts-per-leaf="2" oversubscription="4"/>
</peal>
XML

# Settings of allreduce, of collectives whose hosts may differ, and of all others.
for inner in direct ring tree; do
    for outer in direct ring tree doubling; do
        how=(--algorithm hierarchical --inner $inner --outer $outer --check --placement both)
        expect 0 "$PEAL" run mixed.xml --ranks 5,12,13,16 "${how[@]}" --count 0,7,1023
        expect 0 "$PEAL" run boxes.xml --ranks 16 "${how[@]}" --count 1023 --levels numa,host
        [ $outer = doubling ] && continue
        expect 0 "$PEAL" run mixed.xml --ranks 16 --collective broadcast,reduce --root 0,5,15 \
            "${how[@]}" --count 5000 --tile 512 --channels 2
        expect 0 "$PEAL" run boxes.xml --ranks 10 --collective broadcast,reduce --root 9 \
            "${how[@]}" --count 5000 --gateways 1
        expect 0 "$PEAL" run pods.xml --ranks 16 --collective $all "${how[@]}" --count 0,33 \
            --levels host,pod
        expect 0 "$PEAL" run boxes.xml --ranks 16 --collective $all "${how[@]}" --count 600 \
            --tile 256 --chaos 5
    done
done
expect 0 "$PEAL" run pods.xml --collective $all --algorithm hierarchical --check --dtype all \
    --op all --count 100

expect 2 "$PEAL" plan pods.xml --inner star
expect_err "unknown inner algorithm 'star'; known are direct, ring, tree"
expect 2 "$PEAL" plan pods.xml --levels pod,host
expect_err 'not in order from the inside'
expect 0 "$PEAL" plan pods.xml --algorithm hierarchical --levels host,pod --outer ring --explain
expect_out 'hierarchical, levels host pod, inner direct, outer ring'
