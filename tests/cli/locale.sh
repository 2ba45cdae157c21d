#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest: lua plain
# Everything that another program or machine reads is the same bytes where the decimal point is a
# comma and thousands are set apart: plans first of all, but also what is read from and written to
# XML, JSON, Lua and tables (text for people has the program's own locale, which is none).
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
if ! command -v localedef >/dev/null; then
    echo "skipped: no localedef to make a locale with"
    exit 77
fi
cat >comma.locale <<'SOURCE'
comment_char %
escape_char /
LC_NUMERIC
decimal_point ","
thousands_sep "."
grouping 3;3
END LC_NUMERIC
SOURCE
mkdir locales
localedef -c -i comma.locale ./locales/comma >/dev/null 2>&1 || true # categories are missing: rc 1
[ -s locales/comma/LC_NUMERIC ] || die "no locale was made"

both() { # both ARGUMENT...: the program's output and its -o FILE, if one is called "made"
    expect 0 "$PEAL" "$@"
    mv out point.out
    [ ! -e made ] || mv made point.made
    expect 0 env LOCPATH="$PWD/locales" LD_PRELOAD="$PEAL_COMMA" "$PEAL" "$@"
    expect_same point.out out
    [ ! -e made ] || expect_same point.made made
}

cluster=$topologies/cluster-h100-2.xml
for topology in "$topologies"/dgx-h100.xml "$cluster" "$topologies"/dgx1-v100.xml; do
    both topo "$topology" --json
    both plan "$topology" --json
    both compile "$topology" -o made
    cp made plan.peal
done
both compile "$cluster" --policy "$PEAL_SOURCE/examples/policies/sm-priced.lua" -o made
both dump plan.peal
cp out text
both asm text -o made
both dump plan.peal --json
both sim "$cluster" -b 1M --json
both sim "$cluster" -b 1M --flows made --json
both lint "$cluster" --json
both estimate "$cluster" --model llama-3-8b --tp 8 --json
seeds=$PEAL_SOURCE/tests/fuzz/corpus/measured
both fit "$seeds/nccl.txt" "$seeds/osu.txt" --json
both fit "$seeds/nccl.txt" --link nvlink --topology "$topologies/dgx-h100.xml" -o made --json
