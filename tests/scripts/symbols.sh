#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# symbols.sh room=object:object...: what the library's own objects must not do. Each call
# to the C library is an undefined symbol, each mutable global lies in .data or .bss.
set -eu
failures=0
count=0

# Streams, the environment, endings of the process, the locale, global random state.
forbidden='^(getenv|secure_getenv|setenv|putenv|abort|exit|_exit|_Exit|quick_exit|atexit'
forbidden="$forbidden|__assert_fail|stdin|stdout|stderr|(__)?v?f?printf(_chk)?|(__)?vd?printf(_chk)?"
forbidden="$forbidden|puts|fputs|fputc|putchar|putc|fopen|fdopen|fwrite|fread|fgets|perror"
forbidden="$forbidden|system|popen|setlocale|rand|srand|random|strtok|strerror|signal)\$"
heap='^(malloc|calloc|realloc|reallocarray|free|strdup|strndup|aligned_alloc|posix_memalign)$'

# Undefined symbols, one object after the other: "path:   U name".
find_calls() { # find_calls ROOM OBJECT...
    local room=$1
    shift
    nm -u -A "$@" | awk -v room="$room" -v forbidden="$forbidden" -v heap="$heap" '{
        object = $1
        sub(/:$/, "", object)
        name = $NF
        sub(/@.*/, "", name)
        # A system call has no other text for its numbers.
        bad = name ~ forbidden && !(room == "runtime" && name == "strerror")
        if (object !~ /\/base\/alloc\.c\./) # where the default heap is
            bad = bad || name ~ heap
        sub(/.*\//, "", object)
        if (bad)
            printf "symbols: %s (%s) calls %s\n", object, room, name
    }'
}

# Anything with a size in a writable section; tables of pointers are constant once relocated
# (.data.rel.ro) and do not count. A line: value, flags, section TAB size name.
find_globals() { # find_globals ROOM OBJECT...
    local room=$1
    shift
    objdump -t "$@" | awk -F'\t' -v room="$room" '
        / file format / { object = $0; sub(/:? +file format .*/, "", object); sub(/.*\//, "", object) }
        NF == 2 {
            split($2, right, " ")
            n = split($1, left, " ")
            if (left[n] ~ /^(\*COM\*|\.t?data|\.t?bss)/ && left[n] !~ /^\.data\.rel\.ro/ &&
                right[1] !~ /^0+$/)
                printf "symbols: %s (%s) has the mutable global %s\n", object, room, right[2]
        }'
}

for arg in "$@"; do
    room=${arg%%=*}
    IFS=: read -r -a objects <<<"${arg#*=}"
    complaints=$(
        find_calls "$room" "${objects[@]}"
        find_globals "$room" "${objects[@]}"
    )
    count=$((count + ${#objects[@]}))
    [ -n "$complaints" ] || continue
    echo "$complaints"
    failures=$((failures + $(echo "$complaints" | wc -l)))
done
echo "symbols: $count objects, $failures complaints"
[ "$failures" = 0 ] && [ "$count" -gt 0 ]
