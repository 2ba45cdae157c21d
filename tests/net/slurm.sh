#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# srun --mpi=pmix -N2 -n8: a Slurm of two nodes on this machine, which peal is told to take for two
# hosts. Skipped where Slurm is not installed, or not to be started.
# ctest: slow
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
skip() {
    echo "skipped: $*"
    exit 77
}
for tool in slurmctld slurmd srun munged; do
    command -v $tool >/dev/null || skip "no $tool here"
done
[ "$(id -u)" = 0 ] || skip "takes root, to start the daemons"
here=$(mktemp -d)
chmod 755 "$here"
mkdir -p "$here"/{run,log,state,spool/n1,spool/n2,tmp.n1,tmp.n2,munge}
chown -R munge: "$here/munge"
name=$(hostname -s)

# A munge of our own, so that nobody's is touched.
dd if=/dev/urandom of="$here/munge/key" bs=1024 count=1 2>/dev/null
chown munge: "$here/munge/key"
chmod 400 "$here/munge/key"
su -s /bin/sh munge -c "munged --key-file=$here/munge/key --socket=$here/munge/socket \
    --pid-file=$here/munge/pid --log-file=$here/munge/log --seed-file=$here/munge/seed --force" \
    2>/dev/null || true
cat >"$here/slurm.conf" <<CONF
ClusterName=peal
SlurmctldHost=$name(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$here/munge/socket
CredType=cred/munge
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SlurmUser=root
SlurmctldPort=26917
SlurmctldPidFile=$here/run/ctld.pid
SlurmdPidFile=$here/run/slurmd.%n.pid
SlurmdSpoolDir=$here/spool/%n
TmpFS=$here/tmp.%n
StateSaveLocation=$here/state
SlurmctldLogFile=$here/log/ctld.log
SlurmdLogFile=$here/log/slurmd.%n.log
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=n[1-2] NodeHostname=$name NodeAddr=127.0.0.1 Port=[26921-26922] CPUs=4 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:4
CONF
export SLURM_CONF=$here/slurm.conf
# shellcheck disable=SC2317 # a trap
stop() {
    local file pids=()
    for ((i = 0; i < 60; i++)); do # the steps' own daemons end behind the last srun
        [ -n "$(squeue -h -o %i 2>/dev/null)" ] || break
        sleep 0.1
    done
    sleep 0.5
    for file in "$here"/run/*.pid "$here"/munge/pid; do
        [ -f "$file" ] && pids+=("$(cat "$file")")
    done
    kill "${pids[@]}" 2>/dev/null || true
    for ((i = 0; i < 40; i++)); do
        kill -0 "${pids[@]}" 2>/dev/null || break
        sleep 0.1
    done
    rm -rf "$scratch" "$here" || true
}
trap stop EXIT
slurmctld -f "$SLURM_CONF" || skip "slurmctld does not start"
for node in n1 n2; do
    slurmd -f "$SLURM_CONF" -N $node || skip "slurmd does not start"
done
for ((i = 0; i < 60; i++)); do
    [ "$(sinfo -h -o %t 2>/dev/null)" = idle ] && break
    sleep 0.25
done
[ "$(sinfo -h -o %t 2>/dev/null)" = idle ] || skip "the nodes do not come up"

two=$topologies/cluster-h100-2.xml
run=(timeout 100 srun --mpi=pmix -N2 -n8)
# shellcheck disable=SC2016 # by the shell of each rank
on_nodes=(sh -c 'PEAL_HOST_ID=$SLURMD_NODENAME exec "$0" "$@"')
expect 0 "$PEAL" compile "$two" --group 0,1,2,3,8,9,10,11 --bytes 8:1M -o plan.peal
expect 0 "${run[@]}" "${on_nodes[@]}" "$PEAL" run "$PWD/plan.peal" --check --bytes 1M --timeout 60000
expect_out 'all right'
expect_err '2 hosts .n1, n2., connected by TCP'
expect 0 "${run[@]}" "${on_nodes[@]}" "$PEAL" run "$two" --group 0,1,2,3,8,9,10,11 \
    --collective allreduce,allgather,alltoall,alltoallv,barrier --count 0,1,4099 --check \
    --timeout 60000
expect_out 'all right'
# Each rank makes its own programs only, or finds them in a file of its own.
expect 0 "${run[@]}" "${on_nodes[@]}" "$PEAL" run "$two" --group 0,1,2,3,8,9,10,11 --slice \
    --bytes 64K --check --timeout 60000
expect_out 'all right'
for r in 0 1 2 3 4 5 6 7; do
    expect 0 "$PEAL" compile "$two" --group 0,1,2,3,8,9,10,11 --bytes 8:1M --rank "$r" \
        -o "slice.$r.peal"
done
expect 0 "${run[@]}" "${on_nodes[@]}" "$PEAL" run "$PWD/slice.%r.peal" --check --timeout 60000
expect_out 'all right'
# With a policy, rank 0 plans and the others get its table: they have no policy's file.
if ! strings -a "$(dirname "$PEAL")"/libpeal.so 2>/dev/null | grep -q "built without Lua"; then
    mkdir rank0
    cp "$PEAL_SOURCE/examples/policies/decode-first.lua" rank0/policy.lua
    # shellcheck disable=SC2016 # by the shell of each rank
    expect 0 "${run[@]}" sh -c 'mkdir -p rank$PMIX_RANK; cd rank$PMIX_RANK
        PEAL_HOST_ID=$SLURMD_NODENAME exec "$0" "$@"' "$PEAL" run "$two" \
        --group 0,1,2,3,8,9,10,11 --policy policy.lua --collective allreduce,alltoall \
        --count 1,4099 --check --timeout 60000
    expect_out 'all right'
fi
expect 0 timeout 100 srun --mpi=pmix -N1 -n2 "$PEAL" run host:2 --check --timeout 60000
cat out
# Without PMIx nobody takes himself for the only rank. Slurm's own variables do instead.
expect 2 timeout 100 srun --mpi=none -N1 -n2 "$PEAL" run host:2
expect_err 'srun .without --mpi=pmix. has started 2 processes'
export MASTER_ADDR=127.0.0.1 MASTER_PORT=26931
# shellcheck disable=SC2016 # by the shell of each rank
expect 0 timeout 100 srun --mpi=none -N2 -n2 sh -c 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS \
    LOCAL_RANK=$SLURM_LOCALID exec "$0" "$@"' "$PEAL" run host:2 --check --timeout 60000
expect_out 'all right'
