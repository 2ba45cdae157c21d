#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# peal sim: times against closed forms, links, the critical path, flows, steps, slow links, queues.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
h100=$topologies/dgx-h100.xml
two=$topologies/cluster-h100-2.xml

expect 0 "$PEAL" sim "$h100"
expect_out 'simulated'
expect_out 'links, the busiest of 16 first'
expect_out 'critical path'
expect 0 "$PEAL" sim "$two" --bytes 8 --critical
expect_out 'adds us'

# Closed forms: alpha 0.8 us, 450 GB/s a GPU, 45 GB/s a lane; S = 64 MiB.
near() { # near EXPRESSION: time_us within 0.1 % of it
    expect_json "(lambda S, t: abs(t / ($1) - 1) < 1e-3)(j['bytes'], j['time_us'])"
}
expect 0 "$PEAL" sim "$h100" -a ring --channels 32 --bytes 64M --json
near '14 * (0.8 + S / 8 / 450e3)'
# A lane: a copy, six folds, a fold with two destinations, and six copies.
expect 0 "$PEAL" sim "$h100" -a ring --channels 1 --tile 1G --bytes 64M --json
near '14 * 0.8 + (1 + 6 * 1.5 + 2 + 6) * S / 8 / 45e3'
expect 0 "$PEAL" sim "$h100" -n 2 -a tree --channels 1 --tile 1G --bytes 64M --json
near '2 * 0.8 + 3 * S / 2 / 45e3'
expect 0 "$PEAL" sim "$h100" -c broadcast -a chain --channels 1 --tile 1G --bytes 1M -n 5 --json
near '8 * 0.8 + (1.5 + 3) * S / 45e3'
expect 0 "$PEAL" sim "$h100" -a twoshot --channels 32 --bytes 64M --json
near '3 * 0.8 + 2 * 6 * 0.1 + 2 * 7 / 8 * S / 450e3'
expect 0 "$PEAL" sim "$h100" -a oneshot --bytes 8 --json
near '0.8 + 6 * 0.1'

# A chain that begins with a transfer of another engine.
expect 0 "$PEAL" sim "$two" -c reduce -a direct --bytes 256 --json
expect_json 'j["critical_path"][0]["kind"] == "transfer"'

# The form.
expect 0 "$PEAL" sim "$two" --bytes 16M --json
expect_json 'j["schema"] == "peal.sim/1" and j["time_us"] > 0 and j["model_us"] > 0'
expect_json 'all({"from", "to", "busy_us", "bytes"} <= set(l) for l in j["links"])'
expect_json 'all(0 < l["share"] <= 1.000001 and l["busy_us"] <= j["time_us"] * 1.000001 for l in j["links"])'
expect_json 'abs(sum(s["own_us"] for s in j["critical_path"]) / j["time_us"] - 1) < 1e-3'
expect_json 'j["critical_path"][-1]["end_us"] <= j["time_us"] * 1.000001'
cp out first
expect 0 "$PEAL" sim "$two" --bytes 16M --json
expect_same first out

# A plan file, and one that is of another machine.
expect 0 "$PEAL" compile "$h100" --bytes 8:64M -o h.peal
expect 0 "$PEAL" sim "$h100" h.peal --bytes 1M --json
expect_json 'j["bytes"] == 1 << 20'
expect 0 "$PEAL" sim "$h100" h.peal --json
expect_json 'j["bytes"] == 64 << 20 and j["model_us"] > 0'
expect 2 "$PEAL" sim "$topologies/pcie-8gpu.xml" h.peal
expect_err 'of another machine'
expect 2 "$PEAL" sim "$h100" h.peal --bytes 1G
expect 2 "$PEAL" sim "$h100" "$two"
expect 2 "$PEAL" sim "$h100" --bytes 8:1M
expect 2 "$PEAL" sim
expect 2 "$PEAL" sim "$h100" -c broadcast,reduce

