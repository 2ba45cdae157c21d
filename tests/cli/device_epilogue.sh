#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest: plain
# The kernels over peal_device.cuh run on the host: sums compared, and under the thread sanitizer,
# where there is one, that flags alone keep ranks apart.
set -eu
cxx=$(command -v g++ || command -v clang++ || true)
[ -n "$cxx" ] || {
    echo "device_epilogue: no C++ compiler here: skipped"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build() { # build OPTION...
    "$cxx" -std=c++17 -O1 -Wall -Wextra -Werror "$@" -I "$PEAL_SOURCE/include" -I "$PEAL_SOURCE/runtime" \
        -I "$PEAL_SOURCE/tests/device" -x c++ -o "$work/epilogue" \
        "$PEAL_SOURCE/tests/device/epilogue_host.cc" -pthread >"$work/out" 2>&1
}
sanitized=yes
if ! build -fsanitize=thread; then
    sanitized=no
    build || {
        cat "$work/out"
        exit 1
    }
fi
TSAN_OPTIONS=halt_on_error=1 "$work/epilogue"
echo "device_epilogue: under the thread sanitizer: $sanitized"
