#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest: plain
# peal estimate: tables, JSON, the timeline as text and SVG, swaps, scaling, bad input.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
h100=$topologies/dgx-h100.xml
two=$topologies/cluster-h100-2.xml
many=$topologies/cluster-h100-128.xml

# Tables.
expect 0 "$PEAL" estimate "$two" --tp 8 --timeline
expect_out '^70b: 70000000000 parameters, 80 layers, hidden 8192'
expect_out '^16 ranks: tp 8, dp 2, pp 1, ep 1, sp 1$'
expect_out '^tp +allreduce +8 +2 +320 +67108864 '
expect_out '^dp +allreduce +2 +8 +1 +17500000000 '
expect_out '^nothing hidden '
expect_out '^90 % of dp hidden '
expect_out '^buckets of gradients'
expect_out '^> '
expect_out '^communication of one token of decoding'

# The timeline: a line for the backward pass, at most 40 for buckets, in order, and what is exposed.
expect_out '^backward pass .* =+\|$'
[ "$(grep -cE '^buckets? [0-9]+.* #+' out)" -le 40 ] || die "more than 40 lines of buckets"
grep -E '^buckets? [0-9]' out | awk 'NF { for (i = 1; i <= NF; i++) if ($i ~ /^#/) break
    if ($(i - 2) < last || $(i - 1) < $(i - 2) || $(i - 3) > $(i - 2)) exit 1; last = $(i - 1) }' ||
    die "a bucket begins before it is full, or before the one ahead is through"
expect_out '^exposed: [0-9]+ us$'

# The figures of the text: 320 calls of 134217728 bytes on NVLink, 17.5 and 140 GB between hosts.
text="estimate $many --model 70b,batch=2 --tp 8 --dp 64 --compute 1200 --bucket 1T --json"
# shellcheck disable=SC2086 # options
expect 0 "$PEAL" $text
expect_json 'j["schema"] == "peal.estimate/1" and j["ranks"] == 512 and j["split"]["dp"] == 64'
expect_json 'abs(j["step"]["text_serial_us"] / 2137496 - 1) < 1e-4'
expect_json 'abs(j["step"]["text_overlap_us"] / 1447300 - 1) < 1e-4'
expect_json 'abs(j["axes"][0]["text_us"] / 533.158 - 1) < 1e-4 and j["axes"][0]["calls"] == 320'
expect_json 'j["step"]["serial_us"] <= j["step"]["text_serial_us"] * 1.001'
expect_json 'len(j["buckets"]) == 1 and j["buckets"][0]["count"] == 1 and j["buckets"][0]["chosen"]'
# shellcheck disable=SC2086
expect 0 "$PEAL" $text --dp-gradient full
expect_json 'abs(j["step"]["text_serial_us"] / 7496870 - 1) < 1e-4'
expect_json 'abs(j["step"]["text_overlap_us"] / 1983240 - 1) < 1e-4'
expect 0 "$PEAL" estimate "$two" --tp 8 --bucket 1G --overlap 0 --json
expect_json 'j["step"]["overlap"] == 0 and j["step"]["overlap_us"] == j["step"]["serial_us"]'

# Every field of an axis, and sums.
expect 0 "$PEAL" estimate "$two" --model mixtral-8x7b,seq=4096,batch=4,micro=4 --tp 2 --sp 2 --pp 2 --ep 2 --zero 3 --bucket 256M --json
expect_json 'all({"axis", "phase", "collective", "ranks", "groups", "calls", "bytes", "call_us", "alpha_us", "total_us", "exposed_us", "text_us", "link_class", "latency_bound", "algorithm", "binding"} <= set(a) for a in j["axes"])'
expect_json '{a["axis"] for a in j["axes"] if a["phase"] == "train"} == {"sp", "ep", "pp", "dp", "edp"}'
expect_json '{a["axis"] for a in j["axes"] if a["phase"] == "decode"} == {"tp", "ep", "pp"}'
expect_json 'all(abs(a["calls"] * a["call_us"] / a["total_us"] - 1) < 1e-9 for a in j["axes"])'
expect_json 'abs(sum(a["total_us"] for a in j["axes"] if a["phase"] == "decode") / j["decode"]["comm_us"] - 1) < 1e-9'
expect_json 'abs(sum(a["exposed_us"] for a in j["axes"] if a["phase"] == "train") + j["step"]["compute_us"] + j["step"]["bubble_us"] - j["step"]["overlap_us"]) < 1e-3'
cp out first
expect 0 "$PEAL" estimate "$two" --model mixtral-8x7b,seq=4096,batch=4,micro=4 --tp 2 --sp 2 --pp 2 --ep 2 --zero 3 --bucket 256M --json
expect_same first out

