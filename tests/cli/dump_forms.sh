#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# peal dump --format json, dot, trace, goal: what other programs read.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
h100=$topologies/dgx-h100.xml
two=$topologies/cluster-h100-2.xml

plans() { # plans COMMAND...: calls it with the arguments of several dumps
    "$@" "$h100" -n 4 -a twoshot --bytes 1M
    "$@" "$h100" -n 5 -a oneshot --bytes 8K
    "$@" "$h100" -a ring --tile 64K --bytes 4M
    "$@" "$topologies/dgx1-v100.xml" -a tree --tile 64K --channels 2 --bytes 1M
    "$@" "$two" -a hierarchical --bytes 1M
    "$@" "$two" -c alltoall --bytes 1M
    "$@" "$two" -c barrier
    "$@" "$h100" -c reduce -e nvlink=ce --bytes 1M
    "$@" "$topologies/pcie-8gpu.xml" -c allgather --bytes 1M
}

same_twice() { # same_twice FORM ARGS...: the dump, in out, is the same bytes again
    local form=$1
    shift
    expect 0 "$PEAL" dump "$@" --format "$form"
    mv out once
    expect 0 "$PEAL" dump "$@" --format "$form"
    expect_same once out
}

# JSON, by its schema.
one_json() {
    same_twice json "$@"
    python3 -c '
import json, sys, jsonschema
jsonschema.validate(json.load(open("out")), json.load(open(sys.argv[1])))' \
        "$PEAL_SOURCE/schema/peal-plan.schema.json" || die "the schema refuses: $*"
}
if python3 -c 'import jsonschema' 2>/dev/null; then
    plans one_json
    expect 0 "$PEAL" dump "$h100" --bytes 8:1M --json
    sed -i 's/"op": "put"/"op": "putt"/' out
    if python3 -c '
import json, sys, jsonschema
jsonschema.validate(json.load(open("out")), json.load(open(sys.argv[1])))' \
        "$PEAL_SOURCE/schema/peal-plan.schema.json" 2>/dev/null; then
        die "the schema takes anything"
    fi
fi

# GOAL: by LogGOPSim's grammar, messages pair up, and it ends.
one_goal() {
    same_twice goal "$@"
    python3 "$PEAL_SOURCE/tests/support/goal_check.py" out || die "not a schedule: $*"
}
refused() { # refused SED: what the script makes of a good schedule is none
    sed "$1" good >bad
    cmp -s good bad && die "'$1' changes nothing"
    if python3 "$goal" bad >/dev/null 2>&1; then die "taken for a schedule: $1"; fi
}
goal=$PEAL_SOURCE/tests/support/goal_check.py
if command -v python3 >/dev/null; then
    plans one_goal
    one_goal "$h100" -n 4 -a compressed --wire bf16 --bytes 1M

    # 2 (N - 1) / N of the message from each of four ranks; rounded to bfloat16, half of that.
    expect 0 "$PEAL" dump "$h100" -n 4 --format goal -a compressed --wire bf16 --bytes 1M
    [ "$(python3 "$goal" --sent out)" = 3145728 ] || die "not what packed elements take"
    expect 0 "$PEAL" dump "$h100" -n 4 --format goal -a ring --bytes 1M
    [ "$(python3 "$goal" --sent out)" = 6291456 ] || die "not what a ring sends"
    cp out good
    refused 's/^num_ranks.*//'
    refused '0,/rank 1/s//rank 0/'
    refused '0,/ to /s// from /'
    refused '0,/b to/s// to/'
    refused '0,/^l1:/s//send:/'
    refused '0,/^l2 requires l1/s//l2 requires l9/'
    refused '0,/^l2:/s//l1:/'
    refused '0,/ tag/s// cpu 256 tag/'
    refused '0,/^}/s///'
fi

# The timeline: slices of one track never overlap, arrows have two ends, forward in time.
one_trace() {
    same_twice trace "$@"
    expect_json 'all(e["ph"] in "MXsf" for e in j["traceEvents"])'
    python3 -c '
import collections, json
events = json.load(open("out"), parse_float=lambda t: round(float(t) * 1e6),
                   parse_int=int)["traceEvents"]
tracks, ends = collections.defaultdict(list), collections.defaultdict(dict)
for e in events:
    if e["ph"] == "X":
        tracks[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
    elif e["ph"] in "sf":
        ends[e["id"]][e["ph"]] = e["ts"]
for track in tracks.values():
    track.sort()
    assert all(a[1] <= b[0] for a, b in zip(track, track[1:]))
assert tracks and all(set(e) == {"s", "f"} and e["s"] <= e["f"] for e in ends.values())' ||
        die "not a timeline: $*"
}
if command -v python3 >/dev/null; then
    one_trace "$h100" -a ring --tile 64K --bytes 4M
    one_trace "$two" -a hierarchical --bytes 1M
    one_trace "$h100" -c reduce -e nvlink=ce --bytes 1M
    one_trace "$h100" -n 5 -a oneshot --bytes 8K
    expect 0 "$PEAL" sim "$h100" -n 5 -a oneshot --bytes 8K --trace sim.trace
    expect_same once sim.trace
fi

# Graphviz.
one_dot() {
    same_twice dot "$@"
    if command -v dot >/dev/null; then
        dot -Tplain out >/dev/null 2>err || die "dot does not read: $*"
    fi
}
plans one_dot
expect 0 "$PEAL" dump "$two" --bytes 1M --format dot
expect_out 'subgraph cluster_h1'
expect_out 'r0 -> r8 \[label="net [0-9]+"'
expect 0 "$PEAL" dump "$two" --bytes 1M --format dot --collapse host
expect_out 'h0 -> h1 \[label="net [0-9]+"'
[ "$(grep -c ' -> ' out)" = 4 ] || die "two hosts have two edges inside and two between"

expect 2 "$PEAL" dump "$h100" --format svg
expect 2 "$PEAL" dump "$h100" --format dot --collapse rack
expect 2 "$PEAL" dump "$h100" --bytes 1M --collapse host
expect 2 "$PEAL" dump "$h100" --format dot --bytes 8:8G
expect_err 'one plan at a time'
expect 2 "$PEAL" dump "$h100" --format goal --rank 0 --bytes 1M
echo ok
