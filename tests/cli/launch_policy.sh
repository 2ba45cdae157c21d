#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# In a job a policy, or a script, runs on rank 0 only: no other rank has its file.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
# shellcheck source=tests/support/launch.sh
. "$PEAL_SOURCE/tests/support/launch.sh"
strings -a "$(dirname "$PEAL")"/libpeal.so 2>/dev/null | grep -q "this peal was built without Lua" && exit 77
unset PEAL_JOB_KEY PEAL_JOB_KEY_FILE PEAL_HOST_ID PEAL_INTERFACE PEAL_PORT
port=$(free_port)
two=$topologies/cluster-h100-2.xml
shipped=$PEAL_SOURCE/examples

# Each rank in a folder of its own; that of rank 0 has the files.
cat >rank.sh <<'S'
mkdir -p "rank$RANK"
cd "rank$RANK"
exec "$PEAL" "$@"
S
mkdir rank0
cp "$shipped/policies/decode-first.lua" rank0/policy.lua
cp "$shipped/algorithms/halo.lua" "$shipped/algorithms/two-level.lua" rank0
cat >rank0/bad.lua <<'S'
return {choose = function() error("no luck today") end}
S
late=(--timeout 20000)

# One host without a key, two hosts with one.
launch "a a a" bash rank.sh run host:3 --bytes 0,100,64K --policy policy.lua --check "${late[@]}"
expect_ranks 0
expect_out 'all right'
no_leftovers
launch "a a a" bash rank.sh run host:3 --bytes 8,5000 -a halo.lua -c custom --op all --check "${late[@]}"
expect_ranks 0
expect_out 'check .* all right'
export PEAL_JOB_KEY=sesame
four=(--group 0,1,8,9 "${late[@]}")
launch "a a b b" bash rank.sh run "$two" "${four[@]}" --policy policy.lua --check \
    --collective all --count 0,4099
expect_ranks 0
expect_out 'all right'
launch "a a b b" bash rank.sh run "$two" "${four[@]}" -a two-level.lua --check --json
expect_ranks 0
expect_json 'j["wrong"] == 0 and j["algorithm"] == "lua-two-level"'
launch "a b" bash rank.sh bench "$two" --group 0,8 --sizes 8:8K --factor 32 --iters 3 \
    --policy policy.lua "${late[@]}"
expect_ranks 0
expect_out '# Out of bounds values : 0 OK'

# What rank 0 cannot plan, nobody can.
launch "a b" bash rank.sh run "$two" --group 0,8 --policy bad.lua "${late[@]}"
got=0
wait "${pids[0]}" || got=$?
[ "$got" = 3 ] || die "rank 0: $got"
grep -q 'bad.lua:1: error: no luck today' err.0 || die "rank 0 has not said it"
got=0
wait "${pids[1]}" || got=$?
[ "$got" = 4 ] || die "rank 1: $got"
grep -q 'rank 0 on a: there is no table' err.1 || die "rank 1 has not heard of it"
echo ok
