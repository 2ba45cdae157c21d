#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every C file is as clang-format writes it. `tests/scripts/format.sh fix` rewrites them.
set -eu
: "${PEAL_SOURCE:=$(cd "$(dirname "$0")/../.." && pwd)}"
# shellcheck source=tests/scripts/lib.sh
. "$PEAL_SOURCE/tests/scripts/lib.sh"
command -v clang-format >/dev/null || {
    echo "skipped: no clang-format"
    exit 77
}
cd "$PEAL_SOURCE"
files=$(tree_files | grep -E '\.[ch]$')
if [ "${1:-}" = fix ]; then
    echo "$files" | xargs clang-format -i
else
    echo "$files" | xargs clang-format --dry-run -Werror
fi