# The ring laboratory: chunk by chunk, reduce-scatter, then allgather.
expect 0 "$PEAL" sim host:4 -a ring --bytes 4K --step
expect_out 'put c0: in\[0\] -> r1.s0\[0\]'
expect_out 'rank 1 s0\[1\]: c3\{0,3\}=5$'
expect_out 'at the end: 16 tiles right, 0 wrong'
[ "$(grep -c ' us  rank' out)" = 24 ] || die "not 2 * (N - 1) * N transfers"
expect_out '^allreduce of 4096 bytes by 4 ranks, ring: 4 chunks, c0 to c3; rank r gives r \+ 1$'
# Those that end together stand by rank; the N-th step of each is its last fold, which it hands on.
awk '/ us  rank/ {print $4; if (++n % 4 == 0) print "-"}
     /^-- / {print n > "whole"}' out | tr '\n' ' ' >order
[ "$(cat order)" = "0 1 2 3 - 0 1 2 3 - 0 1 2 3 - 0 1 2 3 - 0 1 2 3 - 0 1 2 3 - " ] ||
    die "not in the order of ranks"
[ "$(cat whole)" = 16 ] || die "not reduced after four steps"
expect_out 'one rank at least: reduced \(reduce-scatter\); what follows hands sums on'
# Where others still fold, nothing is handed on.
expect 0 "$PEAL" sim host:2 -a doubling --bytes 4K --step
expect_out 'one rank at least$'
for collective in allreduce reduce-scatter allgather broadcast reduce scatter gather alltoall; do
    expect 0 "$PEAL" sim "$two" -c $collective --bytes 8M --step
    expect_out 'at the end: [1-9][0-9]* tiles right, 0 wrong'
done
expect 2 "$PEAL" sim host:4 --step --json
# A plan that leaves out what one rank gave: all is shown, and the answer is no.
"$PEAL" dump host:4 -a ring --bytes 4K:4K | sed 's/reduce c0: in\[0\] s0\[0\]/put c0: in[0]/' >wrong
expect 1 "$PEAL" sim host:4 wrong --bytes 4K --step
expect_out 'at the end: 12 tiles right, 4 wrong'
expect_err 'the plan leaves 4 tiles wrong'

# Small blocks of all lengths: their counts are told before anything moves.
for size in 256 32K 8M; do
    expect 0 "$PEAL" sim "$two" -c alltoallv --bytes $size --json
    expect_json '0.7 < j["model_us"] / j["time_us"] < 1.3'
done

# Steps that move several chunks as one message move the bytes of all of them.
expect 0 "$PEAL" sim "$two" -a halving --bytes 64K --step
expect_out 'at the end: [1-9][0-9]* tiles right, 0 wrong'
expect 0 "$PEAL" sim "$h100" -a halving --bytes 64M --json
expect_json 'min(l["bytes"] for l in j["links"]) >= 2 * 7 / 8 * j["bytes"]'

# Flows: a graph, no more bytes than links carried.
expect 0 "$PEAL" sim "$two" --bytes 1M --flows flows.json
cp flows.json out
expect_json 'j["schema"] == "peal.flows/1" and j["ranks"] == 16 and len(j["flows"]) > 100'
expect_json '[f["id"] for f in j["flows"]] == list(range(len(j["flows"])))'
expect_json 'all(set(f) == {"id", "rank_from", "rank_to", "bytes", "engine", "links", "deps"} for f in j["flows"])'
expect_json 'all(d < f["id"] for f in j["flows"] for d in f["deps"])'
expect_json 'any(f["deps"] for f in j["flows"]) and any("tx" in l for f in j["flows"] for l in f["links"])'

