#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts beside it.

# The files of the tree, relative to it: what git would commit, or everything but build/.
tree_files() {
    if git -C "$PEAL_SOURCE" rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git -C "$PEAL_SOURCE" ls-files -co --exclude-standard |
            while read -r file; do
                if [ -f "$PEAL_SOURCE/$file" ]; then echo "$file"; fi
            done
    else
        (cd "$PEAL_SOURCE" && find . -name build -prune -o -type f -print | sed 's|^\./||')
    fi
}

# The functions that a header declares PEAL_API, one a line, sorted.
header_functions() {
    # Comments go first (they name functions too); then each declaration is one line.
    sed -e 's|/\*.*\*/||' -e '/\/\*/,/\*\//d' "$@" | tr '\n' ' ' | tr ';' '\n' |
        sed -nE 's/.*PEAL_API[^(]*[^a-z0-9_](peal_[a-z0-9_]+) *\(.*/\1/p' | sort -u
}

map_functions() {
    sed -nE 's/^ +(peal_[a-z0-9_]+);$/\1/p' "$1" | sort
}
