#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# peal bench: the lines of nccl-tests, and their JSON.
# ctest: threads
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"

expect 0 "$PEAL" bench host:2 --sizes 8:64K --factor 8
expect_out 'out-of-place +in-place'
expect_out '^ +8 +2 +float +sum +-1 +[0-9.]+ +[0-9.]+ +[0-9.]+ +0 +[0-9.]+ +[0-9.]+ +[0-9.]+ +0 '
expect_out '^# Out of bounds values : 0 OK$'
expect_out '^# Avg bus bandwidth +: [0-9.]+$'
expect 0 "$PEAL" bench "$topologies/dgx-h100.xml" --ranks 3 --sizes 1K:4K --threads --json \
    --iters 20 --dtype bfloat16 --op max
expect_json 'j["schema"] == "peal.bench/1" and len(j["rows"]) == 6 and j["wrong"] == 0'
expect_json 'set("collective ranks bytes dtype op inplace algorithm time_us algbw_gbs busbw_gbs wrong".split()) <= set(j["rows"][0])'
expect_json 'all(r["calls"] == 20 and r["ranks"] == 3 and r["dtype"] == "bfloat16" for r in j["rows"])'
expect 0 "$PEAL" bench host:2 --collective all --sizes 1K:4K --iters 20 --warmup 1
expect_out '^# peal .*, broadcast \(root 0\) by 2 '
expect_out '^ +1024 +128 +float +none +-1 .* 0 +[0-9.]+ +[0-9.]+ +[0-9.]+ +0 +[a-z]+$'
expect_out '^ +1024 +256 +float +none +0 '
expect_out '^ +1024 +128 +float +sum +-1 .*[a-z]+$'
expect_out '^ +1024 +256 +float +none +0>1 .* 0 +N/A +N/A +N/A +N/A +[a-z]+$'
expect_out '^ +0 +0 +none +none +-1 .* N/A +[a-z]+$'
[ "$(grep -c '^# Out of bounds values : 0 OK$' out)" = 11 ] || die "eleven collectives, eleven summaries"
expect 0 "$PEAL" bench host:3 --collective gather,alltoall --root 2 --sizes 8:4K --factor 8 --json \
    --threads --iters 5
expect_json 'set(r["collective"] for r in j["rows"]) == {"gather", "alltoall"} and j["wrong"] == 0'
expect_json 'all(r["root"] == 2 for r in j["rows"] if r["collective"] == "gather")'
expect_json 'not any(r["inplace"] for r in j["rows"] if r["collective"] == "alltoall")'
expect_json 'all(abs(r["busbw_gbs"] - r["algbw_gbs"] * 2 / 3) < 1e-6 for r in j["rows"])'
expect_json 'all(r["bytes"] == 12 * r["count"] for r in j["rows"])'
expect 2 "$PEAL" bench host:2 --collective allreduce --root 1
expect 2 "$PEAL" bench host:2 --collective barier
expect_err "did you mean 'barrier'"
expect 0 "$PEAL" compile host:2 --bytes 8:64K -o x.peal
expect 0 "$PEAL" bench x.peal --sizes 8 --procs --no-pin --no-check -o bench.txt
grep -q 'N/A' bench.txt || die "--no-check checks"
# A budget holds, and one placement is measured alone.
expect 0 "$PEAL" bench host:3 --sizes 4M --budget 1 --placement out --threads --json
expect_json 'len(j["rows"]) == 1 and not j["rows"][0]["inplace"] and j["rows"][0]["calls"] < 15'
expect 0 "$PEAL" bench host:2 --sizes 64:4K --budget 2 --placement in
expect_out '^ +64 +16 +float +sum +-1 +N/A +N/A +N/A +N/A +[0-9.]+ '
expect 2 "$PEAL" bench host:2 --budget 0
expect 2 "$PEAL" bench host:2 --budget 5 --iters 3
expect 2 "$PEAL" bench host:2 --placement over
expect 2 "$PEAL" bench x.peal --sizes 1M
expect 2 "$PEAL" bench host:2 --factor 1
expect 2 "$PEAL" bench host:2 --sizes 8:1M --factor 1.00001
expect 2 "$PEAL" bench host:2 --dtype int8,int32
expect 2 "$PEAL" bench host:2 --bytes 8
# Empty messages are messages.
expect 0 "$PEAL" bench host:2 --sizes 0 --iters 2 --json
expect_json 'len(j["rows"]) > 0 and all(r["bytes"] == 0 and r["wrong"] == 0 for r in j["rows"])'
expect 0 "$PEAL" run host:2 --bytes 0 --check --json
expect_json 'j["wrong"] == 0'
echo ok
