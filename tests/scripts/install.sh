#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install.sh CMAKE CC: installs into an empty prefix, moves it, and uses it as a stranger
# would: through pkg-config, through find_package, and by running the program.
set -eu
cmake=$1
cc=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$cmake" --install "$PEAL_BUILD" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved" # nothing installed may remember where it was put
prefix=$work/moved

mkdir "$work/app"
cat >"$work/app/app.c" <<'C'
#include <peal/peal.h>
#include <stdio.h>
int main(void)
{
    peal_ctx *ctx = NULL;
    if (peal_ctx_create(NULL, &ctx) != PEAL_OK)
        return 1;
    peal_ctx_destroy(ctx);
    return puts(peal_version()) < 0;
}
C
cat >"$work/app/CMakeLists.txt" <<'C'
cmake_minimum_required(VERSION 3.25)
project(app LANGUAGES C)
find_package(peal 0.1 REQUIRED COMPONENTS static)
foreach(flavour peal peal-rt peal-static peal-rt-static)
    add_executable(app-${flavour} app.c)
    target_link_libraries(app-${flavour} PRIVATE peal::${flavour})
endforeach()
C

pc_dir=$(dirname "$(find "$prefix" -name peal.pc)")
lib_dir=$(dirname "$pc_dir")
if command -v pkg-config >/dev/null; then
    # Nothing else's *.pc is there to be asked for: linking takes no more than what was installed.
    for name in peal peal-rt; do
        # shellcheck disable=SC2046
        "$cc" -std=c11 "$work/app/app.c" -o "$work/app/pc-$name" \
            $(PKG_CONFIG_LIBDIR=$pc_dir pkg-config --cflags --libs "$name")
        LD_LIBRARY_PATH=$lib_dir "$work/app/pc-$name" >/dev/null
        echo "pkg-config $name: ok"
    done
fi

"$cmake" -S "$work/app" -B "$work/app/build" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$cc" >"$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
}
"$cmake" --build "$work/app/build" >"$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
}
for flavour in peal peal-rt peal-static peal-rt-static; do
    "$work/app/build/app-$flavour" >/dev/null
    echo "find_package $flavour: ok"
done

# The example that is a project of its own.
{
    "$cmake" -S "$PEAL_SOURCE/examples/inference" -B "$work/inference" \
        -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc"
    "$cmake" --build "$work/inference"
} >"$work/log" 2>&1 || true
[ -x "$work/inference/inference" ] || {
    cat "$work/log"
    exit 1
}
if [ -x "$prefix/bin/peal" ] && "$prefix/bin/peal" policy meta >/dev/null 2>&1; then
    "$work/inference/inference" --tp 2 --tokens 4 >/dev/null
fi
echo "examples/inference: ok"

if [ -x "$prefix/bin/peal" ]; then
    if ldd "$prefix/bin/peal" | grep 'not found'; then
        echo "the installed program does not find its library"
        exit 1
    fi
    "$prefix/bin/peal" --version
fi
