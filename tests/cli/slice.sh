#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One rank's programs alone: of a topology, as files and texts; and 65 536 ranks, of which no more
# is ever made.
# ctest: plain
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
two=$topologies/cluster-h100-2.xml

# The rank's lanes are those of the whole plan; only links are numbered anew.
lanes() { sed -n '/^  rank /,$p' "$1" | sed 's/@[0-9]*//g'; }
expect 0 "$PEAL" compile "$two" -o whole.peal
expect 0 "$PEAL" dump whole.peal --row 1 --rank 9
lanes out >whole.txt
expect 0 "$PEAL" dump "$two" --row 1 --rank 9
expect_out '^plan allreduce ranks 16 slice 9 bytes '
expect_out '^  origin [0-9a-f]{32}$'
[ "$(grep -c '^plan ' out)" = 1 ] || die "more rows than the one asked for"
lanes out >slice.txt
expect_same slice.txt whole.txt
[ -s slice.txt ] || die "no program"

# Files: the text comes back as the same bytes, all ranks' slices have one id, the whole its own.
expect 0 "$PEAL" compile "$two" --rank 9 -o nine.peal
expect_out 'nine.peal: allreduce, rank 9 of 16 ranks, .*not proven'
expect 0 "$PEAL" compile "$two" --rank 3 -o three.peal
expect 0 "$PEAL" dump nine.peal -o nine.txt
expect 0 "$PEAL" asm nine.txt -o again.peal
expect_same again.peal nine.peal
ids() {
    expect 0 "$PEAL" dump "$1" --json
    grep '"id"' out
}
[ "$(ids nine.peal)" = "$(ids three.peal)" ] || die "two ids for the slices of one plan"
[ "$(ids nine.peal)" != "$(ids whole.peal)" ] || die "the whole plan has its own id"
expect 0 "$PEAL" dump nine.peal --json
expect_json 'all([p["rank"] for p in r["programs"]] == [9] for r in j["rows"])'
expect 0 "$PEAL" dump "$two" --rank 9 --row 2 --json
expect_json '[r["row"] for r in j["rows"]] == [2]'
expect 0 "$PEAL" compile "$two" --rank 9 --collective all -o all.peal
expect 0 "$PEAL" plan nine.peal

# What a slice cannot do is refused, and what is not there.
expect 2 "$PEAL" dump nine.peal --rank 3
expect_err 'slices of rank 9'
expect 3 "$PEAL" verify nine.peal
expect_err 'a proof is of all ranks together'
expect 2 "$PEAL" dump "$two" --rank 16
expect 2 "$PEAL" compile "$two" --rank 16 -o x.peal
expect 2 "$PEAL" dump "$two" --rank 1 --row 99
[ ! -e x.peal ] || die "a file of a rank that is not there"

# 8 192 hosts.
cat >many.xml <<XML
<peal version="1" name="many"><host name="dgx" count="8192" topology="$topologies/dgx-h100.xml"/>
<network kind="rails"/></peal>
XML
expect 0 "$PEAL" plan many.xml --json
expect_json 'j["ranks"] == 65536 and j["rows"][-1]["max_bytes"] == 8 << 30'
expect 0 "$PEAL" dump many.xml --rank 65535 --row 3
expect_out '^plan allreduce ranks 65536 slice 65535 '
expect_out '^  rank 65535 host 8191 '
expect 0 "$PEAL" compile many.xml --rank 40000 -o many.peal
[ "$(wc -c <many.peal)" -lt 100000 ] || die "a slice is as large as the group"
expect 3 "$PEAL" compile many.xml -o whole.peal
expect_err "65536 ranks, of up to [0-9]+ bytes each, are not made all at once"
