#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sends by lists of pairs: options, both forms of the plan, runs, and plans that send otherwise.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
two=$topologies/cluster-h100-2.xml

# One pair among many ranks.
expect 0 "$PEAL" run host:5 --collective sendrecv --root 3 --peer 1 --check --json
expect_json 'j["root"] == 3 and j["peer"] == 1 and j["ranks"] == 5 and j["wrong"] == 0'

# A list: blocks are those of pairs, sizes one block's.
expect 0 "$PEAL" run host:4 --collective sendrecv --pairs '0>1,0>1,3>3,2>0' --count 1000 --check --json
expect_json 'j["bytes"] == 4000 and j["root"] == 0 and j["peer"] == 0 and j["wrong"] == 0'
expect_json 'j["pairs"] == [[0, 1], [0, 1], [3, 3], [2, 0]]'
expect 0 "$PEAL" run host:4 --collective sendrecv --shift 1,-1 --count 0,1,33,20000 --dtype all --check --procs
expect 0 "$PEAL" run host:4 -n 1,2,3,4 --collective sendrecv --shift 1 --check --json
expect_json 'j["combinations"] == 4 and j["wrong"] == 0'
expect 0 "$PEAL" run "$two" --collective sendrecv --shift 8,1 --count 5000 --check --chaos 7
expect 0 "$PEAL" run "$two" --group 0,8,1 --collective sendrecv --shift -1 --count 5000 --check
expect 0 "$PEAL" bench host:3 --collective sendrecv --shift 1 --sizes 64:512 --factor 8 --iters 3
expect_out 'sendrecv \(list 0 of pairs\)'
expect 0 "$PEAL" plan "$two" --collective sendrecv --shift 8 --json
expect_json 'len(j["pairs"]) == 16 and j["pairs"][9] == [9, 1]'

# Both forms of a plan keep the list.
expect 0 "$PEAL" compile host:3 -a direct --collective sendrecv --pairs '0>1,2>1' --root 2 --bytes 8:4K -o p.peal
expect_out '^ *0 +sendrecv +list 2 '
expect 0 "$PEAL" dump p.peal -o p.txt
grep -q '^plan sendrecv ranks 3 root 2 peer 2 ' p.txt || die "the list has no number"
[ "$(grep -c '^  pair r' p.txt)" = 2 ] || die "the text has no pairs"
expect 0 "$PEAL" asm p.txt -o q.peal
expect_same p.peal q.peal
expect 0 "$PEAL" run p.peal --bytes 4000 --check
expect 0 "$PEAL" plan p.peal --json
expect_json 'j["pairs"] == [[0, 1], [2, 1]] and j["root"] == 2'

# The plan has to send what the list says, where it says.
broken() { # broken EXIT EDIT REGEX
    sed "$2" p.txt >bad.txt
    cmp -s p.txt bad.txt && die "the edit changes nothing: $2"
    expect "$1" "$PEAL" verify bad.txt
    cat out err >both
    grep -qE -- "$3" both || die "nothing says $3"
}
broken 1 's/pair r0 -> r1/pair r0 -> r2/' 'has no chunk 0 in its output'
broken 1 's/pair r0 -> r1/pair r1 -> r1/' 'has no chunk 0 in its input'
broken 1 '/put c1/d' 'out\[1\] tile 0 is never written, not the input of rank 2'
broken 1 '0,/wait r0.1/{/wait r0.1/d}' 'waits|race|signal'
broken 3 's/pair r0 -> r1/pair r0 -> r3/' "a pair's rank 3 is not below 3"
broken 3 's/root 2 peer 2/root 2 peer 1/' 'root and peer of a list of pairs'
broken 3 '/^  pair /d' 'sends to itself'
broken 3 's/plan sendrecv/plan alltoall/;s/ root 2 peer 2//' 'only sendrecv has pairs'
# A rank that takes no part could be two calls ahead.
expect 0 "$PEAL" dump host:4 -a direct --collective sendrecv --pairs '0>1' --bytes 64 -o four.txt
sed -e '/^  rank 3/,$ { /signal\|wait\|pre/d }' -e '/r3\.0$/d; /r3\.0 sm$/d' four.txt >bad.txt
expect 1 "$PEAL" verify bad.txt
expect_out 'may return before rank 3 has entered|semaphore|waits for ever'

# Options.
expect 2 "$PEAL" plan host:4 --collective sendrecv --pairs '0>4'
expect 2 "$PEAL" plan host:4 --collective sendrecv --pairs '0-1'
expect 2 "$PEAL" plan host:4 --collective sendrecv --pairs '0>1,'
expect 2 "$PEAL" plan host:4 --collective sendrecv --shift x
expect 2 "$PEAL" plan host:4 --collective sendrecv --shift 1 --pairs '0>1'
expect 2 "$PEAL" plan host:4 --collective sendrecv --shift 1 --peer 2
expect 2 "$PEAL" plan host:4 --shift 1
expect_err 'shift is for sendrecv'
