#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest: plain
# What --json prints is what schema/ says of its form, field by field, and each form has a schema.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
if ! python3 -c 'import jsonschema' 2>/dev/null; then
    echo "skipped: no python3 with jsonschema"
    exit 77
fi
h100=$topologies/dgx-h100.xml two=$topologies/cluster-h100-2.xml
count=0
prints() { # prints CODE ARGUMENT...: an object of JSON, kept
    local code=$1
    shift
    expect "$code" "$PEAL" "$@" --json
    count=$((count + 1))
    mv out "$count.json"
}

sed 's/link_speed="32.0 GT/link_speed="2.5 GT/' "$h100" >odd.xml
prints 0 topo "$h100"
prints 0 topo "$two"
prints 0 topo host:3
prints 0 topo odd.xml
prints 1 topo diff "$h100" odd.xml
prints 0 plan "$h100" --bytes 1M:4M
prints 0 plan "$h100" -n 2 --bytes 4K -c all --candidates
prints 0 plan "$two" -c sendrecv --shift 1,-1 --bytes 1M
prints 0 plan "$two" --grid tp=8,dp=2 --axis dp --bytes 1M
prints 0 plan "$h100" -n 2 --wire bf16 -a compressed --bytes 1M
prints 0 compile "$h100" -n 2 --bytes 1K:1M -o two.peal
prints 0 compile "$h100" -n 4 -c broadcast,allreduce --bytes 1M --rank 1 -o slices.peal
prints 0 dump two.peal
prints 0 verify two.peal
prints 0 verify "$h100" -n 3 --bytes 1M
expect 0 "$PEAL" dump two.peal
sed 's/signal r1/signal r0/' out >broken.txt
prints 1 verify broken.txt
prints 0 sim "$two" --bytes 64K --flows flows.json
prints 0 sim "$two" -c gather -a direct --incast 16 --bytes 64M --buffer 1M --degrade 'h0/mlx5_1 tx=0.5'
prints 0 sim "$two" --bytes 64M --degrade 'h0/mlx5_0 tx=0'
prints 0 sim "$h100" two.peal --bytes 1K
prints 0 run host:2 --bytes 4K --check
prints 0 run host:3 --ranks 2,3 --bytes 4K -c allreduce,barrier --check
prints 0 bench host:2 --sizes 8:64 --iters 2
prints 0 bench host:2 --all-pairs
prints 0 bench host:2 --beside --sizes 1K:1K --iters 1
printf 'bytes\ttime_us\tcollective\n8\t50\tallreduce\n65536\t60\tallreduce\n1048576\t900\tallreduce\n' >t.tsv
prints 0 fit t.tsv
prints 0 fit t.tsv --link nvlink --hold-out
prints 0 compare "$two" t.tsv
head -n 2 t.tsv >one.tsv
prints 0 compare "$two" one.tsv
prints 0 policy check "$PEAL_SOURCE/examples/policies/avoid-nic.lua" "$h100" --bytes 1M
prints 1 lint "$two" --model llama-3-70b --tp 16
prints 0 estimate "$two" --tp 8
prints 0 estimate "$h100" --tp 8
prints 0 estimate "$two" --model mixtral-8x7b,seq=4096,batch=4,micro=4 --tp 2 --sp 2 --pp 2 --ep 2 \
    --zero 3 --bucket 256M --swap net=800 --scale 8,16
prints 0 version
prints 0 help

expect 0 python3 "$PEAL_SOURCE/tests/support/schema_check.py" "$PEAL_SOURCE/schema" ./*.json
# Each form that docs/cli.md names has a schema, and was printed.
grep -oE 'peal\.[a-z]+/1' "$PEAL_SOURCE/docs/cli.md" | sort -u >documented
grep -ohE '"schema": ?"peal\.[a-z]+/1"' ./*.json | grep -oE 'peal\.[a-z]+/1' | sort -u >printed
expect_same documented printed
sed 's|^peal.\(.*\)/1|peal-\1.schema.json|' documented >expected
(cd "$PEAL_SOURCE/schema" && ls ./*.schema.json) | sed 's|^./||' >present
expect_same expected present

# One that lacks a field, or has one more, is another form.
lint=$(grep -l '"schema": "peal.lint/1"' ./*.json)
for change in '/"level"/d' 's/"times"/"often"/'; do
    cp "$lint" other.json
    sed -i "$change" other.json
    expect 1 python3 "$PEAL_SOURCE/tests/support/schema_check.py" "$PEAL_SOURCE/schema" other.json
done
