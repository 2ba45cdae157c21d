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

# A plan file runs as it is.
expect 0 "$PEAL" compile host:2 --bytes 8:64K -o x.peal
expect 0 "$PEAL" run x.peal --bytes 64K --check
expect 0 "$PEAL" run x.peal --ranks 2 --bytes 8 --check
expect 2 "$PEAL" run x.peal --ranks 3 --bytes 8
expect 2 "$PEAL" run x.peal --algorithm ring --bytes 8
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
