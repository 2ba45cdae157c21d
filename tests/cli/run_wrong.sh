#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# peal run sees what goes wrong: a library between it and peal spoils a call.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
cc=${CC:-cc}
command -v "$cc" >/dev/null || exit 77
cat >spoil.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <peal/peal.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
static unsigned calls;
peal_status peal_allreduce(peal_comm *comm, const void *in, void *out, size_t count,
                           peal_dtype dtype, peal_op op, peal_diag *diag)
{
    __typeof__(&peal_allreduce) real = (__typeof__(real))dlsym(RTLD_NEXT, "peal_allreduce");
    peal_comm_info info = {sizeof info, 0, 0, 0, 0, 0};
    (void)!peal_comm_get(comm, &info);
    char *bytes = out;
    const char *what = getenv("SPOIL");
    int mine = info.rank == 1 && ++calls == (unsigned)atoi(getenv("SPOIL_CALL"));
    if (mine && !strcmp(what, "killed"))
        raise(SIGKILL);
    peal_status status = real(comm, in, out, count, dtype, op, diag);
    if (!mine)
        return status;
    if (!strcmp(what, "element"))
        bytes[17 * peal_dtype_size(dtype)] ^= 1;
    if (!strcmp(what, "behind"))
        bytes[count * peal_dtype_size(dtype)] ^= 1;
    if (!strcmp(what, "before"))
        bytes[-1] ^= 1;
    if (!strcmp(what, "input"))
        ((char *)(uintptr_t)in)[5 * peal_dtype_size(dtype)] ^= 1;
    return status;
}
C
"$cc" -shared -fPIC -I "$PEAL_SOURCE/include" spoil.c -o spoil.so -ldl 2>err || exit 77
export LD_PRELOAD=$PWD/spoil.so
"$PEAL" version >out 2>err || exit 77 # a sanitizer that does not want to be second

export SPOIL_CALL=3
spoiled() { # spoiled WHAT CODE ARGUMENT...
    export SPOIL=$1
    local code=$2
    shift 2
    expect "$code" "$PEAL" run host:2 --count 100 --check --timeout 5000 "$@"
}
spoiled element 1 --procs
expect_err 'rank 1, element 17 is .*, not '
expect_out 'FAILED: 1 wrong'
for dtype in float32 float64 float16 bfloat16 int8 uint8 int32 uint32 int64 uint64; do
    spoiled element 1 --procs --dtype "$dtype"
done
spoiled element 1 --procs --dtype int32,float32 --op all --in-place --json
expect_json 'j["wrong"] == 1 and j["runs"][-1]["first_wrong"]["index"] == 17'
spoiled behind 1 --procs
expect_err 'guard of out'
spoiled before 1 --procs
expect_err 'guard of out'
spoiled input 1 --procs
expect_err 'rank 1, input 5 '
spoiled killed 4 --procs
expect_err 'rank [01]'
export SPOIL=element SPOIL_CALL=1
expect 1 "$PEAL" bench host:2 --sizes 1K:4K --procs
expect_out '# Out of bounds values : 1 FAILED'
echo ok
