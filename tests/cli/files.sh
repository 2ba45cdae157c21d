#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# compile, dump, asm, verify: files that appear whole or not at all, and texts that come back.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
h100=$topologies/dgx-h100.xml

nothing_new() { # only the files named are here
    local have
    have=$(find . -type f ! -name out ! -name err | sort | tr '\n' ' ')
    [ "$have" = "$1" ] || die "files are '$have', not '$1'"
}

expect 2 "$PEAL" compile "$h100"
expect 3 "$PEAL" compile missing.xml -o x.peal
expect 2 "$PEAL" compile "$h100" --ranks 99 -o x.peal
expect 3 "$PEAL" compile "$topologies/cluster-h100-2.xml" --algorithm oneshot -o x.peal
nothing_new ''
expect 0 "$PEAL" compile "$h100" --ranks 3 --bytes 8:4M -o x.peal
expect_out 'x.peal: allreduce, 3 ranks, .*proven'
nothing_new './x.peal '
cp x.peal before
expect 3 "$PEAL" compile missing.xml -o x.peal
expect_same x.peal before
expect 4 "$PEAL" compile "$h100" --ranks 2 -o no/such/dir/x.peal
expect_err 'cannot write no/such/dir/x.peal: No such file'
if [ -w /dev/full ]; then
    expect 4 "$PEAL" run host:2 --trace /dev/full
    expect_err 'cannot write /dev/full: No space left'
    expect 4 "$PEAL" compile "$h100" --ranks 2 -o /dev/full
    expect_err 'cannot write'
    "$PEAL" topo "$h100" >/dev/full 2>err && die "a full disk is no error"
fi
ln -s x.peal link.peal
expect 0 "$PEAL" compile "$h100" --ranks 3 --bytes 8:4M -o link.peal
[ -L link.peal ] || die "the link was replaced, not what it leads to"
expect_same x.peal before
rm link.peal
expect 0 "$PEAL" compile "$h100" --ranks 3 --bytes 8:4M -o - # the same bytes, through a pipe
expect_same out x.peal
expect 0 "$PEAL" compile "$h100" --ranks 3 --bytes 8:4M --json -o y.peal
expect_json 'j["schema"] == "peal.compile/1" and j["verified"] and len(j["rows"][0]["id"]) == 32'
expect_same y.peal x.peal

# Text: out and back, as a file, through pipes, and as the input of other verbs.
expect 0 "$PEAL" dump x.peal -o x.txt
grep -q '^peal-table 1' x.txt || die "no text"
expect 0 "$PEAL" asm x.txt -o back.peal
expect_same back.peal x.peal
"$PEAL" dump - <x.peal | "$PEAL" asm - -o - >piped.peal
expect_same piped.peal x.peal
expect 0 "$PEAL" dump x.txt
expect_same out x.txt
expect 0 "$PEAL" verify x.txt
expect 0 "$PEAL" dump x.peal --row 0
cp out row.txt
grep -c '^plan ' row.txt | grep -qx 1 || die "--row 0 is one plan"
expect 0 "$PEAL" asm row.txt -o row.peal
expect 0 "$PEAL" dump x.peal --rank 2 --row 0
grep -E '^ +rank ' out | grep -qvE '^ +rank 2' && die "--rank 2 shows other ranks"
expect_out '^ +rank 2'
expect 2 "$PEAL" dump x.peal --rank 3
expect 2 "$PEAL" dump x.peal --row 999
expect 2 "$PEAL" dump x.peal --format xml
expect 2 "$PEAL" dump x.peal --ranks 2
expect 2 "$PEAL" verify x.peal --algorithm ring
expect_err 'decided in a plan file'
expect 0 "$PEAL" dump x.peal --format json
expect_json 'j["schema"] == "peal.plan/1" and j["ranks"] == 3'
expect_json 'all(len(r["programs"]) == 3 for r in j["rows"])'
expect_json 'all("op" in s and "section" in s and "text" in s for r in j["rows"] for p in r["programs"] for l in p["lanes"] for s in l["steps"])'
expect 0 "$PEAL" dump "$h100" --ranks 2 --bytes 8:1K --json --rank 1
expect_json 'all([p["rank"] for p in r["programs"]] == [1] for r in j["rows"])'

expect 0 "$PEAL" verify x.peal
expect_out '^proven: '
expect 0 "$PEAL" verify "$topologies/cluster-h100-2.xml" -a hierarchical -b 1M --proof classes
expect_out 'proven by classes: 2 hosts, [0-9]* rails of 2; [0-9]* ranks executed'
expect 0 "$PEAL" verify "$topologies/cluster-h100-2.xml" -a hierarchical -b 1M --proof classes --json
expect_json 'j["ok"] and j["by_classes"] == 1 and j["hosts"] == 2 and j["rails"] > 0'
expect 0 "$PEAL" verify "$topologies/cluster-h100-2.xml" -a hierarchical -b 1M --proof enumerate --json
expect_json 'j["ok"] and j["by_classes"] == 0 and j["executed"] == 16 and "rails" not in j'
expect 3 "$PEAL" verify "$topologies/cluster-h100-2.xml" -a ring -b 1M --proof classes
expect 2 "$PEAL" verify "$h100" --proof other
# Above 1 024 ranks that is how it is done; above 8 192 no more than a host is ever in memory.
for hosts in 256 1025; do
    cat >hosts.xml <<XML
