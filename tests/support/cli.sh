#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# For tests/cli/*.sh:   . "$PEAL_SOURCE/tests/support/cli.sh"
# Gives a scratch directory (the current one) and a few expectations; "$PEAL" is the
# program, $topologies the examples. The output of the last command is in out and err.
set -eu
# shellcheck disable=SC2034 # for who sources this
topologies=$PEAL_SOURCE/examples/topologies
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

die() {
    echo "FAILED: $*"
    for file in out err; do
        [ -s "$file" ] && sed "s/^/  $file: /" "$file" | head -n 40
    done
    exit 1
}

expect() { # expect CODE COMMAND...: runs it; its exit code has to be CODE
    local want=$1 got=0
    shift
    "$@" >out 2>err || got=$?
    [ "$got" = "$want" ] || die "exit code $got, not $want: ${*/#$PEAL/peal}"
}

expect_out() { # expect_out REGEX: a line of the last standard output matches
    grep -qE -- "$1" out || die "no line of the output matches: $1"
}

expect_err() {
    grep -qE -- "$1" err || die "no line of the error output matches: $1"
}

expect_same() { # expect_same FILE FILE
    cmp "$1" "$2" || die "$1 and $2 differ"
}

expect_json() { # expect_json PYTHON-EXPRESSION over j, the last standard output as JSON
    command -v python3 >/dev/null || return 0
    python3 -c '
import json, sys
j = json.load(open("out"))
sys.exit(0 if eval(sys.argv[1]) else 1)' "$1" || die "not so: $1"
}

corpus() { # corpus FILE: its path; ends the test as skipped when there is no corpus
    if [ ! -d "${PEAL_CORPUS:-}" ]; then
        echo "skipped: no corpus of topology files (set PEAL_CORPUS)"
        exit 77
    fi
    echo "$PEAL_CORPUS/$1"
}
