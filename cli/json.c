/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_json.h"
#include "team.h"

#include <stdlib.h>
#include <string.h>

static void put(json_t *object, const char *key, json_t *value)
{
    (void)need(json_object_set_new(object, key, value) == 0 ? object : NULL);
}

json_t *json_begin(const char *schema)
{
    json_t *object = need(json_object());
    json_text(object, "schema", schema);
    return object;
}

json_t *json_list(json_t *object, const char *key)
{
    json_t *list = need(json_array());
    put(object, key, list);
    return list;
}

json_t *json_child(json_t *object, const char *key)
{
    json_t *child = need(json_object());
    put(object, key, child);
    return child;
}

json_t *json_item(json_t *list)
{
    json_t *item = need(json_object());
    (void)need(json_array_append_new(list, item) == 0 ? list : NULL);
    return item;
}

/* File names need not be UTF-8, JSON has to be. */
static json_t *any_text(const char *text)
{
    json_t *value = json_string(text);
    if (value)
        return value;
    size_t length = strlen(text);
    char *plain = need(malloc(length + 1));
    for (size_t i = 0; i <= length; i++)
        plain[i] = (unsigned char)text[i] < 128 ? text[i] : '?';
    value = json_string(plain);
    free(plain);
    return value;
}

void json_text(json_t *object, const char *key, const char *text)
{
    put(object, key, text ? any_text(text) : json_null());
}

void json_count(json_t *object, const char *key, uint64_t number)
{
    put(object, key, json_integer((json_int_t)number));
}

void json_signed(json_t *object, const char *key, int64_t number)
{
    put(object, key, json_integer((json_int_t)number));
}

void json_number(json_t *object, const char *key, double number)
{
    json_t *value = json_real(number);
    put(object, key, value ? value : json_null()); /* infinity is no number of JSON's */
}

void json_flag(json_t *object, const char *key, int flag)
{
    put(object, key, json_boolean(flag));
}

void json_engines(json_t *object, const char *key, uint32_t bits)
{
    json_t *list = json_list(object, key);
    for (uint32_t e = 0; e < PEAL_ENGINE_COUNT; e++)
        if (bits >> e & 1)
            (void)need(json_array_append_new(list, json_string(peal_engine_name((peal_engine)e)))
                           ? NULL
                           : list);
}

void json_end(json_t *object, const struct output *output)
{
    /* A failed write shows in the stream's error mark. */
    (void)json_dumpf(object, output->file, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
    fputc('\n', output->file);
    json_decref(object);
}

static void json_rank_or_null(json_t *object, const char *key, int has, uint32_t rank)
{
    put(object, key, has ? json_integer((json_int_t)rank) : json_null());
}

static void json_pairs(json_t *object, const struct action *action)
{
    json_t *list = json_list(object, "pairs");
    for (uint32_t i = 0; i < action->npairs; i++) {
        json_t *pair = need(json_array());
        for (uint32_t end = 0; end < 2; end++)
            (void)need(json_array_append_new(
                           pair, json_integer((json_int_t)action->pairs[2 * (size_t)i + end]))
                           ? NULL
                           : pair);
        (void)need(json_array_append_new(list, pair) ? NULL : list);
    }
}

void json_action(json_t *object, const struct action *action)
{
    json_text(object, "collective", peal_collective_name(action->collective));
    json_rank_or_null(object, "root", action_rooted(action), action->root);
    json_rank_or_null(object, "peer", action->collective == PEAL_SENDRECV, action->peer);
    if (action->npairs)
        json_pairs(object, action);
}

void json_actions(json_t *object, const struct actions *actions)
{
    if (actions->count == 1)
        json_action(object, &actions->list[0]);
    else
        json_text(object, "collective", NULL);
    json_t *list = json_list(object, "collectives");
    for (uint32_t i = 0; i < actions->count; i++)
        json_action(json_item(list), &actions->list[i]);
}

void json_team(json_t *object, const struct cli *cli)
{
    if (!cli->team.ranks) {
        json_text(object, "group", NULL);
        json_count(object, "siblings", 0);
        return;
    }
    json_t *list = json_list(object, "group");
    for (size_t i = 0; i < cli->team.ranks; i++)
        (void)need(json_array_append_new(list, json_integer((json_int_t)cli->team.group[i]))
                       ? NULL
                       : list);
    json_count(object, "siblings", team_siblings(&cli->team));
}

void json_row(json_t *object, const peal_row_info *row)
{
    char text[64];
    json_count(object, "min_bytes", row->min_bytes);
    json_count(object, "max_bytes", row->max_bytes);
    json_text(object, "algorithm", row->algorithm);
    json_text(object, "detail", row->detail);
    json_count(object, "channels", row->channels);
    json_count(object, "tile_bytes", row->tile_bytes);
    json_text(object, "protocol", row->protocol);
    json_text(object, "wire", row->wire == PEAL_WIRE_NONE ? NULL : peal_wire_name(row->wire));
    json_t *engines = json_child(object, "engines");
    for (uint32_t c = 0; c < PEAL_LINK_CLASS_COUNT; c++)
        if (row->move_engines[c])
            json_text(engines, peal_link_class_name((peal_link_class)c),
                      engines_text(row->move_engines[c], text, sizeof text));
    json_count(object, "scratch_bytes", row->scratch_bytes);
    json_count(object, "sms", row->sms);
    json_number(object, "time_us", row->time_us);
    json_number(object, "time_min_us", row->time_min_us);
    json_number(object, "time_alone_us", row->time_alone_us);
    json_number(object, "alpha_us", row->alpha_us);
    json_number(object, "algbw_gbs", row->algbw_gbs);
    json_number(object, "busbw_gbs", row->busbw_gbs);
    json_number(object, "bound_us", row->bound_us);
    json_count(object, "net_messages", row->net_messages);
    json_count(object, "net_message_bytes", row->net_message_bytes);
    json_text(object, "binding", row->binding);
    json_text(object, "regime", row->latency_bound ? "latency" : "bandwidth");
    json_count(object, "hop_bytes", row->hop_bytes);
    if (row->order) {
        (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)row->order);
        json_text(object, "order", text);
    }
}