<peal version="1" name="many"><host name="dgx" count="$hosts" topology="$h100"/>
<network kind="rails"/></peal>
XML
    expect 0 "$PEAL" verify hosts.xml -a hierarchical -b 1M --json
    expect_json "j['ok'] and j['by_classes'] == 1 and j['hosts'] == $hosts and j['executed'] < j['ranks']"
done
expect 2 "$PEAL" verify hosts.xml -a hierarchical -b 1M --proof enumerate
expect 0 "$PEAL" verify "$h100" --ranks 2 --json
expect_json 'j["schema"] == "peal.verify/1" and j["ok"] and j["findings"] == [] and j["ranks"] == 2'
expect_json 'j["steps"] > 0 and j["seconds"] >= 0'

# Several collectives in one file.
expect 0 "$PEAL" compile "$h100" --ranks 2 --bytes 8:64K --collective all -o all.peal
expect_out '^all.peal: allreduce, .*broadcast \(root 0\), .*sendrecv \(rank 0 to rank 1\), barrier, alltoallv, 2 ranks, .*proven'
expect_out '^ *[0-9]+ +sendrecv +0>1 '
expect_out '^ *[0-9]+ +alltoall +- '
expect 0 "$PEAL" compile "$h100" --ranks 2 --bytes 8:64K --collective all --json -o all.peal
expect_json 'j["collective"] is None and len(j["collectives"]) == 11 and j["verified"]'
expect_json 'set(r["collective"] for r in j["rows"]) == set(c["collective"] for c in j["collectives"])'
expect 0 "$PEAL" verify all.peal
expect_out '^proven: allreduce, .*barrier, alltoallv by 2 ranks'
expect 0 "$PEAL" verify all.peal --json
expect_json 'j["ok"] and len(j["collectives"]) == 11'
expect 0 "$PEAL" dump all.peal -o all.txt
expect 0 "$PEAL" asm all.txt -o again.peal
expect_same again.peal all.peal
expect 0 "$PEAL" plan all.peal --json
expect_json '[t["collective"] for t in j["tables"]][-1] == "alltoallv" and len(j["tables"]) == 11'
expect 0 "$PEAL" plan all.peal --collective sendrecv --json
expect_json 'j["collective"] == "sendrecv" and (j["root"], j["peer"]) == (0, 1)'
expect 0 "$PEAL" dump all.peal --collective gather,barrier --json
expect_json 'set(r["collective"] for r in j["rows"]) == {"gather", "barrier"}'
expect 0 "$PEAL" dump all.peal --collective barrier
expect_out '^plan barrier'
[ "$(grep -c '^plan ' out)" = 1 ] || die "a barrier is one plan"
expect 2 "$PEAL" plan all.peal --collective gather --root 1
expect_err 'the plan has no gather'
expect 2 "$PEAL" plan x.peal --collective gather
expect 2 "$PEAL" verify x.peal --root 1
expect 3 "$PEAL" compile "$h100" --ranks 2 --collective alltoall,allreduce --algorithm tree -o none
expect 0 "$PEAL" compile "$h100" --ranks 4 --bytes 1M --collective all --algorithm tree -o none
expect_err 'note: tree is left out: it does not serve alltoall'
rm none

# A schedule with a step too few is no proof's friend.
printf '%s\n' 'peal-table 1' 'plan allreduce ranks 2 bytes 8..1024 algorithm oneshot chunks 1' \
    'region packet width 2 depth 1 slot 1280' \
    'link r0 -> r1 nvlink direct' 'link r1 -> r0 nvlink direct' \
    'rank 0 lane body put c0: in[0] -> r1.p0[0]@1 sm' \
    'reduce c0: in[0] p0[1] -> out[0] sm final' \
    'rank 1 lane body put c0: in[0] -> r0.p0[1]@2 sm' \
    'copy c0: in[0] -> out[0] sm' >broken.txt
expect 0 "$PEAL" asm broken.txt -o broken.peal
expect 1 "$PEAL" verify broken.peal
expect_out '^row 0 .*: (result|composition|numbers): '
expect_out '^NOT PROVEN'
expect 1 "$PEAL" verify broken.peal --json
expect_json 'not j["ok"] and len(j["findings"]) > 0'
expect_json 'set("kind rank lane step text".split()) <= set(j["findings"][0])'
expect 1 "$PEAL" run broken.peal --count 4 --check

# Every flipped byte is seen.
size=$(wc -c <x.peal)
for at in 0 9 13 24 40 100 $((size / 2)) $((size - 9)) $((size - 1)); do
    cp x.peal flipped.peal
    byte=$(od -An -tu1 -j "$at" -N 1 x.peal)
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\$(printf '%03o' $((byte ^ 16)))" |
        dd of=flipped.peal bs=1 seek="$at" conv=notrunc status=none
    expect 3 "$PEAL" verify flipped.peal
    expect_err '^flipped.peal:.* error: '
done
head -c 100 x.peal >short.peal
expect 3 "$PEAL" verify short.peal
expect 3 "$PEAL" asm x.peal -o none
printf 'peal-table 1\nplan allreduce ranks 2 bytes 8..64\n  chunkz 1\n' >typo.txt
expect 3 "$PEAL" asm typo.txt -o none
expect_err '^typo.txt:3:[0-9]+: error: '
[ ! -e none ] || die "asm wrote a file in spite of an error"
expect 3 "$PEAL" topo x.peal
expect_err 'where a topology is needed'
find . -name '*.??????' ! -name '*.peal' | grep -q . && die "a temporary file is left"
echo ok
