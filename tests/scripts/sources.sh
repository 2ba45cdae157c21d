#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What holds of every file of the tree: a licence line, no machine's own paths.
set -eu
# shellcheck source=tests/scripts/lib.sh
. "$PEAL_SOURCE/tests/scripts/lib.sh"
cd "$PEAL_SOURCE"
count=$(tree_files | wc -l)
failures=0

# A process for each file would take most of a minute.
unlicensed() {
    tree_files | grep -E '(\.(c|h|def|map|cmake|in|sh|lua|rng|py|awk)|CMakeLists\.txt)$|^(\./)?(try|check|\.ci/run|\.clang-format|\.gitignore)$' |
        xargs awk 'FNR <= 4 && /SPDX-License-Identifier: Apache-2\.0/ { licensed[FILENAME] = 1 }
                   END { for (i = 1; i < ARGC; i++) if (!(ARGV[i] in licensed)) print ARGV[i] }'
}
while read -r file; do
    echo "no licence line: $file"
    failures=$((failures + 1))
done < <(unlicensed)
# Spelled so that this file does not find itself.
if tree_files | xargs grep -InE '(^|[^[:alnum:]_.$}])/(work|home|root)/[[:alnum:]]'; then
    echo "a path of one machine"
    failures=$((failures + 1))
fi
echo "sources: $count files, $failures complaints"
[ "$failures" = 0 ] && [ "$count" -gt 0 ]
