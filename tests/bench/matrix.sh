#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The full verification matrix: every algorithm, every collective, every number of ranks, on
# machines of several kinds, each plan proven as peal compile does it.
#
#   matrix.sh PEAL
#
# MACHINES: which (loads dgx pcie mesh small); RANKS: how many ranks (all of 2..17, then 24, 31, 32,
#   33, 48, 63 and 64); ALGORITHMS, COLLECTIVES: which (all);
# LIMIT: seconds for one table of plans (120): what takes longer is listed, and no failure.
# One line for each machine, algorithm and collective; what an algorithm does not serve is left out.
# Exit code 1: a plan could not be made or proven.
set -u
peal=$(realpath "${1:?usage: matrix.sh PEAL}")
cd "$(dirname "$0")/../.."
machines=${MACHINES:-loads dgx pcie mesh small}
ranks=${RANKS:-$(seq 2 17) 24 31 32 33 48 63 64}
algorithms=${ALGORITHMS:-$(sed -n 's/^ALGORITHM([A-Z_]*, \([a-z_]*\))/\1/p' \
    compiler/algorithms.def | tr _ -)}
collectives=${COLLECTIVES:-$(sed -n 's/^X(PEAL_\([A-Z_]*\),.*/\1/p' plan/collectives.def |
    tr A-Z_ a-z-)}
limit=${LIMIT:-120}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
all_plans=0 all_failed=0 all_slow=0 began=$SECONDS

cluster() { # cluster NAME HOSTS TOPOLOGY
    cat >"$out/$1.xml" <<XML
<peal version="1" name="$1"><host name="h" count="$2" topology="$PWD/examples/topologies/$3.xml"/>
<network kind="rails"/></peal>
XML
}
cluster dgx 8 dgx-h100
cluster pcie 8 pcie-8gpu
cluster small 16 slingshot-4gpu

# A ring through all ranks as they are numbered, and a tree along it, as NCCL writes them.
graph() { # graph RANKS
    local id r
    echo '<graphs version="1">'
    for id in 0 1; do
        echo "<graph id=\"$id\" pattern=\"4\"><channel>"
        for ((r = 0; r < $1; r++)); do echo "<gpu rank=\"$r\"/>"; done
        echo '</channel></graph>'
    done
    echo '</graphs>'
}

topology() { # topology MACHINE RANKS: empty where there are not as many
    case $1 in
    loads) echo "host:$2" ;;
    mesh) [ "$2" -gt 8 ] || echo examples/topologies/dgx1-v100.xml ;;
    *) echo "$out/$1.xml" ;;
    esac
}

# 0: proven, and how many in $plans; 3: not served; else failed or too slow
prove() { # prove TOPOLOGY ALGORITHM COLLECTIVE RANKS OPTIONS...
    local topology=$1 rc
    shift
    local command=("$peal" compile "$topology" -a "$1" -c "$2" -n "$3" "${@:4}" -o "$out/plan")
    case $1 in nccl-*)
        graph "$3" >"$out/graph.xml"
        command+=(--nccl-graph "$out/graph.xml")
        ;;
    esac
    timeout "$limit" "${command[@]}" >"$out/said" 2>&1
    rc=$?
    plans=$(sed -n 's/.* ranks, \([0-9]*\) plans, each proven$/\1/p' "$out/said")
    if [ $rc = 0 ] && [ -n "$plans" ]; then return 0; fi
    if [ $rc = 3 ] && grep -qE 'no algorithm serves|serves at most' "$out/said"; then return 3; fi
    if [ $rc = 124 ]; then
        echo "more than $limit s: ${command[*]}"
        return 124
    fi
    echo "failed ($rc): ${command[*]}"
    tail -n 3 "$out/said"
    return 1
}

line() { # line MACHINE ALGORITHM COLLECTIVE
    local n root sum=0 failed=0 slow=0 start=$SECONDS topology most=0 mode
    for n in $ranks; do
        topology=$(topology "$1" "$n")
        [ -n "$topology" ] || continue
        case $3 in
        broadcast | reduce | scatter | gather) root=(--root $((n / 3))) ;;
        *) root=() ;;
        esac
        # All sizes as the planner cuts them; a message of many tiles.
        for mode in "-b 8:8G" "-b 4M:4M --tile 4K"; do
            # shellcheck disable=SC2086
            prove "$topology" "$2" "$3" "$n" "${root[@]}" $mode
            case $? in
            0) sum=$((sum + plans)) most=$n ;;
            3) ;;
            124) slow=$((slow + 1)) ;;
            *) failed=$((failed + 1)) ;;
            esac
        done
    done
    [ $((sum + failed + slow)) = 0 ] || printf \
        '%-6s %-13s %-15s to %2d ranks %6d plans proven %5d s  %d failed  %d too slow\n' "$1" "$2" \
        "$3" "$most" "$sum" $((SECONDS - start)) "$failed" "$slow"
    all_plans=$((all_plans + sum)) all_failed=$((all_failed + failed))
    all_slow=$((all_slow + slow))
}

for machine in $machines; do
    for algorithm in $algorithms; do
        case $algorithm in nccl-*) [ "$machine" = loads ] || continue ;; esac
        for collective in $collectives; do
            line "$machine" "$algorithm" "$collective"
        done
    done
done
echo "in all: $all_plans plans proven, $all_failed failed, $all_slow too slow," \
    "$((SECONDS - began)) s"
[ $all_failed = 0 ]
