/* SPDX-License-Identifier: Apache-2.0 */
/* A string as it grows, in memory that the state counts and frees. */
#include "box.h"

#include <string.h>

#define ROOM 256u

void peal_text_begin(struct box_text *text, lua_State *L)
{
    text->L = L;
    text->room = ROOM;
    text->used = 0;
    text->data = lua_newuserdatauv(L, text->room, 0);
    text->index = lua_gettop(L);
}

static void grow(struct box_text *text, size_t need)
{
    size_t room = 2 * text->room > need ? 2 * text->room : need;
    if (need > SANDBOX_STRING)
        peal_lua_error(text->L, "a string of more than %d bytes", (int)SANDBOX_STRING);
    char *data = lua_newuserdatauv(text->L, room, 0);
    memcpy(data, text->data, text->used);
    lua_replace(text->L, text->index);
    text->data = data;
    text->room = room;
}

void peal_text_put(struct box_text *text, const char *data, size_t bytes)
{
    if (bytes > text->room - text->used)
        grow(text, text->used + bytes);
    memcpy(text->data + text->used, data, bytes);
    text->used += bytes;
}

void peal_text_push(struct box_text *text)
{
    lua_pushlstring(text->L, text->data, text->used);
}
