#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Scatter, gather, allgather and all-to-all: every algorithm that moves blocks, on one host and on
# several, equal and unequal, compared element by element.
# ctest: slow
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
counts=2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17
h100=$topologies/cluster-h100-16.xml

expect 0 "$PEAL" topo cluster "$topologies/slingshot-4gpu.xml" --nodes 4 -o four.xml
expect 0 "$PEAL" topo cluster "$topologies/pcie-8gpu.xml" --nodes 2 -o pcie.xml

for topology in "$h100" four.xml pcie.xml; do
    n=$counts
    [ "$topology" = "$h100" ] && n=$counts,32,33
    [ "$topology" = "$h100" ] || n=${counts%,17}
    expect 0 "$PEAL" run "$topology" -n "$n" -a bruck -c alltoall,allgather --check -b 8,40000
    expect 0 "$PEAL" run "$topology" -n "$n" -a tree -c scatter,gather --root 0,1 --check -b 40000 --placement both
    expect 0 "$PEAL" run "$topology" -n "$n" -a direct -c alltoall,allgather,scatter,gather,reduce,reduce-scatter,broadcast --check -b 40000
done
expect 0 "$PEAL" run "$h100" -n 64 -a direct,bruck,twohop -c alltoall --check -b 128K
expect 0 "$PEAL" run "$h100" -n 16,24,32 -a twohop -c alltoall --check -b 8,40000,1M --chaos 5
expect 0 "$PEAL" run four.xml -n 8,12,16 -a twohop -c alltoall --check -d all -b 40000
expect 0 "$PEAL" run pcie.xml -n 16 -a twohop,direct,bruck -c alltoall --check -b 40000 --engine net=tcp
expect 0 "$PEAL" run "$h100" -n 12,24 -a direct -c gather,reduce --root 0,9 --incast 2 --check -b 40000
