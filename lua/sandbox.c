/* SPDX-License-Identifier: Apache-2.0 */
/* A state, its memory and its budget. */
#include "box.h"

#include <string.h>

#define HOOK_EVERY 256    /* instructions */
#define CALL_UNITS 12     /* what a call costs beyond its instruction */
#define BLOCK_UNITS 30    /* what a block costs to make, and to collect */
#define BYTES_A_UNIT 3    /* of a block: written, and read by the collector */
#define REFUSED_A_UNIT 4  /* bytes held: a refusal makes the collector walk them all */
#define STRING_A_UNIT 64  /* bytes that an instruction goes through */
#define NODES_A_UNIT 12   /* keys */
#define WALKED_A_UNIT 128 /* bytes of a table that are looked at */

/* Before each block: its true size. Lua takes it for granted that shrinking cannot fail, which a
 * host's allocator may see differently. */
union header {
    size_t bytes;
    max_align_t align;
};

static void price_string(struct sandbox *box, size_t bytes)
{
    if (bytes > box->longest)
        box->longest = bytes;
}

/* Blocks of no kind are hash parts when their size is a power of two of nodes. */
static void price_block(struct sandbox *box, size_t bytes)
{
    size_t node = box->node_bytes, nodes = node ? bytes / node : 0;
    box->probe = bytes;
    if (nodes && nodes * node == bytes && !(nodes & (nodes - 1)) && bytes > box->hash_bytes)
        box->hash_bytes = bytes;
}

static void reprice(struct sandbox *box)
{
    size_t nodes = box->node_bytes ? box->hash_bytes / box->node_bytes : 0;
    box->price = (uint32_t)(1 + box->longest / STRING_A_UNIT + nodes / NODES_A_UNIT);
}

/* No handler hears of a lack of memory: where it happened is looked up in its midst. Nothing here
 * asks for any. */
static void blame_running(struct sandbox *box)
{
    lua_Debug ar;
    for (int level = 0; box->L && level < 16 && lua_getstack(box->L, level, &ar); level++)
        if (lua_getinfo(box->L, "l", &ar) && ar.currentline > 0) {
            box->blamed = (uint32_t)ar.currentline;
            return;
        }
}

/* Refused blocks are asked for again once garbage is collected: only the second time counts. */
static void *refuse(struct sandbox *box, size_t bytes, enum box_spent reason)
{
    box->left -= (int64_t)(box->used / REFUSED_A_UNIT);
    if ((box->refused == bytes || reason == SPENT_HOST) && box->spent == SPENT_NOTHING) {
        box->spent = reason;
        blame_running(box);
    }
    box->refused = bytes;
    return NULL;
}

static int is_over(const struct sandbox *box, size_t old_bytes, size_t new_bytes)
{
    return new_bytes > box->limits.bytes || box->used - old_bytes > box->limits.bytes - new_bytes;
}

static void *resize(struct sandbox *box, void *ptr, size_t nsize)
{
    union header *header = ptr ? (union header *)ptr - 1 : NULL;
    size_t old_bytes = header ? header->bytes : 0, new_bytes = nsize + sizeof *header;
    if (new_bytes > old_bytes && is_over(box, old_bytes, new_bytes))
        return refuse(box, nsize, SPENT_BYTES);
    union header *block = peal_realloc(box->ctx, header, old_bytes, new_bytes);
    if (!block && new_bytes <= old_bytes)
        return ptr;
    if (!block)
        return refuse(box, nsize, SPENT_HOST);
    block->bytes = new_bytes;
    box->used += new_bytes - old_bytes;
    box->peak = box->used > box->peak ? box->used : box->peak;
    box->refused = 0;
    return block + 1;
}

void *peal_box_realloc(void *user, void *ptr, size_t osize, size_t nsize)
{
    struct sandbox *box = user;
    if (!nsize) {
        union header *header = ptr ? (union header *)ptr - 1 : NULL;
        box->used -= header ? header->bytes : 0;
        peal_free(box->ctx, header, header ? header->bytes : 0);
        return NULL;
    }
    box->left -= (int64_t)(BLOCK_UNITS + nsize / BYTES_A_UNIT);
    box->biggest = nsize > box->biggest ? nsize : box->biggest;
    if (!ptr && osize == LUA_TSTRING) {
        if (nsize > SANDBOX_STRING)
            return refuse(box, nsize, SPENT_STRING);
        price_string(box, nsize);
    } else if (!ptr && osize == 0) {
        price_block(box, nsize);
    }
    reprice(box);
    return resize(box, ptr, nsize);
}

/* ---- the budget ------------------------------------------------------------------- */

struct sandbox *peal_sandbox_of(lua_State *L)
{
    struct sandbox *box;
    memcpy(&box, lua_getextraspace(L), sizeof box);
    return box;
}

peal_ctx *peal_sandbox_ctx(const struct sandbox *box)
{
    return box->ctx;
}

void peal_sandbox_refill(struct sandbox *box, uint64_t units)
{
    box->left = units > INT64_MAX ? INT64_MAX : (int64_t)units;
    if (box->spent == SPENT_UNITS)
        box->spent = SPENT_NOTHING;
}

