#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that a launcher started, by its variables: on one host, and on two that are told apart by
# name; and what they say when they do not fit together.
# ctest: plain
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
# shellcheck source=tests/support/launch.sh
. "$PEAL_SOURCE/tests/support/launch.sh"
unset PEAL_JOB_KEY PEAL_JOB_KEY_FILE PEAL_HOST_ID PEAL_INTERFACE PEAL_PORT
port=$(free_port)
two=$topologies/cluster-h100-2.xml
late=(--timeout 20000)

# One host, no key: by memory alone.
launch "a a a" "$PEAL" run host:3 --bytes 0,100,64K --collective all --check "${late[@]}"
expect_ranks 0
expect_out 'all right'
[ ! -s out.1 ] || die "rank 1 has something to say"
no_leftovers

# Two hosts: over the network.
export PEAL_JOB_KEY=sesame
four=(--group "0,1,8,9" "${late[@]}")
launch "a a b b" "$PEAL" run "$two" "${four[@]}" --collective all --count 0,1,7,4099 --check
expect_ranks 0
expect_out 'all right'
expect_err 'note: 2 hosts .a, b., connected by TCP'
launch "a a b b" "$PEAL" run "$two" "${four[@]}" --dtype all --op sum,max --count 1023 --check \
    --sockets 3
expect_ranks 0
launch "a b" "$PEAL" run "$two" --group 0,8 --bytes 3M --check --placement both --json "${late[@]}"
expect_ranks 0
expect_json 'j["wrong"] == 0 and j["ranks_as"] == "processes" and j["combinations"] == 2'
launch "a b" "$PEAL" bench "$two" --group 0,8 --sizes 8:8K --factor 32 --iters 3 "${late[@]}"
expect_ranks 0
expect_out '# Out of bounds values : 0 OK'
# The timeline of all ranks, by one of them.
launch "a a b b" "$PEAL" run "$two" "${four[@]}" --bytes 64K --iters 2 --trace all.json
expect_ranks 0
python3 - <<'PY' || die "the trace lacks a rank, or has times that do not fit"
import json
trace = json.load(open("all.json"))
steps = [x for x in (trace["traceEvents"] if isinstance(trace, dict) else trace) if x["ph"] == "X"]
assert {x["pid"] for x in steps} == {0, 1, 2, 3}
assert all(0 <= x["ts"] < 3e8 for x in steps)
PY

# What was carried, by which transport.
launch "a a b b" "$PEAL" run "$two" "${four[@]}" --bytes 64K --iters 2 --json
expect_ranks 0
expect_json '[c["transport"] for c in j["counters"][0]["transports"]] == ["shm", "tcp"]'
expect_json 'all(c["bytes"] > 0 and c["time_us"] > 0 and
                 c["calls"] == j["counters"][0]["calls"] for c in j["counters"][0]["transports"])'

# Each rank makes its own programs, or has them in a file.
launch "a a b b" "$PEAL" run "$two" "${four[@]}" --slice --collective allreduce,alltoall --check
expect_ranks 0
expect_out 'all right'
for r in 0 1 2 3; do
    expect 0 "$PEAL" compile "$two" --group 0,1,8,9 --bytes 8:1M --rank "$r" -o "slice.$r.peal"
done
launch "a a b b" "$PEAL" run slice.%r.peal --check "${late[@]}"
expect_ranks 0
expect_out 'all right'
launch "a a b b" "$PEAL" run slice.0.peal --timeout 4000
expect_ranks 4
expect 2 "$PEAL" run "$two" --slice
expect_err 'for ranks that a launcher started'

