#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# peal plan: rows, explanations, candidates, and the options that shape a request.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
h100=$topologies/dgx-h100.xml

expect 0 "$PEAL" plan "$h100"
expect_out 'algorithm .*time us .*busbw GB/s .*bound us'
expect 0 "$PEAL" plan "$h100" --explain
expect_out 'limited by'
expect_out 'lower bound'
expect 0 "$PEAL" plan "$h100" --candidates --bytes 1M
expect_out 'candidates at 1M'

expect 0 "$PEAL" plan "$h100" --collective allreduce --bytes 8:8G --json
expect_json 'j["schema"] == "peal.table/1" and j["collective"] == "allreduce" and j["ranks"] == 8'
expect_json 'set("min_bytes max_bytes algorithm channels protocol engines scratch_bytes sms time_us algbw_gbs busbw_gbs bound_us binding".split()) <= set(j["rows"][0])'
expect_json 'j["rows"][0]["min_bytes"] == 8 and j["rows"][-1]["max_bytes"] == 8 << 30'
expect_json 'all(a["max_bytes"] + 1 == b["min_bytes"] for a, b in zip(j["rows"], j["rows"][1:]))'
expect_json 'all(isinstance(e, str) for r in j["rows"] for e in r["engines"].values())'
expect_json 'all(r["time_us"] >= r["bound_us"] * 0.999 for r in j["rows"])'
expect 0 "$PEAL" plan "$h100" --json --candidates
expect_json 'all(len(r["candidates"]) > 1 and "time_us" in r["candidates"][0] for r in j["rows"])'

expect 0 "$PEAL" plan "$h100" --ranks 4 --algorithm ring --json
expect_json 'j["ranks"] == 4 and set(r["algorithm"] for r in j["rows"]) == {"ring"}'
expect 0 "$PEAL" plan "$h100" -a tree --channels 2 --bytes 1M --json
expect_json 'set(r["channels"] for r in j["rows"]) == {2}'
expect 0 "$PEAL" plan "$h100" --algorithm ring --engine nvlink=tma --bytes 64M --json
expect_json '"tma" in j["rows"][0]["engines"]["nvlink"]'
expect 0 "$PEAL" plan "$h100" --algorithm=ring --bytes=4K:64K -n 2 --json
expect_json 'j["rows"][0]["min_bytes"] == 4096 and j["rows"][-1]["max_bytes"] == 65536'

# A plan file has rows too.
expect 0 "$PEAL" compile "$h100" --ranks 2 -o x.peal
expect 0 "$PEAL" plan x.peal --json
expect_json 'j["ranks"] == 2'
expect 2 "$PEAL" plan x.peal --candidates

# Several collectives: a table each.
expect 0 "$PEAL" plan "$h100" --collective broadcast,alltoall --root 3 --bytes 8:1M
expect_out '^broadcast \(root 3\) by 8 ranks; '
expect_out '^alltoall by 8 ranks; '
expect 0 "$PEAL" plan "$h100" --collective broadcast,alltoall --root 3 --json
expect_json 'j["schema"] == "peal.table/1" and "rows" not in j'
expect_json '[(t["collective"], t["root"], t["ranks"]) for t in j["tables"]] == [("broadcast", 3, 8), ("alltoall", None, 8)]'
expect_json 'all(t["rows"][-1]["max_bytes"] == 8 << 30 for t in j["tables"])'
expect 0 "$PEAL" plan "$h100" --collective reduce --json
expect_json 'j["collective"] == "reduce" and j["root"] == 0 and j["rows"]'
expect 0 "$PEAL" plan "$h100" --collective all --ranks 2 --bytes 1M --explain
expect_out '^sendrecv \(rank 0 to rank 1\) by 2 ranks; '
[ "$(grep -c 'by 2 ranks; ' out)" = 11 ] || die "eleven collectives are not eleven tables"
expect 0 "$PEAL" plan "$h100" --collective all --ranks 1 --bytes 1M
expect 0 "$PEAL" plan "$h100" --collective reduce-scatter --bytes 64M --candidates
expect_out 'candidates at 64M'
# What is moved over what was counted: one rank's buffer, or N blocks.
expect 0 "$PEAL" plan "$h100" --collective allreduce,allgather,gather,broadcast --bytes 64M --json
expect_json 'all(abs(t["rows"][0]["busbw_gbs"] / t["rows"][0]["algbw_gbs"] - f) < 1e-3 for t, f in zip(j["tables"], [14/8, 7/8, 7/8, 1]))'

# What is no size, and names that are nearly right.
for size in '' 8: :8 8Q 1.5M -1 99999999999999999999 0x10 8:4 20000000000G; do
    expect 2 "$PEAL" plan "$h100" --bytes "$size"
done
for size in 8 8:8 64K 64k 64KB 64KiB 8:1M 1G 8B; do
    expect 0 "$PEAL" plan "$h100" --bytes "$size"
