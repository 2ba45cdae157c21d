#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# peal bench --beside: what is started beside a matrix product ends right, by every engine.
# ctest: threads
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
few=(--beside --iters 2 --warmup 0)

expect 0 "$PEAL" bench host:2 "${few[@]}" --sizes 4K:64K --factor 16
expect_out '^# 2 ranks on [0-9]+ processor'
expect_out '^ +4K +sm +[a-z]+ +thread +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +-?[0-9]+ % +[0-9.]+ +-?[0-9]+ %$'
expect_out '^ *64K +ce +[a-z]+ +tests '
expect_out 'movers in host memory stand in for ce'
expect_err 'tma is left out'

# Every engine of a DGX, by schedules that it does carry; the times fit each other.
expect 0 "$PEAL" bench "$topologies/dgx-h100.xml" -n 2 -a ring "${few[@]}" -s 96K:96K --json
expect_json 'j["schema"] == "peal.overlap/1" and j["processors"] >= 1 and len(j["rows"]) == 6'
expect_json 'j["rows"][0]["engines"] == ["sm"] and "tma" in j["rows"][2]["engines"] and "ce" in j["rows"][4]["engines"]'
expect_json '[r["progress"] for r in j["rows"]] == ["thread", "tests"] * 3'
expect_json 'all(r["checked"] and r["wrong"] == 0 and r["rounds"] == 2 for r in j["rows"])'
expect_json 'all(r["product_us"] > 0 and r["call_us"] > 0 and r["overlapped_us"] >= r["product_beside_us"] for r in j["rows"])'
expect_json 'all(abs(r["hidden"] - (r["serial_us"] - r["overlapped_us"]) / r["call_us"]) < 1e-3 * (1 + abs(r["hidden"])) + 1e-3 for r in j["rows"])'
expect_json 'all(abs(r["lost"] - (r["product_beside_us"] / r["product_us"] - 1)) < 1e-3 * (1 + abs(r["hidden"])) + 1e-3 for r in j["rows"])'

# What is not a sum, and has roots or lengths; processes; a plan as it is.
expect 0 "$PEAL" bench host:3 "${few[@]}" -s 6K:6K -c alltoallv --engine shm=sm --json
expect_json '[r["collective"] for r in j["rows"]] == ["alltoallv"] * 2'
expect 0 "$PEAL" bench host:3 "${few[@]}" -s 6K:6K -c broadcast --root 2 -d int8 --procs --json
expect_json 'j["ranks_as"] == "processes" and all(r["root"] == 2 and r["bytes"] == 6144 for r in j["rows"])'
expect 0 "$PEAL" compile host:2 -c allgather -b 1K:64K -a ring -o ring.peal
expect 0 "$PEAL" bench ring.peal "${few[@]}" -s 1K:32K --factor 32 --chaos 3 --json
expect_json '[(r["bytes"], r["algorithm"]) for r in j["rows"][::2]] == [(1024, "ring"), (32768, "ring")]'

expect 2 "$PEAL" bench ring.peal "${few[@]}" -s 1M:1M
expect 2 "$PEAL" bench host:1 "${few[@]}"
expect 2 "$PEAL" bench host:2 "${few[@]}" -c allgather,broadcast
expect 2 "$PEAL" bench host:2 --beside --iters 20000
expect 2 "$PEAL" bench host:2 --beside=3
expect 2 "$PEAL" run host:2 --beside
expect 2 env RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29999 "$PEAL" bench host:2 "${few[@]}"
expect_err 'peal starts itself'
echo ok