# A plan file, and a key in a file.
unset PEAL_JOB_KEY
echo "open, please" >key
export PEAL_JOB_KEY_FILE=$PWD/key
expect 0 "$PEAL" compile "$two" --group 0,1,8,9 --bytes 8:1M -o plan.peal
launch "a a b b" "$PEAL" run plan.peal --check "${late[@]}"
expect_ranks 0
expect_out 'all right'
if [ -e /proc/net/if_inet6 ] && grep -q '^0*1 ' /proc/net/if_inet6; then
    MASTER_ADDR=::1 launch "a b" "$PEAL" run "$two" --group 0,8 --check "${late[@]}"
    expect_ranks 0
fi

# Each pair of ranks in a world of its own, the others waiting.
launch "a a b" "$PEAL" bench "$two" --group 0,1,8 --all-pairs --timeout 60000
expect_ranks 0
for line in '0 +1 .* memory' '0 +2 .* tcp' '2 +1 .* tcp'; do
    expect_out "^ +$line"
done
[ "$(grep -c '  tcp' out)" = 4 ] || die "not each pair"
[ ! -s out.1 ] || die "another rank than 0 speaks"

# A rank that is slow only now and then is named, although the best of its bursts are as good as any.
launch "a a a a" "$PEAL" bench host:4 --all-pairs --timeout 60000
while grep -q '^State:[[:space:]]*[^Z]' "/proc/${pids[2]}/status"; do
    kill -STOP "${pids[2]}"
    sleep 0.02
    kill -CONT "${pids[2]}"
    sleep 0.02
done
expect_ranks 0
expect_out '^# rank 2 is slow (now and then )?with most others'
expect_out '^ +[0-9]+ +2 .*  unsteady'

# One of each host stands still: rank 0 says where each is, of the other host what it last answered.
launch "a a b b" "$PEAL" run "$two" --group 0,1,8,9 --bytes 64 --iters 1000000 --watch --timeout 5000
for ((i = 0; i < 600; i++)); do
    grep -q 'connected by' err.0 && break
    sleep 0.1
done
sleep 0.3
kill -STOP "${pids[1]}" "${pids[3]}"
for r in 0 2; do
    got=0
    wait "${pids[r]}" || got=$?
    [ "$got" = 4 ] || die "rank $r: exit code $got, not 4"
done
kill -KILL "${pids[1]}" "${pids[3]}"
wait "${pids[1]}" "${pids[3]}" || true
cp err.0 err
expect_err 'nothing has moved for a second'
for who in '0 on a' '1 on a' '2 on b' '3 on b'; do
    expect_err "note: rank $who: (in|has returned from) call [1-9]"
done
expect_err "note: rank 1 on a: .*; its process is stopped"

# ---- what does not fit, said by every rank

both() { # both "ENV ARG..." for each of two ranks; their exit code
    pids=()
    for r in 0 1; do
        # shellcheck disable=SC2086 # words
        env MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" RANK=$r PEAL_HOST_ID=h$r $1 \
            "$PEAL" run "$two" --timeout 4000 ${*:r+2:1} >"out.$r" 2>"err.$r" &
        pids+=($!)
    done
}
said() { # said REGEX: by both
    for r in 0 1; do
        cp "err.$r" err
        expect_err "$1"
    done
}
both WORLD_SIZE=2 "--group 0,8 --bytes 1M" "--group 0,8 --bytes 2M"
expect_ranks 4
said 'rank 1 on h1 has another plan .* than rank 0 on h0'
both WORLD_SIZE=2 "--group 0,8 --channels 1 --algorithm ring" "--group 0,8 --channels 2 --algorithm ring"
expect_ranks 4
said 'planned from another topology, or with other options'
launch "a b" "$PEAL" run host:2 --timeout 4000
expect_ranks 3
expect_err 'rank 0 on a reaches into memory of rank 1 on b by sm'
MASTER_PORT=$port MASTER_ADDR=127.0.0.1 WORLD_SIZE=2 RANK=0 LOCAL_RANK=here expect 2 "$PEAL" run "$two" \
    --group 0,8
