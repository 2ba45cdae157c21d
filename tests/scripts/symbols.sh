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

check_object() { # check_object ROOM OBJECT
    local used hits
    used=$(nm -u "$2" | awk '{print $NF}' | sed 's/@.*//')
    hits=$(echo "$used" | grep -E "$forbidden" || true)
    if [ "$1" = runtime ]; then
        # A system call's numbers have no other text; the rest holds here too.
        hits=$(echo "$hits" | grep -vx strerror || true)
    fi
    case $2 in
    */base/alloc.c.*) ;; # where the default heap is
    *) hits="$hits $(echo "$used" | grep -E "$heap" || true)" ;;
    esac
    for hit in $hits; do
        echo "symbols: ${2##*/} ($1) calls $hit"
        failures=$((failures + 1))
    done
    # Anything with a size in a writable section; tables of pointers are constant once
    # relocated (.data.rel.ro) and do not count. A line: value, flags, section TAB size name.
    hits=$(objdump -t "$2" | awk -F'\t' 'NF == 2 {
            split($2, right, " ")
            n = split($1, left, " ")
            if (left[n] ~ /^(\*COM\*|\.t?data|\.t?bss)/ && left[n] !~ /^\.data\.rel\.ro/ &&
                right[1] !~ /^0+$/) print right[2]
        }')
    for hit in $hits; do
        echo "symbols: ${2##*/} ($1) has the mutable global $hit"
        failures=$((failures + 1))
    done
}

for arg in "$@"; do
    for object in $(echo "${arg#*=}" | tr ':' ' '); do
        check_object "${arg%%=*}" "$object"
        count=$((count + 1))
    done
done
echo "symbols: $count objects, $failures complaints"
[ "$failures" = 0 ] && [ "$count" -gt 0 ]
