#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that Open MPI's mpirun started, who meet through PMIx: on one host, and told apart as two.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
if ! command -v mpirun >/dev/null || ! mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    echo "skipped: no mpirun of Open MPI's here"
    exit 77
fi
two=$topologies/cluster-h100-2.xml
mpi=(mpirun --allow-run-as-root --oversubscribe -n 4)
got=0
"${mpi[@]}" "$PEAL" run host:4 --bytes 1M --check --timeout 20000 >out 2>err || got=$?
if grep -q 'built without' err; then
    echo "skipped: built without PMIx"
    exit 77
fi
[ "$got" = 0 ] || die "exit code $got"
expect_out 'all right'
# shellcheck disable=SC2016 # by the shell of each rank
expect 0 "${mpi[@]}" sh -c 'PEAL_HOST_ID=n$((PMIX_RANK / 2)) exec "$0" "$@"' \
    "$PEAL" run "$two" --group 0,1,8,9 --collective all --count 0,1,4099 --check --timeout 20000
expect_out 'all right'
expect_err '2 hosts .n0, n1., connected by TCP'
# In device memory, on the stand-in for the CUDA driver.
# shellcheck disable=SC2016
LD_LIBRARY_PATH=$PEAL_BUILD/fakecuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} expect 0 "${mpi[@]}" \
    sh -c 'PEAL_HOST_ID=n$((PMIX_RANK / 2)) exec "$0" "$@"' "$PEAL" run "$two" --group 0,1,8,9 \
    --collective allreduce,alltoall --count 0,1,4099 --gpu --check --timeout 20000
expect_out 'all right'
expect_err 'device memory goes between hosts through pinned host memory by TCP'

# MPICH's numbers its processes, and says nothing of how they meet.
if command -v mpiexec.mpich >/dev/null; then
    # shellcheck source=tests/support/launch.sh
    . "$PEAL_SOURCE/tests/support/launch.sh"
    expect 2 mpiexec.mpich -n 2 "$PEAL" run host:2
    expect_err "as MPICH's mpiexec, has started 2 processes"
    # shellcheck disable=SC2016
    MASTER_ADDR=127.0.0.1 MASTER_PORT=$(free_port) expect 0 mpiexec.mpich -n 3 \
        sh -c 'RANK=$PMI_RANK WORLD_SIZE=$PMI_SIZE exec "$0" "$@"' "$PEAL" run host:3 --check \
        --timeout 20000
    expect_out 'all right'
fi
