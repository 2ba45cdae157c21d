#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# samples.sh CC: each sample of C in a document compiles as it is printed, where the variables that it
# does not declare are those of support/sample.h; and so do the programs of examples/.
set -eu
cc=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$PEAL_SOURCE"
# A sample leaves out that results are looked at, which the header asks for, and what comes behind it.
warnings="-Wall -Wextra -Wpedantic -Werror -Wno-unused"

# A function for each sample.
awk '
FNR == 1 {inside = 0}
/^ *```/ {
    if (inside)
        print "}"
    inside = !inside && /```c$/
    if (inside)
        printf "static void sample_%d(void)\n{\n#line %d \"%s\"\n", ++count, FNR + 1, FILENAME
    next
}
inside {print}
END {
    print "int main(void)\n{"
    for (i = 1; i <= count; i++)
        printf "    sample_%d();\n", i
    print "    return 0;\n}"
}' README.md docs/*.md >"$work/body"
count=$(grep -c '^static void sample_' "$work/body")
[ "$count" -ge 10 ]
{
    echo '#include "sample.h"'
    cat "$work/body"
} >"$work/samples.c"
# shellcheck disable=SC2086
"$cc" -std=c11 $warnings -Iinclude -Itests/support -fsyntax-only "$work/samples.c"
"$cc" -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only \
    examples/*.c
echo "$count samples"
