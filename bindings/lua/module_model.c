/* SPDX-License-Identifier: Apache-2.0 */
/* peal.fit: lines through measured times; peal.estimate: the communication of a model. */
#include "module.h"

#include <string.h>

#define POINTS_MAX 1024u

/* peal.fit{{bytes, us}, ...}: {alpha_us, beta_gbs, error, segments = {...}} */
static int fit(lua_State *L)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_fit result = {.size = sizeof result};
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_Unsigned count = lua_rawlen(L, 1);
    lua_Integer segments = luaL_optinteger(L, 2, 0);
    luaL_argcheck(L, segments >= 0 && segments <= UINT32_MAX, 2, "no number of segments");
    luaL_argcheck(L, count <= POINTS_MAX, 1, "more than 1024 points");
    peal_point *points = lua_newuserdatauv(L, (count + 1) * sizeof *points, 0);
    for (lua_Unsigned i = 0; i < count; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1);
        luaL_checktype(L, -1, LUA_TTABLE);
        int at = lua_gettop(L);
        lua_rawgeti(L, at, 1);
        lua_rawgeti(L, at, 2);
        points[i] = (peal_point){as_size(L, at + 1), luaL_checknumber(L, at + 2)};
        lua_settop(L, at - 1);
    }
    module_check(
        L,
        peal_fit_points(module_ctx(L), points, (uint32_t)count, (uint32_t)segments, &diag, &result),
        &diag);
    lua_newtable(L);
    set_number(L, "alpha_us", result.alpha_us);
    set_number(L, "beta_gbs", result.beta_gbs);
    set_number(L, "crossover_bytes", result.crossover_bytes);
    set_number(L, "error", result.error);
    lua_newtable(L);
    for (uint32_t i = 0; i < result.segments; i++) {
        lua_newtable(L);
        set_integer(L, "min_bytes", result.segment[i].min_bytes);
        set_integer(L, "max_bytes", result.segment[i].max_bytes);
        set_number(L, "alpha_us", result.segment[i].alpha_us);
        set_number(L, "beta_gbs", result.segment[i].beta_gbs);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "segments");
    return 1;
}

/* ---- estimate ------------------------------------------------------------------------------- */

static const char *const estimate_words[] = {"model",
                                             "params",
                                             "layers",
                                             "hidden",
                                             "sequence",
                                             "batch",
                                             "tp",
                                             "dp",
                                             "pp",
                                             "ep",
                                             "sp",
                                             "zero",
                                             "overlap",
                                             "compute_us",
                                             "tflops",
                                             "algorithm",
                                             "micro_batches",
                                             NULL};

static void read_model(lua_State *L, peal_model *model)
{
    const char *name = NULL;
    option_text(L, 2, "model", &name);
    for (uint32_t i = 0; name; i++) {
        peal_model preset = {.size = sizeof preset};
        if (peal_model_preset(i, &preset) != PEAL_OK)
            luaL_error(L, "unknown model '%s'", name);
        if (strcmp(preset.name, name) == 0) {
            *model = preset;
            break;
        }
    }
    option_u64(L, 2, "params", &model->params);
    option_u32(L, 2, "layers", &model->layers);
    option_u32(L, 2, "hidden", &model->hidden);
    option_u32(L, 2, "sequence", &model->sequence);
    option_u32(L, 2, "batch", &model->batch);
    option_u32(L, 2, "micro_batches", &model->micro_batches);
}

static void read_split(lua_State *L, peal_estimate_params *params)
{
    option_u32(L, 2, "tp", &params->tp);
    option_u32(L, 2, "dp", &params->dp);
    option_u32(L, 2, "pp", &params->pp);
    option_u32(L, 2, "ep", &params->ep);
    option_u32(L, 2, "sp", &params->sp);
    option_u32(L, 2, "zero", &params->zero);
    option_number(L, 2, "overlap", &params->overlap);
    option_number(L, 2, "compute_us", &params->compute_us);
    option_number(L, 2, "tflops", &params->tflops);
    option_text(L, 2, "algorithm", &params->algorithm);
}

static int free_estimate(lua_State *L)
{
    struct handle *handle = lua_touserdata(L, 1);
    peal_estimate_destroy(handle->pointer);
    handle->pointer = NULL;
    return 0;
}

static void push_axis(lua_State *L, const peal_estimate_axis *axis)
{
    lua_newtable(L);
    set_text(L, "axis", axis->axis);
    set_flag(L, "decode", axis->decode);
    set_text(L, "collective", peal_collective_name(axis->collective));
    set_integer(L, "ranks", axis->ranks);
    set_integer(L, "groups", axis->groups);
    set_integer(L, "calls", axis->calls);
    set_integer(L, "bytes", axis->bytes);
    set_number(L, "call_us", axis->call_us);
    set_number(L, "total_us", axis->total_us);
    set_number(L, "exposed_us", axis->exposed_us);
    set_text(L, "algorithm", axis->algorithm);
    set_text(L, "binding", axis->binding);
}

static void push_estimate(lua_State *L, const peal_estimate *estimate)
{
    peal_estimate_info info = {.size = sizeof info};
    module_check(L, peal_estimate_get(estimate, &info), NULL);
    lua_newtable(L);
    set_integer(L, "ranks", info.ranks);
    set_integer(L, "dp", info.dp);
    set_number(L, "compute_us", info.compute_us);
    set_number(L, "model_us", info.model_us);
    set_number(L, "dp_us", info.dp_us);
    set_number(L, "serial_us", info.serial_us);
    set_number(L, "overlap_us", info.overlap_us);
    set_number(L, "bucketed_us", info.bucketed_us);
    set_number(L, "decode_us", info.decode_us);
    lua_newtable(L);
    for (uint32_t i = 0; i < info.axes; i++) {
        peal_estimate_axis axis = {.size = sizeof axis};
        module_check(L, peal_estimate_axis_get(estimate, i, &axis), NULL);
        push_axis(L, &axis);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "axes");
}

/* peal.estimate(fabric, {model = "llama-3-70b", tp = 8, dp = 2}) */
static int estimate(lua_State *L)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_model model = PEAL_MODEL_INIT;
    peal_estimate_params params = PEAL_ESTIMATE_PARAMS_INIT;
    const peal_fabric *fabric = check_fabric(L, 1);
    lua_settop(L, 2);
    check_options(L, 2, estimate_words);
    read_model(L, &model);
    read_split(L, &params);
    struct handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
    handle->pointer = NULL;
    lua_newtable(L);
    lua_pushcfunction(L, free_estimate);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    peal_estimate *made = NULL;
    module_check(L, peal_estimate_create(module_ctx(L), fabric, &model, &params, &diag, &made),
                 &diag);
    handle->pointer = made;
    push_estimate(L, made);
    return 1;
}

const luaL_Reg module_model_functions[] = {{"fit", fit}, {"estimate", estimate}, {NULL, NULL}};
