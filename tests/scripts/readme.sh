#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands that README.md shows work, in the order it shows them; what it shows below a command
# behind a "$" is what that prints, but for "...".
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$PEAL" "$work/bin/peal"
ln -s "$PEAL_SOURCE/examples" "$work/examples"
ln -s "$PEAL_BUILD/examples/inference/inference" "$work/bin/inference"
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

: >out
shown=0
while IFS= read -r line; do
    case $line in
    '$ '*)
        echo "$line"
        bash -c "${line#??}" >out 2>&1 </dev/null || true
        ;;
    '' | *...) ;;
    *)
        shown=$((shown + 1))
        grep -qxF -- "$line" out || {
            cat out
            echo "README.md shows what is not printed: $line"
            exit 1
        }
        ;;
    esac
done < <(awk '/^```/ {inside = !inside; dollar = 0; next} inside && /^\$ / {dollar = 1} inside && dollar' \
    "$PEAL_SOURCE/README.md")
echo "$shown lines of output"
[ "$shown" -ge 10 ]
[ "$count" -ge 5 ]
