#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The names that documents give exist, and those that matter are in a document: options (of the verb
# that a command names), functions and constants of the public headers, variables of the environment.
set -eu
# shellcheck source=tests/scripts/lib.sh
. "$PEAL_SOURCE/tests/scripts/lib.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$PEAL_SOURCE"
documents=(README.md docs/*.md examples/*/README.md)
none() { # none WHAT: the standard input has no line
    sed "s|^|names: $1: |" | tee -a "$work/complaints"
}

# Code: whole lines of blocks, and what stands between backquotes. `A \` goes on in the next line.
sed -s -e ':more' -e '/\\$/{N;s/\\\n */ /;bmore' -e '}' "${documents[@]}" | awk '
    /^```/ {fence = !fence; next}
    fence || /^    / {print; next}
    {
        parts = split($0, part, "`")
        for (i = 2; i < parts; i += 2)
            print part[i]
    }' >"$work/code"

# Options. What peal does not know has to be of a program beside it, or srun's.
"$PEAL" help --markdown | awk '
    /^### peal / {verb = $3}
    /^\| `-/ {
        gsub(/[`,\\]/, "")
        for (i = 2; i <= 3; i++)
            if ($i ~ /^-/)
                print verb, $i
    }' | sort -u >"$work/options"
sed -n 's/.* //p' "$work/options" | sort -u >"$work/known"
grep -ohE -- '--[a-z][a-z-]+' tests/bench/*.py examples/inference/*.c | sort -u - <(echo --mpi) \
    >"$work/beside"
grep -oE '^(--[a-z][a-z-]+)' "$work/code" | sort -u | comm -23 - "$work/known" |
    comm -23 - "$work/beside" | none "no verb has the option"
awk '
    FILENAME ~ /options$/ {known[$1 " " $2] = verb[$1] = 1; next}
    {
        for (i = 1; i < NF && !($i == "peal" && $(i + 1) in verb); i++)
            ;
        at = $(i + 1)
        for (i += 2; i <= NF && $i !~ /^[|;&#]/; i++) {
            option = $i
            sub(/[^a-z-].*/, "", option)
            if (option ~ /^--?[a-z]/ && !((at " " option) in known))
                print at " " option
        }
    }' "$work/options" "$work/code" | sort -u | none "no such option of the verb"

# Functions and constants.
{
    header_functions include/peal/*.h
    grep -ohE '\bpeal_[a-z0-9_]+' include/peal/*.h include/peal/*.cuh base/*.h lua/*.h
} | sort -u >"$work/functions"
grep -oE '\bpeal_[a-z0-9_]+\b' "$work/code" | sort -u | comm -23 - "$work/functions" |
    none "nothing is called"
{
    grep -ohE '\bPEAL_[A-Z0-9_]+' include/peal/*.h CMakeLists.txt cmake/* base/*.h base/*.def
    grep -ohE '\bPEAL_[A-Z0-9_]+' -r tests cli
} | sort -u >"$work/constants"
grep -oE '\bPEAL_[A-Z0-9_]+\b' "$work/code" | sort -u | comm -23 - "$work/constants" |
    none "nothing is called"

# What the program reads of the environment is what docs/cli.md lists, and nothing else is.
grep -ohE '(getenv|variable|number_of)\("[A-Z_]+"|chosen\([^"]*"[A-Z_]+"|\{"[A-Z]+_[A-Z_]+", "[A-Z]+_[A-Z_]+"' \
    cli/*.c | grep -oE '"[A-Z_]+"' | tr -d '"' | sort -u >"$work/read"
sed -n '/^## Environment/,/^## [^E]/p' docs/cli.md | sed -n 's/^| \(`[^|]*\) |.*/\1/p' |
    grep -oE '[A-Z][A-Z_]+' | sort -u >"$work/listed"
comm -23 "$work/read" "$work/listed" | none "docs/cli.md, Environment, has no"
comm -13 "$work/read" "$work/listed" | none "nobody reads"

# Nothing public is without a word: each declaration, or the first of those in a row, has a comment.
awk '
    /\*\/ *$/ {said = 1}
    /^ *$/ {said = 0}
    /^PEAL_API/ && !said {
        print FILENAME ": " $0
    }' include/peal/*.h | none "nothing is said of"
echo "names: $(wc -l <"$work/known") options, $(wc -l <"$work/read") variables"
[ ! -s "$work/complaints" ]