# Sequences in more parts than tensor parallelism makes: keys and values meet again.
expect 0 "$PEAL" estimate "$two" --model llama-3-8b --tp 4 --sp 8 --scale 8,16 --bucket 1G --json
expect_json 'j["ranks"] == 16 and j["split"]["dp"] == 2 and [p["dp"] for p in j["scale"]] == [1, 2]'
expect_json '[(a["collective"], a["ranks"], a["calls"], a["bytes"]) for a in j["axes"] if a["axis"] == "cp" and not a["alternative"]] == [(c, 2, 32, 2 * 8192 * 1024 * 2 // 4) for c in ("allgather", "reduce-scatter")]'
expect_json 'next(a["ranks"] for a in j["axes"] if a["axis"] == "dp") == 4'
# Around a ring of two: a block there and, with its gradients, back, and those home; beside attention to
# half of the causal pairs of 4096 x 4096 tokens.
expect 0 "$PEAL" estimate "$two" --model llama-3-8b --tp 4 --sp 8 --cp ring --json
expect_json 'j["split"]["cp"] == "ring"'
expect_json '[(a["collective"], a["calls"], a["bytes"]) for a in j["axes"] if a["axis"] == "cp" and not a["alternative"]] == [("sendrecv", 32, b * 2 * 4096 * 1024 * 2 // 4) for b in (1, 2, 1)]'
expect_json '[a["collective"] for a in j["axes"] if a["alternative"]] == ["allgather", "reduce-scatter"]'
expect_json 'abs(j["axes"][2]["beside_us"] / (2 * 4096 * 4096 * 4096 / 4 / 400e6) - 1) < 1e-4'
expect_json 'all(abs(a["exposed_us"] - a["calls"] * max(0, a["call_us"] - a["beside_us"])) < 0.1 for a in j["axes"] if a["axis"] == "cp")'
expect_json 'abs(sum(a["exposed_us"] for a in j["axes"] if a["phase"] == "train" and a["axis"] in ("sp", "cp") and not a["alternative"]) - j["step"]["model_us"]) < 1'
expect 0 "$PEAL" estimate "$two" --model llama-3-8b --tp 4 --sp 8
expect_out '^cp by allgather: [0-9.]+ ms exposed \(text [0-9.]+\); by a ring, beside [0-9.]+ us .*: [0-9.]+ ms \(text [0-9.]+\)'
expect 2 "$PEAL" estimate "$two" --cp star
expect 2 "$PEAL" estimate "$two" --tp 8 --bucket 0
expect_err '--bucket 0'
expect 2 "$PEAL" estimate "$two" --tp 4 --sp 6
expect_err 'a multiple of them'

# Why 800G does not help a token of decoding, and a shorter start-up does.
expect 0 "$PEAL" estimate "$two" --tp 16 --swap net=800
expect_out '^token: tp allreduce, a call .* start-ups$'
expect 0 "$PEAL" estimate "$two" --tp 16 --swap net=800 --json
expect_json 'j["swapped"]["decode"]["comm_us"] > 0.9 * j["decode"]["comm_us"]'
expect 0 "$PEAL" estimate "$two" --tp 16 --swap net=@4.5 --json
expect_json 'j["swapped"]["decode"]["comm_us"] < 0.7 * j["decode"]["comm_us"]'
expect 0 "$PEAL" estimate "$two" --tp 8 --swap net=200,nvlink=225 --bucket 1G --json
expect_json '[round(a["call_us"] / b["call_us"], 1) for a, b in zip(j["swapped"]["axes"], j["axes"])][:2] == [2.0, 2.0]'