uint64_t peal_sandbox_left(const struct sandbox *box)
{
    return box->left > 0 ? (uint64_t)box->left : 0;
}

size_t peal_sandbox_peak(const struct sandbox *box)
{
    return box->peak;
}

int peal_box_is_spent(struct sandbox *box)
{
    if (box->left < 0 && box->spent == SPENT_NOTHING)
        box->spent = SPENT_UNITS;
    return box->spent != SPENT_NOTHING;
}

void peal_box_check(lua_State *L)
{
    struct sandbox *box = peal_sandbox_of(L);
    if (!peal_box_is_spent(box))
        return;
    lua_pushlightuserdata(L, box); /* the message is made where it is told */
    (void)lua_error(L);
}

void peal_sandbox_charge(lua_State *L, uint64_t units)
{
    struct sandbox *box = peal_sandbox_of(L);
    box->left = units > (uint64_t)INT64_MAX / 2 ? -1 : box->left - (int64_t)units;
    peal_box_check(L);
}

void peal_sandbox_charge_walk(lua_State *L)
{
    peal_sandbox_charge(L, peal_sandbox_of(L)->biggest / WALKED_A_UNIT);
}

void peal_sandbox_settle(lua_State *L, uint64_t left, uint64_t units)
{
    peal_sandbox_refill(peal_sandbox_of(L), left - (left < units ? left : units));
}

/* A call with more values than anyone writes is how one instruction is made to copy thousands. */
static int has_many_values(lua_State *L, lua_Debug *ar)
{
    if (ar->event == LUA_HOOKRET)
        return lua_getinfo(L, "r", ar) && ar->ntransfer > SANDBOX_VALUES;
    return lua_getlocal(L, ar, -(SANDBOX_VALUES + 1)) != NULL;
}

/* What is raised here is always the error of a spent budget: a script's handler of any other would
 * run without hooks. */
void peal_box_hook(lua_State *L, lua_Debug *ar)
{
    struct sandbox *box = peal_sandbox_of(L);
    box->left -= ar->event == LUA_HOOKCOUNT ? (int64_t)HOOK_EVERY * box->price : CALL_UNITS;
    if (ar->event != LUA_HOOKCOUNT && has_many_values(L, ar) && box->spent == SPENT_NOTHING)
        box->spent = SPENT_VALUES;
    if (box->left < 0 || box->spent != SPENT_NOTHING)
        peal_box_check(L);
}

/* ---- making a state ---------------------------------------------------------------- */

/* The first key of an empty table makes a hash part of one node. */
static void learn_node_bytes(lua_State *L)
{
    struct sandbox *box = peal_sandbox_of(L);
    lua_createtable(L, 0, 0);
    lua_pushboolean(L, 1);
    box->probe = 0;
    lua_setfield(L, -2, "a");
    box->node_bytes = box->probe;
    lua_pop(L, 1);
}

static int open_libraries(lua_State *L)
{
    struct sandbox *box = peal_sandbox_of(L);
    lua_pushglobaltable(L);
    learn_node_bytes(L);
    peal_box_base(L);
    peal_box_order(L);
    lua_pop(L, 1);
    peal_box_string(L);
    peal_box_table(L);
    peal_box_math(L);
    peal_box_coroutine(L);
    box->longest = box->hash_bytes = box->biggest = 0; /* counted from here on */
    lua_sethook(L, peal_box_hook, LUA_MASKCOUNT | LUA_MASKCALL | LUA_MASKRET, HOOK_EVERY);
    return 0;
}

static peal_status begin(struct sandbox *box, peal_diag *diag)
{
    box->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (box->locale)
        box->L = lua_newstate(peal_box_realloc, box);
    if (!box->L || box->spent != SPENT_NOTHING)
        return peal_fail(diag, box->spent == SPENT_BYTES ? PEAL_ERR_LIMIT : PEAL_ERR_MEMORY,
                         "no memory for a script");
    memcpy(lua_getextraspace(box->L), &box, sizeof box);
    return peal_sandbox_run(box, open_libraries, NULL, diag);
}

peal_status peal_sandbox_create(peal_ctx *ctx, const struct sandbox_limits *limits, peal_diag *diag,
                                struct sandbox **box_out)
{
    struct sandbox *box = peal_calloc(ctx, 1, sizeof *box);
    if (!box)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    box->ctx = ctx;
    if (limits)
        box->limits = *limits;
    box->limits.bytes = box->limits.bytes ? box->limits.bytes : SANDBOX_BYTES;
    box->limits.units = box->limits.units ? box->limits.units : SANDBOX_UNITS;
    box->price = 1;
    box->random[0] = box->limits.seed ^ 0x9e3779b97f4a7c15u;
    box->random[1] = box->limits.seed + 1;
    peal_sandbox_refill(box, box->limits.units);
    peal_status status = begin(box, diag);
    if (status != PEAL_OK) {
        peal_sandbox_destroy(box);
        return status;
    }
    peal_sandbox_refill(box, box->limits.units);
    *box_out = box;
    return PEAL_OK;
}

void peal_sandbox_destroy(struct sandbox *box)
{
    if (!box)
        return;
    if (box->L)
        lua_close(box->L);
    if (box->locale)
        freelocale(box->locale);
    peal_free(box->ctx, box, sizeof *box);
}
