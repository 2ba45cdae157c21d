#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands that the documents show work, in the order in which each document shows them; what it
# shows below a command behind a "$" is what that prints, but for columns and lines that "..." stands
# for. Commands are the lines of code (fenced without a language, or indented) that begin with one of
# peal, inference, or a loop over peal; not those that launchers start (tests/net). Whole samples in Lua
# and XML do what they are for.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$PEAL" "$work/bin/peal"
ln -s "$PEAL_BUILD/examples/inference/inference" "$work/bin/inference"
PATH=$work/bin:$PATH

# The files that commands name.
cd "$work"
ln -s "$PEAL_SOURCE/examples" examples
cp "$PEAL_SOURCE"/examples/topologies/*.xml .
cp "$PEAL_SOURCE"/examples/algorithms/halo.lua .
peal topo cluster dgx-h100.xml --nodes 2 -o pair.xml
peal topo cluster dgx-h100.xml --nodes 4 -o four-hosts.xml
peal topo cluster dgx-h100.xml --nodes 5120 -o vast.xml

sample_of() { # sample_of DOCUMENT LANGUAGE: the first that is shown in it
    awk -v fence="\`\`\`$2" '$0 == fence {inside = 1; next} /^```/ && inside {exit} inside' \
        "$PEAL_SOURCE/docs/$1.md"
}
sample_of lua-algorithms lua >ring.lua
sample_of policies lua >small.lua
peal policy check small.lua dgx-h100.xml >out
grep -q 'ring' out
sample_of topology-xml xml >sample.xml
peal topo sample.xml >out
grep -q '128 ranks' out
if command -v lua5.4 >/dev/null && [ -e "$PEAL_BUILD/lua/peal.so" ]; then
    cp pair.xml cluster.xml
    sample_of lua-module lua >module.lua
    LUA_CPATH="$PEAL_BUILD/lua/?.so" lua5.4 module.lua >out
fi

commands_of() { # commands_of DOCUMENT: its commands, "$ " before those whose output is shown; outputs
    sed -e ':more' -e '/\\$/{N;s/\\\n *//;bmore' -e '}' "$1" | awk '
    /^```/ {fence = !fence; code = fence && $0 == "```"; shown = 0; next}
    !fence {code = /^    /; if (code) sub(/^    /, ""); else shown = 0}
    !code {next}
    /^(\$ )?(peal|inference|for [^;]*; do peal) / {
        shown = /^\$ /
        sub(/   +[^ #].*$/, "") # an explanation beside it
        print "command\t" $0
        next
    }
    shown && NF {print "output\t" $0}'
}

# The machine that a document calls cluster.xml has as many ranks as its commands ask for; a
# measurement is made smaller; and none of them is asked to go on for long.
fitted() {
    local machine=pair.xml
    case $1 in
    *40000*) machine=vast.xml ;;
    *tp=8,dp=4* | *pp=2*) machine=four-hosts.xml ;;
    esac
    cp "$machine" cluster.xml
    case $1 in
    'peal bench '*--beside) echo "$1 -s 8:8 --budget 5" ;;
    'peal bench '*--all-pairs) echo "${1/host:4/host:2}" ;;
    'peal bench '*--budget*) echo "$1 -s 8:1K" ;;
    'peal bench '*) echo "${1/8:1M/8:64} -i 2 -w 1" ;;
    'peal run '*) echo "${1/64M/1M}" ;;
    'for '*) echo "${1/0 15/0 3}" ;;
    *) echo "$1" ;;
    esac
}

matches() { # matches LINE: a line of the output has its words in this order
    line=$1 awk '
    BEGIN {words = split(ENVIRON["line"], word)}
    {
        at = 1
        for (i = 1; at <= words; at++)
            if (word[at] != "...") {
                while (i <= NF && $i != word[at]) i++
                if (i++ > NF) next
            }
        found = 1
        exit
    }
    END {exit !found}' out
}

commands=0 shown=0
for document in "$PEAL_SOURCE"/{README.md,docs/*.md,examples/*/README.md}; do
    : >out
    while IFS=$'\t' read -r kind line; do
        if [ "$kind" = command ]; then
            fitted "${line#\$ }" >script
            bash script >out 2>&1 </dev/null || echo "exit code $?" >>out
            case $line in
            '$ '*) ;;
            *) ! grep -q '^exit code' out || {
                echo "$document: $line"
                cat out
                exit 1
            } ;;
            esac
            commands=$((commands + 1))
        else
            shown=$((shown + 1))
            matches "$line" || {
                cat script out
                echo "$document shows what is not printed: $line"
                exit 1
            }
        fi
    done < <(commands_of "$document")
done
echo "$commands commands, $shown lines of output"
[ "$commands" -ge 40 ]
[ "$shown" -ge 30 ]
