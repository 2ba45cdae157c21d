#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# peal lint: each rule where it holds, by the line or the option it is due to, and silence where not.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"

finds() { # finds CODE RULE LEVEL OPERAND...: the exit code, and a finding of that rule and level
    local code=$1 rule=$2 level=$3
    shift 3
    expect "$code" "$PEAL" lint "$@" --json
    expect_json "j['schema'] == 'peal.lint/1' and all({'rule', 'level', 'where', 'line', 'text', \
'advice'} <= set(f) for f in j['findings'])"
    expect_json "any(f['rule'] == '$rule' and f['level'] == '$level' for f in j['findings'])"
}

silent() { # silent RULE OPERAND...: no finding of that rule, whatever else there is
    local rule=$1
    shift
    "$PEAL" lint "$@" --json >out 2>err || [ $? = 1 ] || die "lint $*"
    expect_json "not any(f['rule'] == '$rule' for f in j['findings'])"
}

h100=$topologies/dgx-h100.xml two=$topologies/cluster-h100-2.xml many=$topologies/cluster-h100-16.xml

# ---- a machine without fault; what --level asks for
expect 0 "$PEAL" lint "$h100"
expect_out '^errors: 0, warnings: 0'
expect 2 "$PEAL" lint "$h100" --level loud
expect_err 'info, warning or error'

# ---- the request
finds 1 tp-crosses error "$two" --model llama-3-70b --tp 16
expect 1 "$PEAL" lint "$two" --model llama-3-70b --tp 16
expect_out '^--tp: error: tp-crosses: tp 16, allreduce of .* over net'
silent tp-crosses "$two" --model llama-3-70b --tp 8
finds 1 bucket-size warning "$two" --model llama-3-70b --tp 8 --bucket 1M
silent bucket-size "$two" --model llama-3-70b --tp 8 --bucket 25M
finds 1 wire-type warning "$two" --model llama-3-70b,grad=fp32 --tp 8
silent wire-type "$two" --model llama-3-70b --tp 8
finds 1 flat warning "$many" --algorithm ring --bytes 1M
silent flat "$many" --algorithm hierarchical --bytes 1M
silent flat "$h100" --algorithm ring --bytes 1M
finds 0 regime info "$h100" --bytes 1K --level error
expect_json "'latency-bound' in j['findings'][0]['text']"
expect 1 "$PEAL" lint "$h100" --bytes 1K --level info

# 64 experts over two hosts: each peer gets a fraction of 64 KiB.
finds 1 small-messages warning "$two" --ep 16 --dp 16 \
    --model params=20B,layers=24,hidden=1024,seq=256,experts=64,topk=2,expert-hidden=1024
silent small-messages "$h100" --ep 8 --dp 8 \
    --model params=20B,layers=24,hidden=1024,seq=256,experts=64,topk=2,expert-hidden=1024

# ---- the network
sed "s|topology=\"|&$topologies/|; s/pfc=\"on\"/pfc=\"off\"/" "$two" >lossy.xml
finds 1 lossless warning lossy.xml
expect_json "any('PFC off' in f['text'] for f in j['findings'] if f['rule'] == 'lossless')"
expect_json "all(f['line'] == $(grep -n '<switch' lossy.xml | cut -d: -f1) \
for f in j['findings'] if f['rule'] == 'lossless')"
sed "s|topology=\"|&$topologies/|; /<switch/d" "$two" >silent.xml
finds 0 lossless info silent.xml
expect_json "all(f['line'] == $(grep -n '<network' silent.xml | cut -d: -f1) \
for f in j['findings'] if f['rule'] == 'lossless')"
silent lossless "$two"

# ---- what was measured: for other ranks, of too little, faster than the links that are stated
call() { # call ALGORITHM US...: a <call> of as many sizes, a line
    local algorithm=$1 bytes=1024
    shift
    printf '<call collective="allreduce" algorithm="%s">' "$algorithm"
    for us in "$@"; do
        printf '<time bytes="%s" us="%s"/>' $bytes "$us"
        bytes=$((bytes * 1024))
    done
    echo '</call>'
}
memory() { # memory RANKS: a file of the calls that are read
    echo "<peal version=\"1\"><host ranks=\"$1\"/><cost link=\"shm\" alpha-us=\"0.3\" beta-gbs=\"10\" gap-us=\"0\"/>"
    echo '<memory ranks="2"><rate use="load" bytes="1024" gbs="1"/><rate use="store" bytes="1024" gbs="1"/>'
    echo '<rate use="exchange" bytes="1024" gbs="1"/>'
    cat
    echo '</memory></peal>'
}
{ call ring 1 200; call twoshot 1 200; } | memory 2 >measured.xml
silent measured measured.xml
{ call ring 1 200; call twoshot 1 200; } | memory 4 >ranks.xml
finds 1 measured warning ranks.xml
expect_json 'any("measured with 2 ranks, and the file has 4" in f["text"] for f in j["findings"])'
call ring 1 200 | memory 2 >alone.xml
finds 1 measured warning alone.xml
{ call ring 1 200; call twoshot 1; } | memory 2 >short.xml
finds 1 measured warning short.xml
{ call ring 1 20; call twoshot 1 200; } | memory 2 >quick.xml
finds 1 measured warning quick.xml
expect_json '[f["line"] for f in j["findings"] if f["rule"] == "measured"] == [4]'
{ call ring 1 200; call twoshot 1 200; call spiral 1 200; call ring 1 200; } | memory 2 >odd.xml
finds 1 measured warning odd.xml
expect_json '[f["line"] for f in j["findings"] if f["rule"] == "measured"] == [7, 6]'
sed 's|<host ranks="2"/>|<host ranks="2" count="2"><nic name="e0" speed-gbits="100"/></host>|' \
    measured.xml >hosts.xml
finds 1 measured warning hosts.xml

# ---- each rule is written down
sed -n 's/^LINT([A-Z_]*, "\([a-z-]*\)".*/\1/p' "$PEAL_SOURCE/cli/lint.def" >rules
[ "$(wc -l <rules)" = "$(grep -c '^LINT(' "$PEAL_SOURCE/cli/lint.def")" ] || die "a rule without a name"
while read -r rule; do
    grep -q "^| \`$rule\` |" "$PEAL_SOURCE/docs/lint.md" || die "docs/lint.md has no $rule"
done <rules

# ---- traps of real files, by the line that holds them
nccl=$(corpus nccl-topo)
at() { # at RULE FILE REGEX: the line of every such finding matches
    finds 1 "$1" warning "$2"
    python3 - "$1" "$2" "$3" <<'PYTHON' || die "$1: another line of $2"
import json, re, sys
lines = open(sys.argv[2], encoding="utf-8").read().splitlines()
found = [f for f in json.load(open("out"))["findings"] if f["rule"] == sys.argv[1]]
sys.exit(0 if found and all(re.search(sys.argv[3], lines[f["line"] - 1]) for f in found) else 1)
PYTHON
}
at slow-bridge "$nccl/oci_H100.xml" '<pci .*class="0x060400"'
at one-way "$nccl/timez_2xa100_asymmetric.xml" '<gpu|<pci'
at far-nic "$nccl/adpdit_8x4090.xml" '<gpu|<pci'
at shared-nic "$nccl/azure_ndv2_v100.xml" '<net|<nic|<pci'
at starved-nic "$nccl/topo_4p3l.xml" '<net|<nic|<pci'
# One port that the file has under both sockets is one.
expect 1 "$PEAL" lint "$nccl/vastai_hgx_b200_8x.xml"
expect_out 'NIC eth0 serves 8 GPUs: 1.25 of its 10.0 Gb/s'
