#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest: plain
# peal fit and peal compare: tables in, lines, profiles, predictions and causes of loss out.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
h100=$topologies/dgx-h100.xml
two=$topologies/cluster-h100-2.xml
seeds=$PEAL_SOURCE/tests/fuzz/corpus/measured

# 20 us and 100 GB/s, as a table of columns.
{
    printf 'bytes\ttime_us\tcollective\tranks\tnodes\tsystem\n'
    for ((b = 1024; b <= 1 << 30; b *= 4)); do
        awk "BEGIN { printf \"%d\t%.6f\tallreduce\t8\t1\tm\n\", $b, 20 + $b / 100e3 }"
    done
} >table.tsv
expect 0 "$PEAL" fit table.tsv
expect_out 'alpha 20.0 us, beta 100 GB/s, S\* = alpha x beta = .* bytes: below it latency-bound'
expect_out '1 line, 2 parameters'
expect 0 "$PEAL" fit table.tsv --json
expect_json 'j["schema"] == "peal.fit/1" and len(j["series"]) == 1'
expect_json '(lambda s: abs(s["alpha_us"] - 20) < 1e-3 and abs(s["beta_gbs"] - 100) < 1e-2)(j["series"][0])'
expect_json 'all(p["latency_bound"] == (p["bytes"] < 2000000) for p in j["series"][0]["points"])'
expect 0 "$PEAL" fit table.tsv --hold-out --json
expect_json 'j["series"][0]["predicted"]["error"] < 1e-4 and j["series"][0]["predicted"]["points"] == 5'

# From one series to others of the same machine.
sed '1!s/allreduce/allgather/' table.tsv >other.tsv
expect 0 "$PEAL" fit table.tsv other.tsv --from m/allreduce/8/1 --json
expect_json 'j["series"][1]["predicted"]["points"] == 11 and "predicted" not in j["series"][0]'
expect_json '0.2 < j["series"][1]["predicted"]["error"] < 1'
expect 2 "$PEAL" fit table.tsv --from nothing
expect_err 'no series'

