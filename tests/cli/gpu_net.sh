#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks in device memory on two hosts, told apart by name: processes that a launcher started, on the
# stand-in for the CUDA driver; what they say of the way they take, and what cannot be.
# ctest: plain
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
# shellcheck source=tests/support/launch.sh
. "$PEAL_SOURCE/tests/support/launch.sh"
export LD_LIBRARY_PATH=$PEAL_BUILD/fakecuda PEAL_JOB_KEY=sesame
port=$(free_port)
two=$topologies/cluster-h100-2.xml
four=(--group "0,1,8,9" --gpu --check --timeout 60000)

# All collectives; private buffers and registered ones, late ranks, several sockets.
launch "a a b b" "$PEAL" run "$two" "${four[@]}" --collective all --count 4099
expect_ranks 0
expect_out 'all right'
expect_err 'note: 2 hosts .a, b.'
expect_err 'device memory goes between hosts through pinned host memory by TCP; not by RDMA: '
FAKECUDA_DELAY=7 launch "a a b b" "$PEAL" run "$two" "${four[@]}" --sockets 3 --registered \
    --collective allreduce,alltoallv --bytes 300K --iters 4 --random-delay
expect_ranks 0
expect_out 'all right'
# Every rank alone, and memory shared by IPC within a host.
FAKECUDA_VMM=0 launch "a b b" "$PEAL" run "$topologies/cluster-h100-16.xml" --group 0,8,9 --gpu \
    --check --bytes 8M --iters 1 --timeout 60000 --json
expect_ranks 0
expect_json 'j["wrong"] == 0 and j["ranks_as"] == "processes" and "rdma" in j["stand_ins"]'

# Without an SM: copies within a host, and the service thread between them.
launch "a a b b" "$PEAL" run "$two" "${four[@]}" --zero-sm --collective allgather,alltoall,broadcast \
    --bytes 12,300K --iters 3
expect_ranks 0
expect_out 'all right'

no_leftovers
