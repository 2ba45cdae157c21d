#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every relative link in a document leads to a file.
set -eu
# shellcheck source=tests/scripts/lib.sh
. "$PEAL_SOURCE/tests/scripts/lib.sh"
cd "$PEAL_SOURCE"
failures=0
for doc in $(tree_files | grep '\.md$'); do
    # shellcheck disable=SC2013 # no blanks in our links
    for target in $(grep -oE '\]\([^)#:]+' "$doc" | cut -c3-); do
        [ -e "$(dirname "$doc")/$target" ] || {
            echo "$doc: no file $target"
            failures=$((failures + 1))
        }
    done
done
[ "$failures" = 0 ]
