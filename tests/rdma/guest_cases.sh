# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# What is run in the guests, by both of them in the same order. $role is init's.
export PEAL_JOB_KEY=guests
export MASTER_ADDR=10.9.0.1
port=29600

# ranks COMMAND...: this guest's ranks of four, each of two hosts; their codes in /tmp/code.R
ranks() {
    port=$((port + 1))
    case $role in
    a) mine="0 1" ;;
    b) mine="2 3" ;;
    *) mine="0 1 2 3" ;;
    esac
    pids=
    for r in $mine; do
        rm -f "/tmp/code.$r"
        (
            MASTER_PORT=$port WORLD_SIZE=4 RANK=$r PEAL_HOST_ID=node$((r / 2)) timeout 100 "$@" \
                >"/tmp/out.$r" 2>"/tmp/err.$r"
            echo $? >"/tmp/code.$r"
        ) &
        pids="$pids $!"
    done
}

finish() {
    for p in $pids; do wait "$p"; done
}

# judge NAME CODE [TEXT]: all ranks here ended with the code, and an error line says the text
judge() {
    fine=1
    for r in $mine; do
        [ "$(cat "/tmp/code.$r")" = "$2" ] || fine=0
        [ -z "$3" ] || grep -qE "$3" "/tmp/err.$r" || fine=0
    done
    if [ $fine = 1 ]; then
        say "case $1"
        echo "case $1 ok"
    else
        echo "case $1 FAILED"
        for r in $mine; do
            echo "rank $r: code $(cat "/tmp/code.$r")"
            tail -n 8 "/tmp/out.$r" "/tmp/err.$r"
        done
    fi
}

# by_verbs: rank 0, which is here, says that no other network takes part
by_verbs() {
    case $role in b) return ;; esac
    grep -q 'connected by RDMA (rxe0:1 here)$' /tmp/err.0 || {
        echo "case $1 FAILED: not by RDMA alone"
        cat /tmp/err.0
    }
    if grep -q 'stand in for.*rdma' /tmp/out.0; then
        echo "case $1 FAILED: something stands in for RDMA"
    fi
}

# under_way: the device has sent some thousand packets more
under_way() {
    counter=/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts
    enough=$(($(cat $counter) + 2000))
    tries=0
    until [ "$(cat $counter)" -gt $enough ] || [ $tries = 300 ]; do
        sleep 0.2
        tries=$((tries + 1))
    done
}

right() { # right NAME PLAN ARGUMENT...
    name=$1
    plan=$2
    shift 2
    ranks peal run "/payload/$plan.peal" --check --iters 1 --warmup 0 --timeout 90000 "$@"
    finish
    judge "$name" 0
    by_verbs "$name"
}

# Elements of a block: from nothing to 8 MiB in a rank's larger buffer.
whole=0,4,1000,50000,2097152
blocks=0,1,250,12500,524288

if [ "$role" = single ]; then
    right allreduce allreduce --count 0,1000,50000 --sockets 3
else
    right allreduce allreduce --count $whole --sockets 3
    right allgather allgather --count $blocks
    right alltoall alltoall --count $blocks
    right registered allreduce --bytes 1M --registered

    peal topo detect --ranks 2 | grep -q 'name="rxe0"' || echo "case detect FAILED: $(peal topo detect --ranks 2)"

    ranks peal run /payload/allreduce.peal --check --iters 1 --timeout 60000 --rdma nosuch0
    finish
    judge fallback 0
    if [ "$role" = a ] && ! grep -q 'TCP; not by RDMA: .*no RDMA device nosuch0' /tmp/err.0; then
        echo "case fallback FAILED: $(cat /tmp/err.0)"
    fi
fi

# A key that the other end does not know.
ranks peal-rdma-rank /payload/allreduce.peal bad-key
finish
judge bad-key 0

[ "$role" != single ] || return 0

# A process that dies in the midst of calls; the others name it.
ranks peal-rdma-rank /payload/allreduce.peal lost
if [ "$role" = b ]; then
    under_way
    for p in /proc/[0-9]*; do
        if tr '\0' '\n' <"$p/environ" 2>/dev/null | grep -qx RANK=3 &&
            [ "$(cat "$p/comm")" = peal-rdma-rank ]; then
            kill -9 "${p#/proc/}"
        fi
    done
fi
finish
mine=${mine% 3}
judge killed 0 'rank 3 on node1'

modprobe sch_netem
/usr/bin/tc qdisc add dev eth0 root netem loss 1% limit 10000 || echo "case netem FAILED"
right lossy-allreduce allreduce --count $whole
right lossy-allgather allgather --count $blocks
right lossy-alltoall alltoall --count $blocks
/usr/bin/tc -s qdisc show dev eth0 | grep -q 'dropped [1-9]' || echo "case netem FAILED: nothing was lost"

# A host that dies.
ranks peal-rdma-rank /payload/allreduce.peal lost
if [ "$role" = b ]; then
    under_way
    echo "this host dies now"
    echo b >/proc/sysrq-trigger
fi
finish
judge host-died 0 'rank [23] on node1'
