#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest: threads
# One schedule whose hops are a copy engine's, a bulk copy's, loads and stores, and RDMA's: shown,
# proven, and run by the host, with engines that are as unkind as they may be.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"

expect 0 "$PEAL" asm "$PEAL_SOURCE/tests/golden/mixed-engines.plan.txt" -o mixed.plan
expect 0 "$PEAL" verify mixed.plan
expect_out 'proven'
expect 0 "$PEAL" dump mixed.plan
for hop in 'r1.out\[0\]@1 ce e0' 'r2.out\[0\]@2 tma e0' 'r3.out\[0\]@3 sm' 'r4.out\[0\]@4 rdma e0'; do
    grep -q "put c0: .* -> $hop" out || die "the dump does not show $hop"
done
expect 0 "$PEAL" run mixed.plan -n 5 --bytes 0,1,4K,33333,1M --dtype uint8 --check --chaos 7
expect_out 'all right'
expect_out 'sm.tma.ce.rdma as the plan names them'
