#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The full verification matrix: every algorithm, every collective, every number of ranks from 2 to
# 64, on machines of several kinds, each plan proven as peal compile does it.
#
#   matrix.sh PEAL
#
# MACHINES: which (loads mesh torus switch nvls dgx hosts pcie small); RANKS: how many ranks, of those
#   that a machine is tried with (all); ALGORITHMS, COLLECTIVES: which (all; custom is a script's);
# PART: I/N, the I-th of N parts (1/1): each takes every N-th line of what is left;
# LIMIT: seconds for one table of plans (300): what takes longer is listed, and no failure.
# One line for each machine, algorithm and collective; what an algorithm does not serve is left out.
# Stopped by a signal, it tells what it has.
# Exit code 1: a plan could not be made or proven.
#
# What is left out is what would repeat itself: all numbers of ranks are taken on one host of loads
# and stores (all algorithms that serve it), on hosts of equally many accelerators (those that need
# several hosts) and behind one switch of accelerators (packed); elsewhere all up to 17, and powers
# of two, their neighbours and whole hosts beyond. On one host what does not serve any of 2 to 9
# ranks serves no more.
set -u
peal=$(realpath "${1:?usage: matrix.sh PEAL}")
cd "$(dirname "$0")/../.." || exit
machines=${MACHINES:-loads mesh torus switch nvls dgx hosts pcie small}
algorithms=${ALGORITHMS:-$(sed -n 's/^ALGORITHM([A-Z_]*, \([a-z_]*\))/\1/p' \
    compiler/algorithms.def | tr _ -)}
collectives=${COLLECTIVES:-$(sed -n 's/^X(PEAL_\([A-Z_]*\),.*/\1/p' plan/collectives.def |
    tr A-Z_ a-z- | grep -vx custom)}
limit=${LIMIT:-300}
part=${PART:-1/1}
turn=0
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
began=$SECONDS
declare -A plans_of failed_of slow_of seconds_of

cluster() { # cluster NAME HOSTS TOPOLOGY
    cat >"$out/$1.xml" <<XML
<peal version="1" name="$1"><host name="h" count="$2" topology="$PWD/examples/topologies/$3.xml"/>
<network kind="rails"/></peal>
XML
}
cluster dgx 8 dgx-h100
cluster pcie 8 pcie-8gpu
cluster small 16 slingshot-4gpu

accelerator() { # accelerator INDEX LINKS...: its links, each to INDEX or switch
    local id link
    printf -v id '0000:%02x:00.0' "$1"
    echo "<pci busid=\"$id\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">"
    echo "<gpu dev=\"$1\" sm=\"90\" rank=\"$1\" gdr=\"1\">"
    for link in "${@:2}"; do
        case $link in
        switch) echo '<nvlink target="0001:c7:00.0" count="18" tclass="0x068000"/>' ;;
        *) printf '<nvlink target="0000:%02x:00.0" count="2" tclass="0x030200"/>\n' "$link" ;;
        esac
    done
    echo '</gpu></pci>'
}

# NAME COUNT ACCELERATORS SIDE: so many hosts of accelerators behind one switch, or of a torus
hosts() {
    local i j side=$4
    echo "<peal version=\"1\" name=\"$1\"><host name=\"h\" count=\"$2\"><system version=\"1\">"
    echo '<cpu numaid="0" affinity="ffff" arch="x86_64" vendor="AuthenticAMD" familyid="25"' \
        'modelid="1">'
    for ((i = 0; i < $3; i++)); do
        if [ "$side" = 0 ]; then
            accelerator "$i" switch
            continue
        fi
        j=$((i / side))
        accelerator "$i" $((j * side + (i + 1) % side)) $((j * side + (i + side - 1) % side)) \
            $(((i + side) % (side * side))) $(((i + side * side - side) % (side * side)))
    done
    echo '<pci busid="0000:f9:00.0" class="0x020700" link_speed="32.0 GT/s PCIe"' \
        'link_width="16"><nic><net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x1"' \
        'gdr="1"/></nic></pci></cpu></system></host>'
    [ "$2" = 1 ] || echo '<network kind="rails"/>'
    echo '</peal>'
}
hosts switch 1 64 0 >"$out/switch.xml"
sed 's/<host /<host multicast="yes" /' "$out/switch.xml" >"$out/nvls.xml"
hosts torus4 1 16 4 >"$out/torus4.xml"
hosts torus8 1 64 8 >"$out/torus8.xml"

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

# The most ranks of a host, up to 8, of which RANKS are several equal hosts; 1: of none
equal_hosts() { # equal_hosts RANKS
    local l
    for ((l = 8; l > 1; l--)); do
        if [ $(($1 % l)) = 0 ] && [ "$1" -gt $l ]; then break; fi
    done
    echo $l
}

sample="$(echo {2..17}) 24 31 32 33 48 63 64"

# The numbers of ranks of which an algorithm is tried on a machine.
ranks_of() { # ranks_of MACHINE ALGORITHM
    case $1 in
    loads) seq 2 64 ;;
    mesh) seq 2 8 ;;
    torus) echo 2 4 8 12 16 17 31 32 48 64 ;;
    pcie) echo "$(seq 2 9) 12 15 16 17 24 31 32 33 63 64" ;;
    hosts) case $2 in twohop | hierarchical) seq 4 64 ;; esac ;;
    small) echo 5 8 12 13 16 24 32 48 64 ;;
    nvls) case $2 in nvls) seq 2 64 ;; esac ;;
    dgx) echo "$sample" ;;
    switch) case $2 in packed) seq 3 64 ;; *) echo "$sample" ;; esac ;;
    esac
}