# Scaling: where nothing can be hidden, a flat ring of more ranks takes longer.
expect 0 "$PEAL" estimate "$many" --model params=1e9,layers=16,hidden=2048,seq=512 --scale 8,64,512 --bucket 64M --json
expect_json '[p["ranks"] for p in j["scale"]] == [8, 64, 512] and j["ranks"] == 512'
expect_json 'j["scale"][0]["efficiency"] == 1 and j["scale"][2]["efficiency"] < 0.9'
# Both are printed with ten digits.
expect_json 'all(abs(p["throughput"] / (p["efficiency"] * p["ranks"] / 8) - 1) < 1e-8 for p in j["scale"])'
expect 0 "$PEAL" estimate "$many" --model llama-3-8b --scale 8,64 --overlap 0.5 --bucket 1G
expect_out '^ +64 +64 '

# The drawing: well-formed, a bar or two for each line, and nothing left behind by an error.
expect 0 "$PEAL" estimate "$two" --tp 8 --bucket 1G --svg drawing.svg
if command -v python3 >/dev/null; then
    python3 - <<'PY' || die "the drawing is not as it should be"
import xml.etree.ElementTree as tree
root = tree.parse("drawing.svg").getroot()
space = "{http://www.w3.org/2000/svg}"
assert root.tag == space + "svg"
texts = [t.text for t in root.iter(space + "text")]
assert texts[1] == "backward pass" and texts[2:] == ["bucket %d" % i for i in range(17)], texts
bars = [(int(r.get("x")), int(r.get("width")), int(r.get("y"))) for r in root.iter(space + "rect")]
assert bars[0][0] == 130 and all(x >= 130 and x + w <= 931 for x, w, _ in bars), bars
assert len({y for _, _, y in bars}) == 18
starts = [min(x for x, _, y in bars if y == row) for row in sorted({y for _, _, y in bars})[1:]]
assert starts == sorted(starts) and starts[0] > 130, starts
PY
fi
expect 0 "$PEAL" estimate "$two" --tp 8 --bucket 1G --svg again.svg
expect_same drawing.svg again.svg
expect 2 "$PEAL" estimate "$h100" --tp 8 --svg none.svg
expect_err 'no buckets to draw'
[ ! -e none.svg ] || die "a drawing of nothing"

# Bad input.
expect 2 "$PEAL" estimate
expect 3 "$PEAL" estimate nowhere.xml
expect 2 "$PEAL" estimate "$h100" --model gpt-0
expect_err 'there are 70b, '
expect 2 "$PEAL" estimate "$h100" --model layers=2
expect_err 'params, layers and hidden'
expect 2 "$PEAL" estimate "$h100" --model 70b,colour=2
expect 2 "$PEAL" estimate "$h100" --model 70b,layers=two
expect 2 "$PEAL" estimate "$h100" --model 70b,layers=nan
expect 2 "$PEAL" estimate "$h100" --model 70b,dtype=int3
expect 2 "$PEAL" estimate "$h100" --model layers=2,70b
expect 2 "$PEAL" estimate "$h100" --model 70b,
expect 2 "$PEAL" estimate "$h100" --tp 0
expect 2 "$PEAL" estimate "$h100" --tp 16
expect_err 'more than the 8 ranks'
expect 2 "$PEAL" estimate "$h100" --ep 2
expect_err 'no experts'
expect 2 "$PEAL" estimate "$h100" --tp 4 --sp 2
expect 2 "$PEAL" estimate "$h100" --overlap 2
expect 2 "$PEAL" estimate "$h100" --compute 0
expect 2 "$PEAL" estimate "$h100" --dp-gradient half
expect 2 "$PEAL" estimate "$h100" --zero 4
expect 2 "$PEAL" estimate "$h100" --scale 8,7 --tp 2
expect 2 "$PEAL" estimate "$h100" --scale 16
expect 2 "$PEAL" estimate "$h100" --swap net
expect 2 "$PEAL" estimate "$h100" --swap wire=2
expect 2 "$PEAL" estimate "$h100" --swap net=-1
expect 2 "$PEAL" estimate "$h100" --swap net=800@
expect 2 "$PEAL" estimate "$h100" --swap net=800x
expect 2 "$PEAL" estimate host:4 --swap net=800
expect_err 'needs a topology file'
expect 2 "$PEAL" estimate "$h100" -a ring,tree
echo ok