# Profiles that load: of ranks in one memory, of one host's file, of several.
expect 0 "$PEAL" fit table.tsv --link shm -o shm.xml
expect_out 'alpha 20'
expect 0 "$PEAL" topo shm.xml --json
expect_json 'len(j["ranks"]) == 8'
expect 0 "$PEAL" fit table.tsv --link nvlink --topology "$h100" -o fitted.xml
grep -q 'cost link="nvlink" alpha-us="3.333" beta-gbs="175"' fitted.xml || die "the cost of NVLink"
expect 0 "$PEAL" plan fitted.xml --bytes 1G
sed '1!s/\t8\t1\t/\t16\t2\t/' table.tsv >two.tsv
expect 0 "$PEAL" fit two.tsv --topology "$h100" -o net.xml
grep -q 'cost link="net" alpha-us="2.5" beta-gbs="12.5"' net.xml || die "the cost of the network"
expect 0 "$PEAL" topo net.xml --json
expect_json 'len(j["ranks"]) == 16 and len({r["node"] for r in j["ranks"]}) == 2'
expect 3 "$PEAL" fit two.tsv --topology "$two" -o no.xml
expect 3 "$PEAL" fit table.tsv -o no.xml
expect_err 'what class of links'
[ ! -e no.xml ] || die "a profile of nothing"
for profile in "$PEAL_SOURCE"/examples/profiles/*.xml; do
    expect 0 "$PEAL" plan "$profile" --bytes 1M:1G
done

# What bench writes, both ways.
expect 0 "$PEAL" bench host:2 --sizes 8:64K --iters 3 -o bench.txt
expect 0 "$PEAL" bench host:2 --sizes 8:64K --iters 3 --json -o bench.json
expect 0 "$PEAL" fit bench.txt bench.json --segments 1 --json
expect_json '[(s["collective"], s["ranks"], s["link"]) for s in j["series"]] == 2 * [("allreduce", 2, "shm")]'
expect 0 "$PEAL" fit "$seeds/nccl.txt" "$seeds/osu.txt" --json
expect_json '[s["sizes"] for s in j["series"]] == [4, 4, 2]'
expect 0 "$PEAL" fit - --json <"$seeds/osu.txt"

# What nccl-tests write as JSON; blocks, whose number is the command line's to say.
cat >nccl.json <<'EOF'
{"version": 1, "args": ["./build/all_reduce_perf", "-b", "8"],
 "config": {"devices": [{"rank": 0, "hostname": "a"}, {"rank": 1, "hostname": "b"}]},
 "results": [{"size": 8, "out_of_place": {"time": 12.5}, "in_place": {"time": 13.0}},
             {"size": 1048576, "out_of_place": null, "in_place": {"time": 130.0}}]}
EOF
expect 0 "$PEAL" fit nccl.json --json
expect_json '(lambda s: (s["collective"], s["ranks"], s["nodes"]))(j["series"][0]) == ("allreduce", 2, 2)'
expect_json '[p["time_us"] for p in j["series"][0]["points"]] == [12.5, 130]'
sed -i 's/"out_of_place": null, "in_place": {"time": 130.0}/"out_of_place": {"cpu_time": 1}/' nccl.json
expect 3 "$PEAL" fit nccl.json
expect_err 'nccl.json:1: error: result 1: no size, or no time'
printf '# OSU MPI Allgather Latency Test v7.3\n# Size Avg Latency(us)\n1024 20\n1048576 400\n' >osu.txt
expect 0 "$PEAL" fit osu.txt --json
expect_err 'sizes are those of a block'
expect 0 "$PEAL" fit osu.txt --ranks 8 --json
expect_json '[p["bytes"] for p in j["series"][0]["points"]] == [8192, 8388608]'
expect 0 "$PEAL" compare "$two" osu.txt --json
expect_json '[s["bytes"] for s in j["sizes"]] == [16384, 16777216]'

# This machine.
expect 0 "$PEAL" fit --measure --sizes 4:64K
expect_out '^loopback TCP: 15 sizes'
expect_out '^cuda: absent; rdma: absent'
expect 0 "$PEAL" fit --measure --sizes 4:1K --segments 1 -o host.xml
expect 0 "$PEAL" plan host.xml --bytes 8:1M

# More ranks than most machines have cores: what they do in one memory, and a plan of it that runs.
expect 0 "$PEAL" fit --measure --ranks 3 --sizes 4:4K -o three.xml
expect_out '^memory, 3 ranks: a call takes [0-9.]+ us and [0-9.]+ us a step'
grep -q '<rate use="load" bytes="[0-9]*" gbs="[0-9.]*"/>' three.xml || die "no rate of loads"
grep -q '<rate use="store" ' three.xml || die "no rate of stores"
grep -q '<rate use="exchange" ' three.xml || die "no rate of exchanges"
grep -q '<call collective="alltoall" algorithm="pull" ' three.xml || die "no calls of pull"
# What was timed is predicted, and the fastest is chosen.
expect 0 "$PEAL" plan three.xml -c alltoall --bytes 12 --candidates --json
cp out planned.json
expect_json '(lambda r: r["time_us"] <= 1.0001 * min(c["time_us"] for c in r["candidates"]))(j["rows"][0])'
python3 - three.xml planned.json <<'EOF' || die "a time that was measured is not predicted"
import json, sys
from xml.etree import ElementTree
calls = ElementTree.parse(sys.argv[1]).iter("call")
least = min(float(c[0].get("us")) for c in calls if c.get("collective") == "alltoall")
assert abs(json.load(open(sys.argv[2]))["rows"][0]["time_us"] - least) <= 0.02 * least
EOF
expect 0 "$PEAL" topo three.xml --json
expect_json 'len(j["ranks"]) == 3'
expect 0 "$PEAL" run three.xml --bytes 4K --check
expect 2 "$PEAL" fit --measure --ranks 1 --sizes 4:4K -o no.xml
[ ! -e no.xml ] || die "half a profile"

# Errors have a place.
expect 3 "$PEAL" fit "$seeds/short.tsv"
expect_err 'short.tsv:3: error: 1 columns'
expect 3 "$PEAL" fit "$seeds/row.txt"
expect_err 'row.txt:2: error: '
echo '{"schema": "peal.bench/1", "rows": [{}]}' >bad.json
expect 3 "$PEAL" fit bad.json
expect_err 'bad.json:1: error: row 0'
printf '{\n"rows": ' >bad.json
expect 3 "$PEAL" fit bad.json
expect_err 'bad.json:2:'
expect 3 "$PEAL" fit /nonexistent
expect 2 "$PEAL" fit
expect 2 "$PEAL" fit table.tsv --segments 5
expect 2 "$PEAL" fit table.tsv --hold-out --from x
expect 2 "$PEAL" fit --measure table.tsv
expect 2 "$PEAL" fit --measure --sizes 0:8

# ---- compare
command -v python3 >/dev/null || exit 0
sizes=$(for ((b = 1024; b <= 1 << 30; b *= 4)); do echo $b; done)
{
    printf 'bytes\ttime_us\tcollective\n'
    for b in $sizes; do printf '%d\t1\tallreduce\n' "$b"; done
} >ones.tsv
expect 0 "$PEAL" compare "$two" ones.tsv --json
cp out predicted.json
made() { # made FILE EXPRESSION over t and b: a table of predictions with that done to them
    python3 -c '
import json, sys
print("bytes\ttime_us\tcollective")
for s in json.load(open("predicted.json"))["sizes"]:
    t, b = s["predicted_us"], s["bytes"]
    print(b, eval(sys.argv[1]), "allreduce", sep="\t")' "$2" >"$1"
}
made same.tsv t
expect 0 "$PEAL" compare "$two" same.tsv
expect_out 'sizes take at most 1.25 times the prediction'
grep -qE '^- ' out && die "losses where there are none"
expect 0 "$PEAL" compare "$two" same.tsv --json
expect_json 'j["schema"] == "peal.compare/1" and all(s["loss"] == "none" and abs(s["ratio"] - 1) < 1e-6 for s in j["sizes"])'
expect_json 'all(s["bound_us"] <= s["predicted_us"] * 1.000001 for s in j["sizes"])'
made nic.tsv 't if b < 1 << 24 else t * 8 / 7'
expect 0 "$PEAL" compare "$two" nic.tsv
expect_out 'as if 1 of the 8 NICs of a host were missing'
made floor.tsv 't + 60'
expect 0 "$PEAL" compare "$two" floor.tsv
expect_out '^- small sizes: a latency floor'
expect 0 "$PEAL" compare "$two" floor.tsv --json
expect_json 'j["sizes"][0]["loss"] == "latency" and j["sizes"][-1]["loss"] == "none" and j["missing_nics"] == 0'
made bump.tsv 't * (3 if 1 << 18 <= b <= 1 << 22 else 1)'
expect 0 "$PEAL" compare "$two" bump.tsv --json
expect_json 'j["wrong_algorithm"] == [{"min_bytes": 1 << 18, "max_bytes": 1 << 22, "as_if": None}]'
expect 0 "$PEAL" compare "$two" bump.tsv
expect_out '^- 256K to 4M: slower than the sizes on both sides'
made slower.tsv 't * 1.1'
expect 0 "$PEAL" compare "$two" slower.tsv
expect_out '^- all sizes alike: 1.10 times the prediction'
grep -q 'missing' out && die "a NIC is missing where all is slower alike"
expect 0 "$PEAL" compare "$two" slower.tsv --json
expect_json '1.09 < j["alike_ratio"] < 1.11 and j["missing_nics"] == 0'
# What another algorithm takes, in a range and from there on: it is named.
expect 0 "$PEAL" compare "$two" ones.tsv -a ring --json
cp out forced.json
ring='{s["bytes"]: s["predicted_us"] for s in json.load(open("forced.json"))["sizes"]}[b]'
made ring.tsv "$ring if 1 << 16 <= b <= 1 << 22 else t"
expect 0 "$PEAL" compare "$two" ring.tsv --json
expect_json 'j["wrong_algorithm"] == [{"min_bytes": 1 << 16, "max_bytes": 1 << 22, "as_if": "ring"}]'
expect 0 "$PEAL" compare "$two" ring.tsv
expect_out '^- 64K to 4M: the wrong algorithm: the times are those of ring \(peal plans '
expect 2 "$PEAL" compare "$two"
expect 2 "$PEAL" compare "$two" "$seeds/osu.txt" --series nothing
expect 3 "$PEAL" compare "$h100" two.tsv
expect_err 'is of 16 ranks, the topology has 8'
cut -f 1,2 ones.tsv >nameless.tsv
expect 2 "$PEAL" compare "$two" nameless.tsv
expect_err '--collective does'
expect 0 "$PEAL" compare "$two" nameless.tsv -c allgather

# Ranks of processes are compared with what their buffers cost; and what a call takes has an end.
cat >calls.xml <<'XML'
<peal version="1"><host ranks="2"/><cost link="shm" alpha-us="0.3" beta-gbs="10" gap-us="0"/><memory>
<rate use="load" bytes="1024" gbs="1"/><rate use="store" bytes="1024" gbs="1"/>
<rate use="exchange" bytes="1024" gbs="1"/>
<call collective="allreduce" algorithm="twoshot"><time bytes="65536" us="2"/></call>
<call collective="allreduce" algorithm="twoshot" buffers="private"><time bytes="65536" us="10"/></call>
<call collective="broadcast" algorithm="tree"><time bytes="1" us="1000000000"/></call>
</memory></peal>
XML
printf 'bytes\ttime_us\tcollective\n65536\t10\tallreduce\n' >one.tsv
expect 0 "$PEAL" compare calls.xml one.tsv --json
expect_json 'j["sizes"][0]["predicted_us"] == 2'
expect 0 "$PEAL" compare calls.xml one.tsv --private --json
expect_json 'j["sizes"][0]["predicted_us"] == 10'
expect 0 "$PEAL" dump calls.xml -c broadcast -a tree --bytes 1:1G
expect_out 'predicted_ps 1000000000000000000 '
# Whose buffers were measured is what the text says, and if it does not, what is taken is told.
printf 'bytes\ttime_us\tcollective\tbuffers\n65536\t10\tallreduce\tprivate\n' >private.tsv
expect 0 "$PEAL" compare calls.xml private.tsv --json
expect_json 'j["sizes"][0]["predicted_us"] == 10 and j["buffers"] == "private" and j["buffers_from"] == "text"'
expect 0 "$PEAL" compare calls.xml one.tsv
expect_out '^buffers: the text does not say'
for buffers in private shared; do
    printf '# peal 1, allreduce by 2 processes (pinned), %s buffers, sizes 64K\n# size time\n65536 10\n' \
        $buffers >bench.txt
    expect 0 "$PEAL" compare calls.xml bench.txt
    expect_out "^buffers: $buffers, as the text says"
done
for placed in "--threads shared" "--procs private" "--procs --registered shared"; do
    # shellcheck disable=SC2086 # two options, or one
    expect 0 "$PEAL" bench host:2 --sizes 64K --iters 1 --placement out ${placed% *} --json
    cp out bench.json
    expect 0 "$PEAL" compare calls.xml bench.json --json
    expect_json "j['buffers'] == '${placed##* }' and j['buffers_from'] == 'text'"
done
