#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Groups that options name, their siblings, and the grids that make both.
# ctest: plain
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
h100=$topologies/dgx-h100.xml
two=$topologies/cluster-h100-2.xml
expect 0 "$PEAL" topo cluster "$topologies/pcie-8gpu.xml" --nodes 4 -o four.xml

# The plan is of the ranks that were named, in that order.
expect 0 "$PEAL" plan "$h100" --group 6,0,4 --json
expect_json 'j["ranks"] == 3 and j["group"] == [6, 0, 4] and j["siblings"] == 0'
expect 0 "$PEAL" plan "$h100" --json
expect_json 'j["ranks"] == 8 and j["group"] is None'
expect 0 "$PEAL" topo "$h100" --json
busids=$(python3 -c 'import json; j = json.load(open("out")); print(" ".join(j["ranks"][r]["busid"] for r in (6, 0, 4)))')
expect 0 "$PEAL" dump "$h100" --group 6,0,4 --bytes 1M
[ "$(sed -n 's/^  rank . .*busid "\([^"]*\)".*/\1/p' out | tr '\n' ' ')" = "$busids " ] ||
    die "the plan's endpoints are not $busids"
expect 0 "$PEAL" plan "$two" --group 0:15:5,7 --json
expect_json 'j["group"] == [0, 5, 10, 15, 7]'

# Every planning verb takes it.
expect 0 "$PEAL" compile "$two" --group 1:15:2 --collective allgather -o odd.peal --json
expect_json 'j["ranks"] == 8 and j["group"] == [1, 3, 5, 7, 9, 11, 13, 15]'
expect 0 "$PEAL" verify odd.peal
expect 0 "$PEAL" verify "$two" --group 1,9,2,10 --bytes 8:1M --json
expect_json 'j["ok"] and j["group"] == [1, 9, 2, 10]'
expect 0 "$PEAL" dump "$two" --group 1,9 --bytes 8 --format json
expect_json 'j["group"] == [1, 9]'
expect 0 "$PEAL" run "$two" --group 9,1,2 --collective all --bytes 64K --check --json
expect_json 'j["group"] == [9, 1, 2] and j["wrong"] == 0 and j["combinations"] > 8'
expect 0 "$PEAL" run four.xml --group 3,9,8,30 -a all --bytes 40,64K --check
expect 0 "$PEAL" bench "$two" --group 0,8 --sizes 8:64 --factor 8 --iters 3 --json
expect_json 'j["group"] == [0, 8]'
expect 2 "$PEAL" plan odd.peal --group 0,1
expect_err 'decided in a plan file'

# Siblings: the same, written out and as a grid.
expect 0 "$PEAL" plan four.xml --group 0:31:8 --bytes 1M --json
cp out alone
expect 0 "$PEAL" plan four.xml --group 0:31:8 --bytes 1M --json --siblings \
    1:31:8/2:31:8/3:31:8/4:31:8/5:31:8/6:31:8/7:31:8
cp out written
expect_json 'j["siblings"] == 7 and j["rows"][0]["time_us"] > 2 * json.load(open("alone"))["rows"][0]["time_us"]'
expect 0 "$PEAL" plan four.xml --grid tp=8,dp=4 --axis dp --bytes 1M --json
expect_same out written
expect 0 "$PEAL" plan four.xml --grid tp=8,dp=4 --axis dp --bytes 1M --explain
expect_out 'alone .*without the 7 siblings'
expect 0 "$PEAL" plan four.xml --bytes 1M --explain
if grep -q alone out; then die "a group without siblings is said to have some"; fi
expect 0 "$PEAL" plan four.xml --grid tp=4,cp=2,dp=2,pp=2 --axis cp,dp --bytes 1M --json
expect_json 'j["group"] == [0, 4, 8, 12] and j["siblings"] == 7'
expect 0 "$PEAL" plan four.xml --grid tp=4,cp=2,dp=2,pp=2 --axis tp --bytes 1M --json
expect_json 'j["group"] == [0, 1, 2, 3] and j["siblings"] == 7'
expect 0 "$PEAL" plan four.xml --grid tp=32 --axis tp --bytes 1M --json
expect_json 'len(j["group"]) == 32 and j["siblings"] == 0'

# What is no group.
expect 2 "$PEAL" plan "$h100" --group 0,0
expect_err 'rank 0 stands twice'
expect 2 "$PEAL" plan "$h100" --group 0,8
expect 2 "$PEAL" plan "$h100" --group 0,,1
expect 2 "$PEAL" plan "$h100" --group 4:1
expect 2 "$PEAL" plan "$h100" --group 0:7:0
expect 2 "$PEAL" plan "$h100" --group 0:7:2:1
expect 2 "$PEAL" plan "$h100" --group 99999
expect 2 "$PEAL" plan "$h100" --group 0,1 --ranks 2
expect 2 "$PEAL" plan "$h100" --siblings 0,1
expect 2 "$PEAL" plan "$h100" --group 0,1 --siblings 2,3/4
expect_err "'4' has 1 ranks, the group 2"
expect 2 "$PEAL" plan "$h100" --group 0,1 --siblings 2,1
expect 2 "$PEAL" plan "$h100" --grid tp=4,dp=2
expect 2 "$PEAL" plan "$h100" --grid tp=4,dp=2 --axis pp
expect 2 "$PEAL" plan "$h100" --grid tp=4,tp=2 --axis tp
expect 2 "$PEAL" plan "$h100" --grid tp=0 --axis tp
expect 2 "$PEAL" plan "$h100" --grid tp=4,dp=3 --axis tp
expect 2 "$PEAL" plan "$h100" --grid tp=70000 --axis tp
