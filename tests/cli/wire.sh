#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --wire: float32 rounded on its way, only when asked for, by every fabric and engine.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
one=$topologies/dgx-h100.xml
two=$topologies/cluster-h100-2.xml

# Nothing is packed unasked.
expect 0 "$PEAL" plan "$one" --bytes 64M:64M --candidates --json
expect_json 'all(c["algorithm"] != "compressed" for c in j["rows"][0]["candidates"])'
expect 3 "$PEAL" plan "$one" --algorithm compressed
expect_err 'has to be asked for: bf16 or fp8'
expect 2 "$PEAL" plan "$one" --wire fp4
expect_err "'fp4'"
expect 0 "$PEAL" plan "$one" --bytes 64M:64M --wire bf16 --json
expect_json 'j["rows"][0]["algorithm"] == "compressed" and j["rows"][0]["wire"] == "bf16"'
expect 0 "$PEAL" plan "$one" --bytes 64M:64M --wire fp8 --deterministic --json
expect_json 'j["rows"][0]["wire"] is None'

expect 0 "$PEAL" run host:5 --wire fp8 -a compressed -n 2,3,4,5 --collective allreduce,reduce-scatter,allgather --op sum,avg --count 1,31,1000,4099 --placement both --check --json
expect_json 'j["combinations"] == 160 and j["wrong"] == 0'
expect 0 "$PEAL" run "$two" --wire bf16 -a compressed -n 7,9 --collective allreduce,reduce-scatter,allgather --count 1,4099 --tile 1024 --check --chaos 7
expect 0 "$PEAL" run "$two" --wire fp8 -a compressed -n 9 --collective allreduce --count 4099 --check --engine nvlink=ce --chaos 3
expect 0 "$PEAL" run "$topologies/pcie-8gpu.xml" --wire fp8 -a compressed -n 6 --collective allreduce,reduce-scatter,allgather --count 777 --channels 3 --check --chaos 2
expect 0 "$PEAL" run "$topologies/dgx1-v100.xml" --wire bf16 -a compressed --collective allreduce,reduce-scatter,allgather --count 777 --engine nvlink=ce,pcie=ce --check
expect 4 "$PEAL" run host:3 --wire bf16 -a compressed --dtype float16 --check
expect_err 'takes float32, not float16'
expect 4 "$PEAL" run host:3 --wire bf16 -a compressed --op max --check
expect_err 'does not take max'

expect 0 "$PEAL" compile "$two" -n 9 --wire fp8 -a compressed --bytes 8:64K -o p.peal
expect 0 "$PEAL" verify p.peal
expect_out '^row 0: fp8 on the wire, each contribution rounded at most 2 times$'
expect 0 "$PEAL" run p.peal --count 5000 --check
expect 0 "$PEAL" dump p.peal -o p.txt
expect 0 "$PEAL" asm p.txt -o q.peal
expect_same p.peal q.peal
expect 2 "$PEAL" run p.peal --wire bf16
# An owner that keeps its sum as it was, and a rank that takes packed bytes for elements.
awk '/unpack/ && !gone { gone = 1; next } { print }' p.txt >bad.txt
expect 1 "$PEAL" verify bad.txt
expect_out 'numbers: out\[0\]'
sed 's/^\( *\)unpack \(.*\) sm$/\1copy \2 sm/' p.txt >bad.txt
expect 3 "$PEAL" verify bad.txt
expect_err 'a move between wire slots and others; pack or unpack it'
# A contribution that is taken twice.
sed 's/^\( *\)reduce c0: in\[0\] s\([0-9]*\)\[0\] s[0-9]*\[1\]/\1reduce c0: in[0] s\2[0] s\2[0]/' p.txt >bad.txt
expect 1 "$PEAL" verify bad.txt
