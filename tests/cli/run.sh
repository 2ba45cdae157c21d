#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# peal run: a matrix of what there is, against the program's own arithmetic.
# ctest: threads
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
h100=$topologies/dgx-h100.xml

expect 0 "$PEAL" run "$h100" --ranks 8 --collective allreduce --bytes 64K --dtype float32 \
    --op sum --check
expect_out '^check +[0-9]+ elements compared, all right'
expect_out '^engines .*stand in'
expect 0 "$PEAL" run host:2 --count 1000 --check --json
expect_json 'j["schema"] == "peal.run/1" and j["ranks"] == 2 and j["bytes"] == 4000'
expect_json 'j["wrong"] == 0 and j["checked"] and j["time_us"] > 0 and j["algorithm"]'
expect_json 'j["engines"] == ["sm"] and j["stand_ins"] == []'
expect 0 "$PEAL" run "$h100" --ranks 2 --count 1000 --engine nvlink=ce --algorithm ring --check --json
expect_json '"ce" in j["engines"] and "ce" in j["stand_ins"]'

# Every algorithm, type, operation and placement, with counts that do not divide.
expect 0 "$PEAL" run host:5 --ranks 1,2,3,5 --algorithm all --dtype all --op all \
    --count 0,1,7,1023 --placement both --check --timeout 60000
expect_out '^[0-9]{4,} combinations'
expect_out 'all ranks hold the same bits'
expect 0 "$PEAL" run "$h100" --ranks 3 --algorithm all --dtype bfloat16,int8 --op sum,avg \
    --count 1,5000 --placement both --check --chaos 7 --random-delay --engine nvlink=ce --verbose
expect_out 'right$'

# Processes, with buffers of their own and with buffers that all reach.
expect 0 "$PEAL" run host:3 --bytes 100K,8 --dtype float16,int64 --check --procs
expect 0 "$PEAL" run host:3 --bytes 100K --dtype float64 --check --procs --registered
expect 0 "$PEAL" run host:2 --bytes 100K --check --registered --pin --in-place
expect 0 "$PEAL" run host:2 --bytes 1M --iters 3 --warmup 0

# Every collective, from every root, with counts that do not divide.
expect 0 "$PEAL" run host:5 --ranks 1,2,3,5 --collective all --root 0,1,4 --algorithm all \
    --dtype float16,int64 --op sum,avg --count 0,1,7,1023 --placement both --check --timeout 60000
expect_out '^[0-9]{4,} combinations'
expect_out 'elements compared, all right$'
expect_out 'no rank left a barrier'
expect 0 "$PEAL" run "$h100" --ranks 3 --collective all --root 2,0 --bytes 4K,300K \
    --dtype bfloat16,uint8 --placement both --check --chaos 3 --random-delay --engine nvlink=ce -v
expect_out '^ +3 ranks  gather +2 .* in .* right$'
expect_out '^ +3 ranks  barrier +- .* right$'
# Packed trees on a cube mesh and over a network.
for machine in dgx1-v100.xml:3,7 cluster-h100-2.xml:11; do
    expect 0 "$PEAL" run "$topologies/${machine%:*}" --ranks "${machine#*:}" --algorithm packed --collective all --root 0,2 \
        --count 0,1,1003 --dtype float16,int64 --placement both --tile 1K --check
    expect_out 'elements compared, all right'
done
for how in --procs '--procs --registered' --registered; do
    # shellcheck disable=SC2086 # several words
    expect 0 "$PEAL" run host:3 --collective all --root 1 --bytes 100K,8 --placement both --check $how
done
expect 0 "$PEAL" run host:2 --collective sendrecv --root 1 --peer 0 --count 100 --check --json
expect_json 'j["collective"] == "sendrecv" and j["root"] == 1 and j["peer"] == 0 and j["bytes"] == 400'
expect_json 'j["op"] == "none" and j["wrong"] == 0 and j["busbw_gbs"] == j["algbw_gbs"]'
expect 0 "$PEAL" run host:4 --collective allgather --count 100 --check --json # a block's elements
expect_json 'j["bytes"] == 1600 and j["count"] == 100 and j["root"] is None'
expect_json 'abs(j["busbw_gbs"] / j["algbw_gbs"] - 3/4) < 1e-6'
expect 0 "$PEAL" run host:4 --collective allgather --bytes 1600 --json
expect_json 'j["bytes"] == 1600 and j["count"] == 100'
expect 0 "$PEAL" run host:3 --collective barrier --check
expect_out '^check +no rank left a barrier before all had entered it'
expect 0 "$PEAL" run host:2 --collective alltoall,reduce --placement in --check --json
expect_json '[r["collective"] for r in j["runs"]] == ["reduce"]'
expect 2 "$PEAL" run host:2 --collective alltoall --in-place
expect_err 'no form in place'
expect 2 "$PEAL" run host:3 --collective reduce-scater
expect_err "did you mean 'reduce-scatter'"
expect 2 "$PEAL" run host:3 --collective alltoall --root 1
expect 2 "$PEAL" run host:3 --collective gather --root 3
expect 2 "$PEAL" run host:3 --collective sendrecv --peer 0

# A plan file runs as it is.
expect 0 "$PEAL" compile host:2 --collective all --bytes 8:64K -o all.peal
expect 0 "$PEAL" run all.peal --bytes 64K,8 --placement both --check --json
expect_json 'len(set(r["collective"] for r in j["runs"])) == 11 and j["wrong"] == 0'
expect 0 "$PEAL" run all.peal --collective gather --root 0 --bytes 8 --check
expect 2 "$PEAL" run all.peal --collective gather --root 1 --bytes 8
expect 0 "$PEAL" compile host:2 --bytes 8:64K -o x.peal
expect 0 "$PEAL" run x.peal --bytes 64K --check
expect 0 "$PEAL" run x.peal --ranks 2 --bytes 8 --check
expect 2 "$PEAL" run x.peal --ranks 3 --bytes 8
expect 2 "$PEAL" run x.peal --algorithm ring --bytes 8
# The plan that was looked at is the plan that runs.
expect 0 "$PEAL" run x.peal --bytes 8
id=$(sed -n 's/^plan  *//p' out)
expect 0 "$PEAL" dump x.peal --json
expect_json "any(row[\"id\"] == \"$id\" for row in j[\"rows\"])"
expect 2 "$PEAL" run x.peal --bytes 1M
expect_err 'more than the plan is for'

expect 2 "$PEAL" run host:2 --dtype flaot32
expect_err "did you mean 'float32'"
expect 2 "$PEAL" run host:2 --op som
expect_err "did you mean 'sum'"
expect 2 "$PEAL" run host:2 --bytes 8 --count 2
expect 2 "$PEAL" run host:2 --ranks 0
expect 2 "$PEAL" run host:2 --ranks 3
expect 2 "$PEAL" run host:2 --procs --threads
expect 2 "$PEAL" run host:2 --placement beside
expect 2 "$PEAL" run host:2 --iters 0
expect 3 "$PEAL" run missing.xml
echo ok
