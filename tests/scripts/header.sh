#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# header.sh CC: each public header compiles alone, as pedantic C11 and as C++.
set -eu
cc=$1
warnings="-Wall -Wextra -Wpedantic -Wundef -Werror"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Every status of the header has its sentence, in the header's order.
sed -nE 's/^    (PEAL_(OK|AGAIN|ERR_[A-Z]+)) = .*/\1/p' "$PEAL_SOURCE/include/peal/peal.h" \
    >"$work/declared"
sed -nE 's/^X\((PEAL_[A-Z_]+),.*/\1/p' "$PEAL_SOURCE/base/status.def" >"$work/described"
diff "$work/declared" "$work/described"

for header in "$PEAL_SOURCE"/include/peal/*.h; do
    name=peal/${header##*/}
    # Twice: the guard has to hold.
    printf '#include <%s>\n#include <%s>\nint main(void) { return 0; }\n' "$name" "$name" \
        >"$work/one.c"
    cp "$work/one.c" "$work/one.cc"
    # shellcheck disable=SC2086
    "$cc" -std=c11 $warnings -Wconversion -Wstrict-prototypes -I"$PEAL_SOURCE/include" \
        -fsyntax-only "$work/one.c"
    for cxx in g++ clang++; do
        command -v "$cxx" >/dev/null || continue
        for std in c++11 c++17 c++20; do
            # shellcheck disable=SC2086
            "$cxx" -std=$std $warnings -I"$PEAL_SOURCE/include" -fsyntax-only "$work/one.cc"
        done
        echo "$name: C11, $cxx"
    done
done
# The *_INIT macros have to be initialisers in both languages.
{
    echo '#include <peal/peal_cuda.h>'
    sed -nE 's/^#define (PEAL_([A-Z_]+)_INIT) .*/\1 \2/p' "$PEAL_SOURCE"/include/peal/*.h |
        while read -r macro type; do
            type=peal_$(echo "$type" | tr '[:upper:]' '[:lower:]')
            echo "extern const $type use_$type;"
            echo "const $type use_$type = $macro;"
        done
} >"$work/init.c"
cp "$work/init.c" "$work/init.cc"
# shellcheck disable=SC2086
"$cc" -std=c11 $warnings -I"$PEAL_SOURCE/include" -fsyntax-only "$work/init.c"
if command -v g++ >/dev/null; then
    # shellcheck disable=SC2086
    g++ -std=c++11 $warnings -I"$PEAL_SOURCE/include" -fsyntax-only "$work/init.cc"
fi