expect_err "LOCAL_RANK is .here., not a number"
MASTER_PORT=$port MASTER_ADDR=127.0.0.1 WORLD_SIZE=3 RANK=0 expect 2 "$PEAL" run "$two" --group 0,8
expect_err '3 processes were started for a plan of 2 ranks'

# Launchers that leave something out: none of their processes takes itself for the only one.
alone() { # alone "ENV..." REGEX
    # shellcheck disable=SC2086 # words
    expect 2 env $1 "$PEAL" run host:2 --check --timeout 1000
    expect_err "$2"
    expect_err '--local'
}
alone "RANK=0 WORLD_SIZE=2" 'there is no MASTER_ADDR, MASTER_PORT;'
alone "RANK=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=1" 'there is no WORLD_SIZE;'
alone "RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1" 'there is no MASTER_PORT;'
alone "PMI_RANK=0 PMI_SIZE=2" "MPICH's mpiexec, has started 2 processes"
alone "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2" 'srun .without --mpi=pmix. has started 2 processes'
expect 0 env SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 PMI_RANK=0 PMI_SIZE=1 WORLD_SIZE=2 \
    "$PEAL" run host:2 --check
expect 2 env RANK=2 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 "$PEAL" run host:2
expect_err 'RANK is 2 and WORLD_SIZE 2: ranks count from 0'
expect 0 env MASTER_ADDR=127.0.0.1 PEAL_PORT="$port" RANK=0 WORLD_SIZE=1 "$PEAL" run host:1 --check
# The data on another interface than where they meet.
PEAL_INTERFACE=127.0.0.2 launch "a b" "$PEAL" run "$two" --group 0,8 --check "${late[@]}"
expect_ranks 0

# One that is missing.
MASTER_PORT=$port MASTER_ADDR=127.0.0.1 WORLD_SIZE=2 RANK=0 \
    expect 4 "$PEAL" run "$two" --group 0,8 --timeout 1100 --watch
expect_err 'note: not here yet: rank 1$'
expect_err '1 of 2 ranks did not come within 1100 ms: 1 .rank 0 listens on 127.0.0.1:'
MASTER_PORT=$port MASTER_ADDR=127.0.0.1 WORLD_SIZE=2 RANK=1 \
    expect 4 "$PEAL" run "$two" --group 0,8 --timeout 300
expect_err "no rank 0 on 127.0.0.1:$port within 300 ms"

# A port that another job has.
(RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
    "$PEAL" run "$two" --group 0,8 --timeout 1500 >out.0 2>err.0) &
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do sleep 0.05; done
RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
    expect 3 "$PEAL" run "$two" --group 0,8 --timeout 300
expect_err 'Address already in use; give all ranks another port'
wait

# Keys.
unset PEAL_JOB_KEY_FILE
MASTER_PORT=$port MASTER_ADDR=192.0.2.1 WORLD_SIZE=2 RANK=1 \
    expect 2 "$PEAL" run "$two" --group 0,8 --timeout 300
expect_err 'PEAL_JOB_KEY or PEAL_JOB_KEY_FILE'
(RANK=0 PEAL_JOB_KEY=one WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
    "$PEAL" run "$two" --group 0,8 --timeout 2000 >out.0 2>err.0) &
RANK=1 PEAL_JOB_KEY=other WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
    expect 4 "$PEAL" run "$two" --group 0,8 --timeout 2000
expect_err "does not hold this job's key"
wait
(RANK=0 PEAL_JOB_KEY=one WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
    "$PEAL" run "$two" --group 0,8 --timeout 1500 >out.0 2>err.0) &
RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
    expect 4 "$PEAL" run "$two" --group 0,8 --timeout 700
expect_err 'rank 1 has no key for the job'
wait
launch "a b" "$PEAL" run "$two" --group 0,8 --insecure --check "${late[@]}"
expect_ranks 0

# A launcher's variables, and all ranks here all the same.
RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
    expect 0 "$PEAL" run host:4 --local --check
no_leftovers
