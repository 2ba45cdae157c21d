#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# For tests of launched ranks, behind support/cli.sh. Ranks write out.R and err.R.

# A port that nobody listens on: by the process's number, so that tests side by side differ.
free_port() {
    local port=$((20000 + $$ % 12000)) i # below those that outgoing connections get
    for ((i = 0; i < 100; i++, port++)); do
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            echo "$port"
            return
        fi
    done
    die "no free port"
}

# launch "HOST HOST..." COMMAND...: a rank for each name, in the background; $pids.
launch() {
    local hosts=() r
    read -ra hosts <<<"$1"
    shift
    pids=()
    for ((r = 0; r < ${#hosts[@]}; r++)); do
        MASTER_ADDR=${MASTER_ADDR:-127.0.0.1} MASTER_PORT=$port WORLD_SIZE=${#hosts[@]} RANK=$r \
            PEAL_HOST_ID=${hosts[r]} "$@" >"out.$r" 2>"err.$r" &
        pids+=($!)
    done
}

# expect_ranks CODE: all launched ranks end with it. Rank 0's output is the last one's.
expect_ranks() {
    local r got
    for ((r = 0; r < ${#pids[@]}; r++)); do
        got=0
        wait "${pids[r]}" || got=$?
        cp "out.$r" out
        cp "err.$r" err
        [ "$got" = "$1" ] || die "rank $r: exit code $got, not $1"
    done
    cp out.0 out
    cp err.0 err
}

# No key is left of what ran.
no_leftovers() {
    [ ! -e "/dev/shm/peal-key-$(id -u)-$port" ] || die "a key is left in /dev/shm"
}