topology() { # topology MACHINE RANKS: empty where there are not as many
    local l
    case $1 in
    loads) echo "host:$2" ;;
    mesh) echo examples/topologies/dgx1-v100.xml ;;
    torus) if [ "$2" -le 16 ]; then echo "$out/torus4.xml"; else echo "$out/torus8.xml"; fi ;;
    hosts)
        l=$(equal_hosts "$2")
        [ "$l" -gt 1 ] || return
        [ -e "$out/hosts$2.xml" ] || hosts hosts $(($2 / l)) "$l" 0 >"$out/hosts$2.xml"
        echo "$out/hosts$2.xml"
        ;;
    pcie) if [ "$2" -le 8 ]; then echo examples/topologies/pcie-8gpu.xml; else
        echo "$out/pcie.xml"; fi ;;
    *) echo "$out/$1.xml" ;;
    esac
}

# 0: proven, and how many in $plans; 3: not served; else failed or too slow
prove() { # prove TOPOLOGY ALGORITHM COLLECTIVE RANKS OPTIONS...
    local topology=$1 rc
    shift
    local command=("$peal" compile "$topology" -a "$1" -c "$2" -n "$3" "${@:4}" -o "$out/plan")
    case $1 in nccl-*)
        [ -e "$out/graph$3.xml" ] || graph "$3" >"$out/graph$3.xml"
        command+=(--nccl-graph "$out/graph$3.xml")
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

# All sizes as the planner cuts them; a message of many tiles; both wires; lists of pairs.
modes() { # modes MACHINE ALGORITHM COLLECTIVE RANKS
    if [ "$1" = loads ] && [[ " $sample " != *" $4 "* ]]; then
        if [ "$2" = compressed ]; then echo '-b 8:8G --wire bf16'; else echo '-b 8:8G'; fi
        return
    fi
    case $2/$3 in
    compressed/*) printf '%s\n' '-b 8:8G --wire bf16' '-b 4M:4M --tile 4K --wire fp8' ;;
    */barrier) echo '-b 8:8G' ;;
    */sendrecv) printf '%s\n' '-b 8:8G' '-b 4M:4M --tile 4K --shift 1,-1' ;;
    *) printf '%s\n' '-b 8:8G' '-b 4M:4M --tile 4K' ;;
    esac
}

line() { # line MACHINE ALGORITHM COLLECTIVE
    local n root sum=0 failed=0 slow=0 start=$SECONDS topology most=0 mode list tried=no
    for n in $(ranks_of "$1" "$2"); do
        [[ " ${RANKS:-$n} " == *" $n "* ]] || continue
        case $1 in loads | switch) [ "$n" -lt 10 ] || [ "$tried" = no ] ||
            [ $((sum + failed + slow)) -gt 0 ] || break ;; esac
        tried=yes
        topology=$(topology "$1" "$n")
        [ -n "$topology" ] || continue
        case $3 in
        broadcast | reduce | scatter | gather) root=(--root $((n / 3))) ;;
        *) root=() ;;
        esac
        mapfile -t list < <(modes "$1" "$2" "$3" "$n")
        for mode in "${list[@]}"; do
            # shellcheck disable=SC2086
            prove "$topology" "$2" "$3" "$n" "${root[@]}" $mode
            case $? in
            0) sum=$((sum + plans)) most=$n ;;
            3) break ;;
            124) slow=$((slow + 1)) ;;
            *) failed=$((failed + 1)) ;;
            esac
        done
    done
    [ $((sum + failed + slow)) = 0 ] || printf \
        '%-6s %-13s %-15s to %2d ranks %6d plans proven %5d s  %d failed  %d too slow\n' "$1" "$2" \
        "$3" "$most" "$sum" $((SECONDS - start)) "$failed" "$slow"
    plans_of[$2]=$((${plans_of[$2]:-0} + sum)) failed_of[$2]=$((${failed_of[$2]:-0} + failed))
    slow_of[$2]=$((${slow_of[$2]:-0} + slow))
    seconds_of[$2]=$((${seconds_of[$2]:-0} + SECONDS - start))
}

all_failed=0
tell() {
    local algorithm sum=0 slow=0
    for algorithm in $algorithms; do
        printf '%-13s %6d plans proven %5d s  %d failed  %d too slow\n' "$algorithm" \
            "${plans_of[$algorithm]:-0}" "${seconds_of[$algorithm]:-0}" \
            "${failed_of[$algorithm]:-0}" "${slow_of[$algorithm]:-0}"
        sum=$((sum + ${plans_of[$algorithm]:-0})) slow=$((slow + ${slow_of[$algorithm]:-0}))
        all_failed=$((all_failed + ${failed_of[$algorithm]:-0}))
    done
    echo "in all: $sum plans proven, $all_failed failed, $slow too slow, $((SECONDS - began)) s"
}
trap 'echo "stopped at $machine $algorithm $collective"; tell; exit 2' INT TERM

for machine in $machines; do
    for algorithm in $algorithms; do
        case $algorithm in nccl-*) [ "$machine" = loads ] || continue ;; esac
        for collective in $collectives; do
            turn=$((turn + 1))
            [ $((turn % ${part#*/})) = $((${part%/*} % ${part#*/})) ] || continue
            line "$machine" "$algorithm" "$collective"
        done
    done
done
tell
[ $all_failed = 0 ]
