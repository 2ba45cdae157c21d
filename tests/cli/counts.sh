#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# alltoallv: runs with blocks filled by chance, and both forms of its plans.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
two=$topologies/cluster-h100-2.xml

expect 0 "$PEAL" run host:4 --collective alltoallv --count 0,1,7,1000 --dtype all --check --json
expect_json 'j["combinations"] == 40 and j["wrong"] == 0'
expect_json 'all(r["bytes"] == 4 * r["count"] * {"float64": 8, "int64": 8, "uint64": 8, "float32": 4, "int32": 4, "uint32": 4, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1}[r["dtype"]] for r in j["runs"])'
expect 0 "$PEAL" run host:3 --collective alltoallv --count 1,5000 --check --procs --random-delay
expect 0 "$PEAL" run host:3 --collective alltoallv --count 5000 --check --engine shm=ce --chaos 3
expect 0 "$PEAL" run "$two" -n 1,2,3,9 --collective alltoallv,allreduce --bytes 10K --check --chaos 9
expect 0 "$PEAL" run "$two" --group 9,0,1 --collective alltoallv --bytes 10K --check
expect 0 "$PEAL" bench host:2 --collective alltoallv --sizes 64:512 --factor 8 --iters 3

expect 0 "$PEAL" compile "$two" -n 10 --collective alltoallv --bytes 8:1M -o p.peal
expect 0 "$PEAL" dump p.peal -o p.txt
[ "$(grep -c '^ *tell r' p.txt)" -ge 90 ] || die "not every rank tells every other"
grep -q '^ *tell r9.[0-9]* rdma$' p.txt || die "no count goes over the network"
expect 0 "$PEAL" asm p.txt -o q.peal
expect_same p.peal q.peal
expect 0 "$PEAL" verify q.peal
# A plan that takes a plain signal for a count.
sed 's/^\( *\)learn /\1wait /' p.txt >bad.txt
expect 1 "$PEAL" verify bad.txt
expect_out 'never learns how much rank'
# Those of alltoall cost the same.
expect 0 "$PEAL" plan "$two" --collective alltoall,alltoallv -a direct --bytes 1K:1M --json
expect_json '[r["time_us"] for r in j["tables"][0]["rows"]] == [r["time_us"] for r in j["tables"][1]["rows"]]'
