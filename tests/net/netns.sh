#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Hosts as network namespaces: 2 and 4 of them with two ranks each, joined by a bridge, each with
# a token bucket on what it sends. Results are compared; the time of a ring, well and badly
# ordered, over that of the hierarchical schedule is printed beside the predicted ratio, and has to
# reach nine tenths of it; what the planner chooses has to come within a tenth of the best of all.
# PEAL_NETNS="HOSTS:GBITS ...": which of them; PEAL_NETNS_STRICT=1: a miss is a failure.
# ctest: slow
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
tag=pl$$
port=29533
export PEAL_JOB_KEY=netns
size=${PEAL_NETNS_BYTES:-16M}

skip() {
    echo "skipped: $*"
    exit 77
}
[ "$(id -u)" = 0 ] || skip "takes root, for network namespaces"
command -v ip >/dev/null && command -v tc >/dev/null || skip "no ip and tc here"
ip netns add "$tag-b" 2>/dev/null || skip "network namespaces are not to be had"
# shellcheck disable=SC2317 # a trap
clean() {
    for ns in $(ip netns list | awk -v tag="$tag-" 'index($1, tag) == 1 {print $1}'); do
        ip netns del "$ns"
    done
    rm -rf "$scratch"
}
trap clean EXIT

# hosts N RATE: namespaces $tag-0 ... on 10.77.0.1 ... What waits for the token bucket has the same
# room at every rate, and congestion is controlled as most systems do it, whatever this one has set:
# predictions know nothing of packets that are dropped, nor of flows that feel their way (bbr).
hosts() {
    local i ns
    ip -n "$tag-b" link add name bridge0 type bridge 2>/dev/null || true
    ip -n "$tag-b" link set dev bridge0 up
    for ((i = 0; i < $1; i++)); do
        ns=$tag-$i
        ip netns add "$ns"
        ip link add e0 netns "$ns" type veth peer name "v$i" netns "$tag-b"
        ip -n "$ns" addr add "10.77.0.$((i + 1))/24" dev e0
        ip -n "$ns" link set e0 up
        ip -n "$ns" link set lo up
        ip -n "$ns" route replace 10.77.0.0/24 dev e0 src "10.77.0.$((i + 1))" congctl cubic || true
        ip -n "$tag-b" link set dev "v$i" master bridge0 up
        if ! ip netns exec "$ns" tc qdisc add dev e0 root tbf rate "$2" burst 256kb limit 25mb; then
            skip "no token buckets in this kernel"
        fi
    done
}
unhost() {
    local i
    # A namespace is taken down when nobody looks, and its end of the wire lasts so long.
    for ((i = 0; i < $1; i++)); do
        ip -n "$tag-b" link del dev "v$i"
        ip netns del "$tag-$i"
    done
}

# ranks "HOST HOST ..." PLAN ARG...: a rank in each named namespace; time in $us.
ranks() {
    local on r pids=()
    read -ra on <<<"$1"
    shift
    for ((r = 0; r < ${#on[@]}; r++)); do
        ip netns exec "$tag-${on[r]}" env MASTER_ADDR=10.77.0.1 MASTER_PORT=$port RANK=$r \
            WORLD_SIZE=${#on[@]} PEAL_HOST_ID="n${on[r]}" "$PEAL" run "$@" --check --json \
            --timeout 60000 >"out.$r" 2>"err.$r" &
        pids+=($!)
    done
    for ((r = 0; r < ${#on[@]}; r++)); do
        wait "${pids[r]}" || { cp "err.$r" err && die "rank $r of $*"; }
    done
    us=$(python3 -c 'import json; print(json.load(open("out.0")).get("time_best_us", 0))')
}

predicted() { # predicted ARG...: of a topology, in us; ranks are processes with buffers of their own
    "$PEAL" plan "$@" --private --bytes "$size:$size" --json |
        python3 -c 'import json,sys; print(json.load(sys.stdin)["rows"][0]["time_us"])'
}

slow() {
    [ "${PEAL_NETNS_STRICT:-0}" != 1 ] || die "$*"
    echo "  (here and now: $*)"
}

row() { # row NAME MEASURED PREDICTED [HIER HIER-PREDICTED]: of times in us
    python3 -c '
import sys
name, (m, p), hier = sys.argv[1], map(float, sys.argv[2:4]), list(map(float, sys.argv[4:]))
line, code = f"  {name:22}  {m / 1e3:7.0f}  {p / 1e3:9.0f}", 0
if hier:
    ratio, wanted = m / hier[0], p / hier[1]
    line += f"  {ratio:5.2f}  {wanted:9.2f}  {ratio / wanted:6.3f}"
    code = 0 if ratio >= 0.9 * wanted else 1
print(line)
sys.exit(code)' "$@" || slow "$1: less than 0.9 of the predicted ratio"
}

for case in ${PEAL_NETNS:-2:0.2 4:0.2 2:1 4:1}; do
    n=${case%:*}
    rate=${case#*:}
    cat >net.xml <<XML
<peal version="1" name="net">
  <host name="n" count="$n" ranks="2"><nic name="e0" speed-gbits="$rate" rdma="no"/></host>
  <network kind="leaf-spine" latency-us="30"/>
</peal>
XML
    well=$(seq -s' ' 0 $((n - 1)) | sed 's/[0-9]*/& &/g')
    worst=$(seq -s' ' 0 $((n - 1)))
    worst="$worst $worst"
    badly=$(seq -s, 0 2 $((2 * n - 2))),$(seq -s, 1 2 $((2 * n - 1)))
    hosts "$n" "$(python3 -c "print(int($rate * 1000))")mbit"
    echo "$n hosts, $rate Gbit/s, allreduce of $size by $((2 * n)) ranks"
    echo "                          time ms  predicted  ratio  predicted   share"
    # Doubles: half as many elements to compare. The ring's calls take long, and differ less.
    best=(--dtype float64 --iters 3 --warmup 0)
    few=(--dtype float64 --iters 2 --warmup 0)
    ranks "$well" net.xml --bytes "$size" --algorithm hierarchical "${best[@]}"
    hier=$us
    hier_predicted=$(predicted net.xml --algorithm hierarchical)
    row hierarchical "$hier" "$hier_predicted"
    ranks "$well" net.xml --bytes "$size" --algorithm ring "${few[@]}"
    ring=$us
    row "ring, well ordered" "$ring" "$(predicted net.xml --algorithm ring)" "$hier" \
        "$hier_predicted"
    ranks "$worst" net.xml --bytes "$size" --algorithm ring --group "$badly" "${few[@]}"
    row "ring, badly ordered" "$us" "$(predicted net.xml --algorithm ring --group "$badly")" \
        "$hier" "$hier_predicted"
    ranks "$well" net.xml --bytes "$size" "${best[@]}"
    row "as planned" "$us" "$(predicted net.xml)"
    python3 -c '
import sys
us, *others = map(float, sys.argv[1:])
print(f"  as planned: {us / min(others):.2f} of the best above")
sys.exit(0 if us <= 1.1 * min(others) else 1)' "$us" "$hier" "$ring" ||
        slow "the planner's choice is not the best"
    [ "$rate" = 1 ] && ranks "$well" net.xml --collective all --count 0,1,1000,100003
    unhost "$n"
done