done
expect 2 "$PEAL" plan "$h100" --algorithm rign
expect_err "did you mean 'ring'"
expect 2 "$PEAL" plan "$h100" --collective alreduce
expect_err "did you mean 'allreduce'"
expect 2 "$PEAL" plan "$h100" --collective allgather,broadcsat
expect_err "did you mean 'broadcast'"
expect 2 "$PEAL" plan "$h100" --collective all_to_all
expect_err "did you mean 'alltoall'"
expect 2 "$PEAL" plan "$h100" --collective allreduce --root 1
expect_err 'allreduce has no root'
expect 2 "$PEAL" plan "$h100" --root 1
expect 2 "$PEAL" plan "$h100" --collective barrier --root 0
expect 2 "$PEAL" plan "$h100" --collective broadcast --root 8
expect 2 "$PEAL" plan "$h100" --collective broadcast --root 1,2
expect 2 "$PEAL" plan "$h100" --collective broadcast --root x
expect 2 "$PEAL" plan "$h100" --collective broadcast --peer 1
expect 2 "$PEAL" plan "$h100" --collective sendrecv --ranks 2 --root 1 --peer 1
expect 2 "$PEAL" plan "$h100" --algoritm ring
expect_err 'did you mean --algorithm'
expect 2 "$PEAL" plan "$h100" --engine nvlnk=tma
expect_err "did you mean 'nvlink'"
expect 2 "$PEAL" plan "$h100" --engine nvlink=tmaa
expect_err "did you mean 'tma'"
expect 2 "$PEAL" plan "$h100" --engine nvlink
expect 2 "$PEAL" plan "$h100" --ranks 99
expect 2 "$PEAL" plan "$h100" --ranks 0
expect 2 "$PEAL" plan "$h100" --ranks x
expect 2 "$PEAL" plan "$h100" --sm-price nan
expect 2 "$PEAL" plan "$h100" --ranks
expect 2 "$PEAL" plan "$h100" --ranks 2 --ranks 3
expect 2 "$PEAL" plan "$h100" --nodes 3
expect_err "no option of 'peal plan'"
expect 2 "$PEAL" plan "$h100" "$h100"
echo ok

# What crosses hosts, predicted and counted; a window is pinned.
cluster=$topologies/cluster-h100-16.xml
expect 0 "$PEAL" plan "$cluster" -n 64 --collective alltoall --bytes 128K:128K --explain
expect_out 'net messages 7 of 16K at 128K'
expect 0 "$PEAL" plan "$cluster" -n 64 --collective alltoall -a direct --bytes 128K:128K --json
expect_json 'j["rows"][0]["net_messages"] == 56 and j["rows"][0]["net_message_bytes"] == 2048'
expect 0 "$PEAL" compile "$cluster" -n 32 --collective allreduce -a ring --bytes 1M:1M -o ring.peal
expect 0 "$PEAL" plan ring.peal --json
expect_json 'j["rows"][0]["net_messages"] > 0 and j["rows"][0]["net_message_bytes"] > 0'
expect 0 "$PEAL" plan "$cluster" -n 32 --collective gather -a direct --bytes 1M:1M --incast 3 --json
expect_json 'all("3 of other hosts at once" in r["detail"] for r in j["rows"])'
expect 2 "$PEAL" plan ring.peal --incast 3

# Buffers of processes are staged within hosts: beside a slow network that is little.
cat >slow.xml <<'XML'
<peal version="1" name="slow">
  <host name="n" count="4" ranks="2"><nic name="e0" speed-gbits="1" rdma="no"/></host>
  <network kind="leaf-spine" latency-us="30"/>
</peal>
XML
for algorithm in hierarchical ring; do
    expect 0 "$PEAL" plan slow.xml --bytes 16M:16M -a $algorithm --json
    us=$(python3 -c 'import json; print(json.load(open("out"))["rows"][0]["time_us"])')
    expect 0 "$PEAL" plan slow.xml --bytes 16M:16M -a $algorithm --private --json
    expect_json "$us < j['rows'][0]['time_us'] < 1.1 * $us"
done

# 0 is no default: an empty message has no plan of its own, a range from it begins with one byte, and
# no scratch is none.
expect 2 "$PEAL" plan "$h100" --bytes 0
expect_err '--bytes 0: an empty message'
expect 0 "$PEAL" plan "$h100" --bytes 0:4K --json
expect_json 'j["rows"][0]["min_bytes"] == 1 and j["rows"][-1]["max_bytes"] == 4096'
expect 2 "$PEAL" plan "$h100" --bytes 1M --tile 0
expect 0 "$PEAL" plan "$h100" --bytes 1K:64M --scratch 0 --json
expect_json 'all(r["scratch_bytes"] == 0 for r in j["rows"])'
