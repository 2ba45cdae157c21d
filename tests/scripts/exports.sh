#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# exports.sh PEAL_SO PEAL_RT_SO PEAL_RT_A: the header, the export maps and the libraries
# name the same functions; peal-rt has all that its rooms define and needs no XML.
set -eu
# shellcheck source=tests/scripts/lib.sh
. "$PEAL_SOURCE/tests/scripts/lib.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

same() { # same WHAT LEFT RIGHT
    if ! diff -u --label "$1: $2" --label "$1: $3" "$work/$2" "$work/$3"; then
        failures=$((failures + 1))
    fi
}
exported() {
    nm -D --defined-only "$1" | awk '$2 ~ /[TDBRVW]/ {print $3}' | sed 's/@.*//' | sort
}

header_functions "$PEAL_SOURCE"/include/peal/peal.h "$PEAL_SOURCE"/include/peal/peal_cuda.h >"$work/header"
map_functions "$PEAL_SOURCE/cmake/peal.map" >"$work/peal.map"
map_functions "$PEAL_SOURCE/cmake/peal-rt.map" >"$work/peal-rt.map"
exported "$1" >"$work/libpeal.so"
exported "$2" >"$work/libpeal-rt.so"
# Hidden functions are global symbols in an archive: keep those the header names.
nm --defined-only "$3" 2>/dev/null | awk '$2 == "T" {print $3}' | sort -u |
    comm -12 - "$work/header" >"$work/libpeal-rt.a"

[ -s "$work/header" ] || {
    echo "exports: the header could not be read"
    exit 1
}
same exports header peal.map
same exports peal.map libpeal.so
same exports peal-rt.map libpeal-rt.so
same exports peal-rt.map libpeal-rt.a
if readelf -d "$2" | grep -E 'NEEDED.*(xml|lua|jansson)'; then
    echo "exports: peal-rt links what it must not"
    failures=$((failures + 1))
fi
if readelf -d "$1" | grep -E 'NEEDED.*(jansson|lua)'; then
    echo "exports: peal links what only the command line may"
    failures=$((failures + 1))
fi
echo "exports: $(wc -l <"$work/header") functions in the header, $failures lists differ"
[ "$failures" = 0 ]
