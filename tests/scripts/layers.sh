#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# layers.sh CC FLAG room=need,need...: every header of a needed room can be included from
# a room, and every other header of the house cannot. The include path is what
# cmake/PealRooms.cmake gives: include/, the room, its needs.
set -eu
cc=$1
flag=$2
shift 2
root=$PEAL_SOURCE
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" # a quoted include looks beside its file first: here is nothing to find
failures=0
tried=0

complain() {
    echo "layers: $*"
    failures=$((failures + 1))
}

all_rooms=""
for arg in "$@"; do
    all_rooms="$all_rooms ${arg%%=*}"
done

try_include() { # try_include HEADER STEP: with $paths; STEP is -E (is it found) or -fsyntax-only
    printf '#include "%s"\nint main(void) { return 0; }\n' "$1" >one.c
    # shellcheck disable=SC2086 # $paths is a list of options without blanks inside
    "$cc" -std=c11 -D_DEFAULT_SOURCE "$2" $paths "$flag" one.c >/dev/null 2>errors
}

# Whether the include path has it, which takes no compiler.
is_found() {
    local path
    for path in $paths; do
        [ ! -e "${path#-I}/$1" ] || return 0
    done
    return 1
}

# A header without a guard is a template: text for the middle of another file.
step_of() {
    if grep -q '^#ifndef PEAL_.*_H$' "$1"; then printf '%s' -fsyntax-only; else printf '%s' -E; fi
}

for arg in "$@"; do
    room=${arg%%=*}
    needs=" $(echo "${arg#*=}" | tr ',' ' ') "
    paths="-I$root/include -I$root/$room"
    for need in $needs; do
        paths="$paths -I$root/$need"
    done
    for other in $all_rooms; do
        for header in "$root/$other"/*.h; do
            [ -e "$header" ] || continue
            name=${header##*/}
            tried=$((tried + 1))
            if [ "$other" = "$room" ] || [ "${needs#* "$other" }" != "$needs" ]; then
                try_include "$name" "$(step_of "$header")" || {
                    complain "$room cannot include $other/$name on its own"
                    cat errors
                }
            elif is_found "$name"; then
                complain "$room can include $other/$name, which it does not need"
            fi
        done
    done
done

# A rank of a group is not the fabric's: one file leads from one to the other.
if grep -n 'peal_topo_path(' "$root"/compiler/*.c | grep -v '/group_ranks\.c:'; then
    complain "the compiler asks for paths other than by peal_group_path"
fi

# What no include path can hold: a way around it.
for room in $all_rooms; do
    if grep -nE '#[[:space:]]*include[[:space:]]*["<](\.\./|/)' -r "$root/$room" "$root/include"; then
        complain "$room reaches past its include path"
    fi
done

# One name, one header: else an include means different files in different rooms.
twins=$(for room in $all_rooms; do
    for header in "$root/$room"/*.h; do
        [ -e "$header" ] && echo "${header##*/}"
    done
done | sort | uniq -d)
[ -z "$twins" ] || complain "two rooms have a header of the same name: $twins"

echo "layers: $tried includes tried, $failures wrong"
[ "$failures" = 0 ] && [ "$tried" -gt 0 ]
