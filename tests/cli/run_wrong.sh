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
static int mine(peal_comm *comm)
{
    peal_comm_info info = {sizeof info, 0, 0, 0, 0, 0};
    (void)!peal_comm_get(comm, &info);
    return info.rank == 1 && ++calls == (unsigned)atoi(getenv("SPOIL_CALL"));
}
/* in is of nin bytes, out of nout. */
static void spoil(const void *in, size_t nin, void *out, size_t nout, peal_dtype dtype)
{
    char *bytes = out;
    const char *what = getenv("SPOIL");
    if (!strcmp(what, "element"))
        bytes[17 * peal_dtype_size(dtype)] ^= 1;
    if (!strcmp(what, "behind"))
        bytes[nout] ^= 1;
    if (!strcmp(what, "before"))
        bytes[-1] ^= 1;
    if (!strcmp(what, "input"))
        ((char *)(uintptr_t)in)[5 * peal_dtype_size(dtype)] ^= 1;
    if (!strcmp(what, "last"))
        ((char *)(uintptr_t)in)[nin - 1] ^= 1;
}
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
peal_status peal_allreduce(peal_comm *comm, const void *in, void *out, size_t count,
                           peal_dtype dtype, peal_op op, peal_diag *diag)
{
    int now = mine(comm);
    size_t bytes = count * peal_dtype_size(dtype);
    if (now && !strcmp(getenv("SPOIL"), "killed"))
        raise(SIGKILL);
    peal_status status = REAL(peal_allreduce)(comm, in, out, count, dtype, op, diag);
    if (now)
        spoil(in, bytes, out, bytes, dtype);
    return status;
}
peal_status peal_reduce_scatter(peal_comm *comm, const void *in, void *out, size_t count,
                                peal_dtype dtype, peal_op op, peal_diag *diag)
{
    size_t bytes = count * peal_dtype_size(dtype);
    peal_status status = REAL(peal_reduce_scatter)(comm, in, out, count, dtype, op, diag);
    if (mine(comm))
        spoil(in, 2 * bytes, out, bytes, dtype);
    return status;
}
peal_status peal_custom(peal_comm *comm, const void *in, void *out, size_t count, peal_dtype dtype,
                        peal_op op, peal_diag *diag)
{
    size_t bytes = count * peal_dtype_size(dtype); /* of a block: two are given, one is got */
    peal_status status = REAL(peal_custom)(comm, in, out, count, dtype, op, diag);
    if (mine(comm))
        spoil(in, 2 * bytes, out, bytes, dtype);
    return status;
}
#define MOVES(name, in_blocks, out_blocks, ends, arguments)                                        \
    peal_status name(peal_comm *comm, const void *in, void *out, size_t count, peal_dtype dtype    \
                     ends, peal_diag *diag)                                                        \
    {                                                                                              \
        size_t bytes = count * peal_dtype_size(dtype);                                             \
        peal_status status = REAL(name)(comm, in, out, count, dtype arguments, diag);              \
        if (mine(comm))                                                                            \
            spoil(in, (in_blocks) * bytes, out, (out_blocks) * bytes, dtype);                      \
        return status;                                                                             \
    }
#define COMMA ,
MOVES(peal_allgather, 1, 2, , )
MOVES(peal_alltoall, 2, 2, , )
MOVES(peal_broadcast, 1, 1, COMMA uint32_t root, COMMA root)
MOVES(peal_scatter, 2, 1, COMMA uint32_t root, COMMA root)
MOVES(peal_gather, 1, 2, COMMA uint32_t root, COMMA root)
MOVES(peal_sendrecv, 1, 1, COMMA uint32_t from COMMA uint32_t to, COMMA from COMMA to)
peal_status peal_alltoallv(peal_comm *comm, const void *in, const size_t *send, void *out,
                           size_t *came, size_t count, peal_dtype dtype, peal_diag *diag)
{
    peal_status status = REAL(peal_alltoallv)(comm, in, send, out, came, count, dtype, diag);
    if (!mine(comm))
        return status;
    spoil(in, 2 * count * peal_dtype_size(dtype), out, 2 * count * peal_dtype_size(dtype), dtype);
    if (!strcmp(getenv("SPOIL"), "count"))
        came[0]++;
    if (!strcmp(getenv("SPOIL"), "short")) /* the last element of the block from rank 0 */
        ((char *)out)[count * peal_dtype_size(dtype) - 1] ^= 1;
    return status;
}
peal_status peal_barrier(peal_comm *comm, peal_diag *diag)
{
    if (!strcmp(getenv("SPOIL"), "barrier"))
        return PEAL_OK;
    return REAL(peal_barrier)(comm, diag);
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
spoiled_of() { # spoiled_of COLLECTIVE WHAT ARGUMENT...: rank 1's call of it
    local collective=$1 what=$2
    shift 2
    spoiled "$what" 1 --procs --collective "$collective" "$@"
}
for collective in reduce-scatter allgather alltoall broadcast scatter sendrecv; do
    spoiled_of "$collective" element
    expect_err 'rank 1, element 17 is .*, not '
    expect_err "wrong: $collective "
    spoiled_of "$collective" behind
    expect_err 'guard of out'
done
spoiled_of alltoallv count
expect_err 'rank 1, count of rank 0 '
spoiled_of alltoallv short
expect_err 'rank 1, (element|behind the end) 99 '
spoiled_of alltoallv behind
expect_err 'guard of out'
spoiled_of gather element --root 1
expect_err '\(root 1\) .*rank 1, element 17 is '
spoiled_of alltoall input
expect_err 'rank 1, input 5 '
spoiled_of gather input
expect_err 'rank 1, input 5 '
spoiled_of allgather before --in-place # ahead of the output
expect_err 'guard of out'
spoiled_of reduce-scatter input --in-place # the block of rank 0
expect_err 'rank 1, input 5 '
spoiled_of reduce-scatter last --in-place # its own block
expect_err 'rank 1, element 99 '
spoiled_of scatter input --in-place --root 1
expect_err 'rank 1, input 5 '
if ! strings -a "$(dirname "$PEAL")"/libpeal.so 2>/dev/null | grep -q "this peal was built without Lua"; then
    for what in "element:rank 1, element 17 is " "behind:guard of out" "last:rank 1, input 199 "; do
        spoiled_of custom "${what%%:*}" --algorithm "$PEAL_SOURCE/examples/algorithms/halo.lua"
        expect_err "${what#*:}"
    done
fi
spoiled_of barrier barrier
expect_err 'wrong: barrier: rank [01], entry of rank [01] is missing'
export SPOIL=element SPOIL_CALL=1
expect 1 "$PEAL" bench host:2 --sizes 1K:4K --procs
expect_out '# Out of bounds values : 1 FAILED'
echo ok
