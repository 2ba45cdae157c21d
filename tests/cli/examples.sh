#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest: plain
# The example of each verb's help runs as it is printed, beside the files that it names; and -o - and
# a topology on standard input are what a file is.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
mkdir bin
ln -s "$PEAL" bin/peal
PATH=$PWD/bin:$PATH
cp "$topologies"/*.xml .
cp "$PEAL_SOURCE/examples/policies/avoid-nic.lua" mine.lua
peal dump host:4 -a ring --bytes 1M -o ring.txt
cat >all_reduce.txt <<'TABLE'
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
        1024           256     float     sum      -1    20.00    0.05    0.10      0    20.10    0.05    0.10      0
     1048576        262144     float     sum      -1    40.00   26.21   49.15      0    40.10   26.15   49.03      0
   268435456      67108864     float     sum      -1   1400.0  191.74  359.51      0   1401.0  191.60  359.25      0
TABLE
ranks='#  Rank  7 Group  0 Pid  1 on  node-a device  7 [0000:8c:00] NVIDIA H100'

expect 0 peal help --json
python3 -c '
import json
for verb in json.load(open("out"))["verbs"]:
    print(verb["name"], verb["example"], sep="\t")' >examples
while IFS=$'\t' read -r verb example; do
    code=0
    case $verb in
    lint) code=1 ;;                              # it finds what it shows
    bench) example="${example/8:64M/8:64} -i 2" ;; # the same, sooner
    run) example=${example/64M/1M} ;;
    fit) sed -i "1i $ranks" all_reduce.txt ;;    # of one host
    compare) sed -i 1d all_reduce.txt ;;
    esac
    expect "$code" bash -c "$example"
    [ -s out ] || [[ $example == *" -o "* || $example == eval* ]] || die "nothing is printed by: $example"
done <examples
[ "$(wc -l <examples)" -ge 19 ] || die "not all verbs have an example"
for made in dgx.peal ring.peal report.html fitted.xml; do
    [ -s "$made" ] || die "no example has made $made"
done

# The same to standard output, to a file, and of what comes in there.
for command in "topo dgx-h100.xml" "plan dgx-h100.xml --bytes 1K:1M" "sim dgx-h100.xml" \
    "lint dgx-h100.xml" "report dgx-h100.xml -c allreduce -b 1M -n 2" \
    "fit all_reduce.txt" "compare cluster-h100-2.xml all_reduce.txt -c allreduce"; do
    # shellcheck disable=SC2086 # a command and its operands
    set -- $command
    expect 0 peal "$@"
    mv out plain
    if [ "$1" != fit ]; then # whose -o is the profile
        expect 0 peal "$@" -o -
        expect_same plain out
        expect 0 peal "$@" -o file
        [ ! -s out ] || die "peal $1 -o FILE prints too"
        expect_same plain file
    fi
    sed "s/$2/standard input/; s|$PWD/||" plain >named
    expect 0 peal "$1" - "${@:3}" <"$2"
    sed "s/$2/standard input/; s|$PWD/||" out | diff named - >difference || {
        cp difference out
        die "peal $1 of standard input says something else"
    }
done
