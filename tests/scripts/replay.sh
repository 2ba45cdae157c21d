#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# replay.sh FUZZER SUBJECT: runs a fuzzer over its seeds, the files it once crashed on,
# and the corpus of real files where there is one.
set -eu
fuzzer=$1
subject=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
files=()
add() {
    while IFS= read -r file; do
        files+=("$file")
    done < <(find "$@" -type f -size -256k 2>/dev/null | LC_ALL=C sort)
}
add "$PEAL_SOURCE/tests/fuzz/corpus/$subject"
if [ "$subject" = topology ]; then
    add "$PEAL_SOURCE/examples/topologies" -name '*.xml'
    if [ -n "${PEAL_CORPUS:-}" ]; then
        add "$PEAL_CORPUS/malformed"
        add "$PEAL_CORPUS/nccl-topo" -name '*.xml'
    fi
fi
# Plans of today's format are made, not kept: a small machine's, as file and as text.
if [ "$subject" = plan ] || [ "$subject" = asm ]; then
    bash "$PEAL_SOURCE/tests/scripts/seeds.sh" "$PEAL" "$subject" "$work"
    add "$work"
fi
if [ "${#files[@]}" = 0 ]; then
    echo "skipped: no files for $subject"
    exit 77
fi
"$fuzzer" "${files[@]}" >"$work.log" 2>&1 || {
    tail -n 60 "$work.log"
    rm -f "$work.log"
    exit 1
}
tail -n 1 "$work.log"
rm -f "$work.log"
