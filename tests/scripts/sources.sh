#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What holds of every file of the tree: a licence line, no machine's own paths.
set -eu
# shellcheck source=tests/scripts/lib.sh
. "$PEAL_SOURCE/tests/scripts/lib.sh"
cd "$PEAL_SOURCE"
failures=0
count=0
for file in $(tree_files); do
    count=$((count + 1))
    case $file in
    *.c | *.h | *.def | *.map | *.cmake | *.in | *.sh | *.lua | *.rng | *.py | *.awk | \
        *CMakeLists.txt | try | check | .ci/run | .clang-format | .gitignore)
        head -n 4 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || {
            echo "no licence line: $file"
            failures=$((failures + 1))
        }
        ;;
    esac
    # Spelled so that this file does not find itself.
    if grep -InE '(^|[^[:alnum:]_.$}])/(work|home|root)/[[:alnum:]]' "$file"; then
        echo "a path of one machine: $file"
        failures=$((failures + 1))
    fi
done
echo "sources: $count files, $failures complaints"
[ "$failures" = 0 ] && [ "$count" -gt 0 ]