# Slow and dead links.
expect 0 "$PEAL" sim "$h100" -a twoshot --channels 32 --bytes 64M --degrade 'gpu3>nvs0=0.5' --json
expect_json '1.9 < j["time_us"] / j["healthy_us"] < 2.1'
expect 0 "$PEAL" sim "$two" --bytes 64M --degrade 'h0/mlx5_0 tx=0'
expect_out 'never ends: it crosses a dead link'
expect_out 'stuck +rank [0-9]+, lane [0-9]+: '
expect 0 "$PEAL" sim "$two" --bytes 64M --degrade 'h0/mlx5_0 tx=0' --json
expect_json 'j["ends"] is False and j["time_us"] is None and j["stuck"]["text"] and j["links"] == []'
expect 3 "$PEAL" sim "$two" -c gather -a direct --bytes 8G --degrade 'h0/mlx5_0 rx=0'
expect_err 'does not end, what moves would take more than eleven days: rank'
expect 0 "$PEAL" plan "$h100" --bytes 64M --degrade 'gpu3>nvs0=0'
expect_err 'warning: allreduce from 64M to 64M: no schedule avoids gpu3>nvs0, which is dead'
expect 0 "$PEAL" plan "$two" --bytes 64M --degrade 'h0/mlx5_0 tx=0'
[ ! -s err ] || die "a warning of a link that is avoided"
expect 0 "$PEAL" plan "$two" --bytes 64M --json
cp out healthy
expect 0 "$PEAL" plan "$two" --bytes 64M --degrade 'h0/mlx5_0 tx=0.1,h0/mlx5_1 rx=0.1' --json
expect_json 'j["rows"][0]["time_us"] > 1.2 * json.load(open("healthy"))["rows"][0]["time_us"]'
expect 2 "$PEAL" plan "$h100" --degrade 'gpu3>nvs0'
expect 2 "$PEAL" plan "$h100" --degrade 'gpu3>nvs0=2'
expect 2 "$PEAL" plan "$h100" --degrade 'gpu3>nvs0=nan'
expect 2 "$PEAL" plan "$h100" --degrade 'gpu99>nvs0=0.5'
expect_err "no link 'gpu99>nvs0'"

# Incast: several hosts' ports into one, and nobody else's fault.
expect 0 "$PEAL" sim "$two" -c gather -a direct --incast 16 --bytes 64M --buffer 1M --json
expect_json '[p["resource"] for p in j["ports"] if p["overrun"]] != []'
expect_json 'next(set(p["sender_ports"]) for p in j["ports"] if p["resource"] == "h0/mlx5_0 rx") == {"h1/mlx5_%d tx" % i for i in range(8)}'
expect 0 "$PEAL" sim "$two" -c gather -a direct --incast 16 --bytes 64M --buffer 1M
expect_out '^queues at 2 of [0-9]+ switch ports$'
expect_out '^h0/mlx5_0 rx +[0-9]+ .* yes +h1/mlx5_[0-7] tx, .* and 5 more'
expect 0 "$PEAL" sim "$two" -c gather -a direct --incast 16 --bytes 64M --buffer 1G --json
expect_json 'not any(p["overrun"] for p in j["ports"])'
expect 0 "$PEAL" sim "$two" -c gather -a direct --bytes 64M --buffer 1M --json # one sender at a time
expect_json 'not any(p["overrun"] for p in j["ports"])'
expect 0 "$PEAL" sim "$two" -a ring --bytes 64M --buffer 4M --json
expect_json 'not any(p["overrun"] for p in j["ports"])'
# What one NIC sends its own switch port takes, however many transfers that is; of several that meet in
# one port, those that they send elsewhere are held up.
expect 0 "$PEAL" sim "$two" -a hierarchical --bytes 16M --buffer 1 --json
expect_json 'max(p["depth_bytes"] for p in j["ports"]) < 1'
expect 0 "$PEAL" sim "$two" -c alltoall -a bruck --bytes 16M --buffer 1K --json
expect_json 'all(len(p["sender_ports"]) == p["senders"] > 1 for p in j["ports"] if p["overrun"])'
expect_json 'any("rail6 down" in p["innocent_ports"] for p in j["ports"] if p["resource"] == "rail7 down")'
expect_json 'all(p["resource"] not in p["innocent_ports"] for p in j["ports"])'
expect 2 "$PEAL" sim "$two" --buffer 0
expect 2 "$PEAL" sim "$two" --bytes 0
expect_err '--bytes 0: of an empty message nothing moves'
echo ok
