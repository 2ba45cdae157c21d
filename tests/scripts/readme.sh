#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands that README.md shows work, in the order it shows them.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$PEAL" "$work/bin/peal"
ln -s "$PEAL_SOURCE/examples" "$work/examples"
cd "$work"
PATH=$work/bin:$PATH
count=0
while IFS= read -r line; do
    echo "\$ $line"
    bash -c "$line" >out 2>&1 </dev/null || {
        cat out
        exit 1
    }
    count=$((count + 1))
done < <(sed -e ':more' -e '/\\$/{N;s/\\\n *//;bmore' -e '}' "$PEAL_SOURCE/README.md" |
    awk '/^```/ {inside = !inside; next} inside && /^peal /')
echo "$count commands"
[ "$count" -ge 5 ]
