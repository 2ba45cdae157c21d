#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# peal topo: summary, JSON, clusters, differences.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
h100=$topologies/dgx-h100.xml

expect 0 "$PEAL" topo "$h100"
expect_out '8 ranks, 1 host'
expect_out '^ +0 +0 +0 +[0-9a-f:.]+ +sm_90'
expect_out '^nvlink '
expect_out 'S\*'
lines=$(wc -l <out)
expect 0 "$PEAL" topo "$h100" --links
[ "$(wc -l <out)" -gt $((lines + 16)) ] || die "--links lists no links"

for file in "$topologies"/*.xml; do
    expect 0 "$PEAL" topo "$file" --json
    expect_json 'j["schema"] == "peal.topo/1"'
    expect_json 'len(j["ranks"]) > 0 and len(j["links"]) > 0 and len(j["nodes"]) > 0'
    expect_json 'set("rank device busid node numa nvlink_domain nic".split()) <= set(j["ranks"][0])'
    expect_json 'set("from to class alpha_us beta_gbs sstar_bytes resource".split()) <= set(j["links"][0])'
    expect_json 'all(set(("line", "text")) <= set(w) for w in j["notes"] + j["warnings"])'
    expect_json 'isinstance(j["nics"], list)'
done

expect 0 "$PEAL" topo - --json <"$h100"
expect_json 'len(j["ranks"]) == 8'
expect 0 "$PEAL" topo host:5 --json
expect_json 'len(j["ranks"]) == 5 and j["dialect"] == "host"'

# A cluster beside its host refers to it by name, elsewhere by its path.
cp "$h100" host.xml
expect 0 "$PEAL" topo cluster host.xml --nodes 4 --rails -o cluster.xml
grep -q '"host.xml"' cluster.xml || die "no reference by name"
expect 0 "$PEAL" topo cluster.xml --json
expect_json 'len(j["ranks"]) == 32 and j["hosts"] == 4'
mkdir sub
expect 0 "$PEAL" topo cluster host.xml --nodes 2 --leaf-spine --oversubscription 2 --latency 3 -o sub/c.xml
expect 0 "$PEAL" topo sub/c.xml --json
expect_json 'len(j["ranks"]) == 16'
expect 0 "$PEAL" topo cluster host.xml --nodes 2
expect_out '<peal'
expect 2 "$PEAL" topo cluster host.xml -o none.xml
expect 2 "$PEAL" topo cluster host.xml --nodes 2 --rails --leaf-spine -o none.xml
expect 2 "$PEAL" topo cluster host:4 --nodes 2 -o none.xml
expect 3 "$PEAL" topo cluster missing.xml --nodes 2 -o none.xml
[ ! -e none.xml ] || die "a cluster was written in spite of an error"
expect 2 "$PEAL" topo host.xml --nodes 2
expect_err "for 'peal topo cluster'"

expect 0 "$PEAL" topo diff "$h100" host.xml
expect_out 'the same'
expect 1 "$PEAL" topo diff "$h100" "$topologies/dgx-a100.xml"
expect_out 'sm_90'
expect 1 "$PEAL" topo diff "$h100" "$topologies/dgx-a100.xml" --json
expect_json 'j["schema"] == "peal.diff/1" and not j["same"] and len(j["differences"]) > 0'
expect_json 'set(("what", "left", "right")) == set(j["differences"][0])'
expect 2 "$PEAL" topo diff "$h100"

# Bad input: where, what, code 3.
printf '<system version="1">\n<cpu numaid="0"\n</system>\n' >bad.xml
expect 3 "$PEAL" topo bad.xml
expect_err '^bad\.xml:[0-9]+:([0-9]+:)? error: '
expect 3 "$PEAL" topo missing.xml
expect_err '^missing\.xml: error: .*No such file'
expect 3 "$PEAL" topo - </dev/null
expect 2 "$PEAL" topo host:0
expect 2 "$PEAL" topo

# What a file says that calls took: how many, of what; and where it cannot count, a warning with its line.
measured() { # measured RANKS ATTRIBUTES: a file
    cat <<XML
<peal version="1"><host ranks="$1"/><cost link="shm" alpha-us="0.3" beta-gbs="10" gap-us="0"/>
<memory $2><rate use="load" bytes="1024" gbs="1"/><rate use="store" bytes="1024" gbs="1"/>
<rate use="exchange" bytes="1024" gbs="1"/>
<call collective="allreduce" algorithm="twoshot"><time bytes="64" us="2"/><time bytes="1024" us="3"/></call>
<call collective="allreduce" algorithm="ring" buffers="private"><time bytes="65536" us="20"/></call>
<call collective="allreduce" algorithm="twoshot" detail="&lt;&quot;&amp;"><time bytes="8" us="4"/></call>
</memory></peal>
XML
}
measured 2 'ranks="2"' >measured.xml
expect 0 "$PEAL" topo measured.xml
expect_out '^measured with 2 ranks: .* 3 schedules$'
expect_out '^allreduce +shared +2 +1 +8..1K$'
expect_out '^allreduce +private +1 +1 +64K..64K$'
expect 0 "$PEAL" topo measured.xml --json
expect_json 'j["measured"]["ranks"] == 2 and len(j["measured"]["calls"]) == 3 and not j["warnings"]'
expect_json "j['measured']['calls'][2]['detail'] == '<\"&'"
expect_json 'j["measured"]["calls"][1]["buffers"] == "private" and j["measured"]["calls"][1]["line"] == 5'
measured 4 'ranks="2"' >others.xml
expect 0 "$PEAL" topo others.xml --json
expect_json 'len(j["warnings"]) == 1 and j["warnings"][0]["line"] == 2'
expect 0 "$PEAL" plan others.xml --bytes 64 -a twoshot --json
expect_json 'j["rows"][0]["time_us"] != 2'
expect 0 "$PEAL" plan measured.xml --bytes 64 -a twoshot --json
expect_json 'j["rows"][0]["time_us"] == 2'
expect 0 "$PEAL" topo host:2 --json
expect_json 'j["measured"] is None'
echo ok
