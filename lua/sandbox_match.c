/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns: those of Lua, by a matcher that is charged for each step. */
#include "box.h"

#include <ctype.h>
#include <string.h>

#define CAPTURES 32
#define DEPTH 200
#define OPEN (-1)  /* a capture whose end is not known yet */
#define PLACE (-2) /* () captures a place */

struct matcher {
    lua_State *L;
    const char *text;
    const char *end;
    const char *pattern_end;
    int depth;
    int captures;
    struct {
        const char *at;
        ptrdiff_t bytes;
    } capture[CAPTURES];
};

static const char *match_here(struct matcher *m, const char *s, const char *p);

/* Behind one item of a pattern: a character, an escape, or a set. */
static const char *item_end(struct matcher *m, const char *p)
{
    if (*p++ == '%') {
        if (p == m->pattern_end)
            peal_lua_error(m->L, "a pattern ends in '%%'");
        return p + 1;
    }
    if (p[-1] != '[')
        return p;
    if (p < m->pattern_end && *p == '^')
        p++;
    do { /* a ] in the first place is a character */
        if (p == m->pattern_end)
            peal_lua_error(m->L, "a pattern has a '[' without its ']'");
        if (*p++ == '%' && p < m->pattern_end)
            p++;
    } while (p == m->pattern_end || *p != ']');
    return p + 1;
}

static int in_class(int c, int class)
{
    int found;
    switch (tolower(class)) {
    case 'a':
        found = isalpha(c);
        break;
    case 'c':
        found = iscntrl(c);
        break;
    case 'd':
        found = isdigit(c);
        break;
    case 'g':
        found = isgraph(c);
        break;
    case 'l':
        found = islower(c);
        break;
    case 'p':
        found = ispunct(c);
        break;
    case 's':
        found = isspace(c);
        break;
    case 'u':
        found = isupper(c);
        break;
    case 'w':
        found = isalnum(c);
        break;
    case 'x':
        found = isxdigit(c);
        break;
    default:
        return class == c;
    }
    return isupper(class) ? !found : found != 0;
}

/* p is at the [, last at its ]. */
static int in_set(struct matcher *m, int c, const char *p, const char *last)
{
    int wanted = 1;
    if (p[1] == '^') {
        wanted = 0;
        p++;
    }
    peal_sandbox_charge(m->L, (uint64_t)(last - p));
    while (++p < last) {
        if (*p == '%') {
            p++;
            if (in_class(c, (unsigned char)*p))
                return wanted;
        } else if (p[1] == '-' && p + 2 < last) {
            if ((unsigned char)*p <= c && c <= (unsigned char)p[2])
                return wanted;
            p += 2;
        } else if ((unsigned char)*p == c) {
            return wanted;
        }
    }
    return !wanted;
}

/* Whether the character at s is one of the item from p to end. */
static int is_one(struct matcher *m, const char *s, const char *p, const char *end)
{
    peal_sandbox_charge(m->L, 1);
    if (s >= m->end)
        return 0;
    int c = (unsigned char)*s;
    switch (*p) {
    case '.':
        return 1;
    case '%':
        return in_class(c, (unsigned char)p[1]);
    case '[':
        return in_set(m, c, p, end - 1);
    default:
        return (unsigned char)*p == c;
    }
}

static const char *match_balance(struct matcher *m, const char *s, const char *p)
{
    if (p + 1 >= m->pattern_end)
        peal_lua_error(m->L, "a pattern has a '%%b' without its two characters");
    if (s >= m->end || *s != *p)
        return NULL;
    for (int depth = 1; ++s < m->end;) {
        peal_sandbox_charge(m->L, 1);
        if (*s == p[1]) {
            if (--depth == 0)
                return s + 1;
        } else if (*s == *p) {
            depth++;
        }
    }
    return NULL;
}

/* %f[set]: between a character that is not of the set and one that is. */
static const char *match_frontier(struct matcher *m, const char *s, const char *p)
{
    if (p >= m->pattern_end || *p != '[')
        peal_lua_error(m->L, "a pattern has a '%%f' without a set");
    const char *end = item_end(m, p);
    int before = s == m->text ? 0 : (unsigned char)s[-1],
        after = s < m->end ? (unsigned char)*s : 0;
    if (in_set(m, before, p, end - 1) || !in_set(m, after, p, end - 1))
        return NULL;
    return match_here(m, s, end);
}

static int capture_number(struct matcher *m, int digit)
{
    int i = digit - '1';
    if (i < 0 || i >= m->captures || m->capture[i].bytes == OPEN)
        peal_lua_error(m->L, "a pattern names capture %d, which is not there", i + 1);
    return i;
}

static const char *match_again(struct matcher *m, const char *s, int digit)
{
    int i = capture_number(m, digit);
    size_t bytes = m->capture[i].bytes > 0 ? (size_t)m->capture[i].bytes : 0;
    peal_sandbox_charge(m->L, bytes / 16);
    return (size_t)(m->end - s) >= bytes && !memcmp(m->capture[i].at, s, bytes) ? s + bytes : NULL;
}

static const char *begin_capture(struct matcher *m, const char *s, const char *p, ptrdiff_t what)
{
    if (m->captures == CAPTURES)
        peal_lua_error(m->L, "a pattern has more than %d captures", CAPTURES);
    m->capture[m->captures].at = s;
    m->capture[m->captures++].bytes = what;
    const char *end = match_here(m, s, p);
    if (!end)
        m->captures--;
    return end;
}

static const char *end_capture(struct matcher *m, const char *s, const char *p)
{
    int i = m->captures - 1;
    while (i >= 0 && m->capture[i].bytes != OPEN)
        i--;
    if (i < 0)
        peal_lua_error(m->L, "a pattern has a ')' without its '('");
    m->capture[i].bytes = s - m->capture[i].at;
    const char *end = match_here(m, s, p);
    if (!end)
        m->capture[i].bytes = OPEN;
    return end;
}

/* As many as there are, then fewer. */
static const char *match_most(struct matcher *m, const char *s, const char *p, const char *end)
{
    ptrdiff_t n = 0;
    while (is_one(m, s + n, p, end))
        n++;
    for (; n >= 0; n--) {
        const char *found = match_here(m, s + n, end + 1);
        if (found)
            return found;
    }
    return NULL;
}

static const char *match_least(struct matcher *m, const char *s, const char *p, const char *end)
{
    for (;; s++) {
        const char *found = match_here(m, s, end + 1);
        if (found || !is_one(m, s, p, end))
            return found;
    }
}

/* An item that is not followed by what continues here itself: *done is 0 when it does. */
static const char *match_item(struct matcher *m, const char **s, const char **p, int *done)
{
    const char *end = item_end(m, *p), *found;
    char suffix = '\0';
    if (end < m->pattern_end)
        suffix = *end;
    *done = 1;
    switch (suffix) {
    case '?':
        if (is_one(m, *s, *p, end) && (found = match_here(m, *s + 1, end + 1)) != NULL)
            return found;
        *p = end + 1;
        break;
    case '+':
        return is_one(m, *s, *p, end) ? match_most(m, *s + 1, *p, end) : NULL;
    case '*':
        return match_most(m, *s, *p, end);
    case '-':
        return match_least(m, *s, *p, end);
    default:
        if (!is_one(m, *s, *p, end))
            return NULL;
        ++*s;
        *p = end;
    }
    *done = 0;
    return NULL;
}

/* Escapes that are no single characters. *done as above. */
static const char *match_escape(struct matcher *m, const char **s, const char **p, int *done)
{
    char what = '\0';
    if (*p + 1 < m->pattern_end)
        what = (*p)[1];
    *done = 1;
    if (what == 'f')
        return match_frontier(m, *s, *p + 2);
    if (what == 'b') {
        *s = match_balance(m, *s, *p + 2);
        *p += 4;
    } else if (isdigit((unsigned char)what)) {
        *s = match_again(m, *s, what);
        *p += 2;
    } else {
        return match_item(m, s, p, done);
    }
    *done = *s == NULL;
    return NULL;
}

static const char *match_from(struct matcher *m, const char *s, const char *p)
{
    while (p != m->pattern_end) {
        int done;
        const char *found;
        peal_sandbox_charge(m->L, 1);
        if (*p == '(' && p + 1 < m->pattern_end && p[1] == ')')
            return begin_capture(m, s, p + 2, PLACE);
        if (*p == '(')
            return begin_capture(m, s, p + 1, OPEN);
        if (*p == ')')
            return end_capture(m, s, p + 1);
        if (*p == '$' && p + 1 == m->pattern_end)
            return s == m->end ? s : NULL;
        found = *p == '%' ? match_escape(m, &s, &p, &done) : match_item(m, &s, &p, &done);
        if (done)
            return found;
    }
    return s;
}

/* The end of what matches pattern p at s; NULL: nothing does. */
static const char *match_here(struct matcher *m, const char *s, const char *p)
{
    if (++m->depth > DEPTH)
        peal_lua_error(m->L, "a pattern is too complex");
    const char *end = match_from(m, s, p);
    m->depth--;
    return end;
}

/* ---- what is found ------------------------------------------------------------------------ */

static void push_capture(struct matcher *m, int i, const char *s, const char *end)
{
    if (i >= m->captures) {
        lua_pushlstring(m->L, s, (size_t)(end - s)); /* no captures: all of it */
        return;
    }
    if (m->capture[i].bytes == OPEN)
        peal_lua_error(m->L, "a pattern has a '(' without its ')'");
    if (m->capture[i].bytes == PLACE)
        lua_pushinteger(m->L, m->capture[i].at - m->text + 1);
    else
        lua_pushlstring(m->L, m->capture[i].at, (size_t)m->capture[i].bytes);
}

static int push_captures(struct matcher *m, const char *s, const char *end)
{
    int n = m->captures || !s ? m->captures : 1;
    if (!lua_checkstack(m->L, n + 1))
        peal_lua_error(m->L, "too many captures");
    for (int i = 0; i < n; i++)
        push_capture(m, i, s, end);
    return n;
}

static void begin_match(struct matcher *m, lua_State *L, const char *text, size_t bytes,
                        const char *pattern_end)
{
    m->L = L;
    m->text = text;
    m->end = text + bytes;
    m->pattern_end = pattern_end;
    m->depth = m->captures = 0;
}

static int is_plain(const char *pattern, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (memchr("^$*+?.([%-", pattern[i], 10))
            return 0;
    return 1;
}

static const char *find_plain(lua_State *L, const char *s, const char *end, const char *what,
                              size_t bytes)
{
    if (!bytes)
        return s;
    while ((size_t)(end - s) >= bytes) {
        const char *at = memchr(s, *what, (size_t)(end - s) - bytes + 1);
        peal_sandbox_charge(L, 2 + (uint64_t)((at ? at : end) - s) / 16);
        if (!at)
            return NULL;
        if (!memcmp(at, what, bytes))
            return at;
        peal_sandbox_charge(L, bytes / 16);
        s = at + 1;
    }
    return NULL;
}

static int found_at(lua_State *L, const char *text, const char *at, size_t bytes)
{
    lua_pushinteger(L, at - text + 1);
    lua_pushinteger(L, at - text + (ptrdiff_t)bytes);
    return 2;
}

static int search(struct matcher *m, const char *s, const char *p, int find)
{
    int anchored = p < m->pattern_end && *p == '^';
    for (p += anchored;; s++) {
        m->captures = 0;
        const char *end = match_here(m, s, p);
        if (end && find)
            return found_at(m->L, m->text, s, (size_t)(end - s)) + push_captures(m, NULL, NULL);
        if (end)
            return push_captures(m, s, end);
        if (anchored || s >= m->end)
            break;
    }
    lua_pushnil(m->L);
    return 1;
}

static int find_or_match(lua_State *L, int find)
{
    size_t bytes, pattern_bytes;
    const char *text = peal_arg_string(L, 1, &bytes);
    const char *pattern = peal_arg_string(L, 2, &pattern_bytes);
    lua_Integer init = peal_arg_integer_or(L, 3, 1);
    struct matcher m;
    init = init < 0 ? init + (lua_Integer)bytes + 1 : init;
    init = init < 1 ? 1 : init;
    if ((uint64_t)init > bytes + 1) {
        lua_pushnil(L);
        return 1;
    }
    const char *from = text + init - 1;
    if (find && (lua_toboolean(L, 4) || is_plain(pattern, pattern_bytes))) {
        const char *at = find_plain(L, from, text + bytes, pattern, pattern_bytes);
        if (at)
            return found_at(L, text, at, pattern_bytes);
        lua_pushnil(L);
        return 1;
    }
    begin_match(&m, L, text, bytes, pattern + pattern_bytes);
    return search(&m, from, pattern, find);
}

int peal_box_find(lua_State *L)
{
    return find_or_match(L, 1);
}

int peal_box_match(lua_State *L)
{
    return find_or_match(L, 0);
}

/* Upvalues: text, pattern, where to go on, where the last match ended (-1: nowhere). */
static int next_match(lua_State *L)
{
    size_t bytes, pattern_bytes;
    const char *text = lua_tolstring(L, lua_upvalueindex(1), &bytes);
    const char *pattern = lua_tolstring(L, lua_upvalueindex(2), &pattern_bytes);
    lua_Integer from = lua_tointeger(L, lua_upvalueindex(3));
    lua_Integer last = lua_tointeger(L, lua_upvalueindex(4));
    struct matcher m;
    begin_match(&m, L, text, bytes, pattern + pattern_bytes);
    for (const char *s = text + from; s <= m.end; s++) {
        m.captures = 0;
        const char *end = match_here(&m, s, pattern);
        if (!end || end - text == last)
            continue;
        lua_pushinteger(L, end - text);
        lua_copy(L, -1, lua_upvalueindex(3));
        lua_replace(L, lua_upvalueindex(4));
        return push_captures(&m, s, end);
    }
    return 0;
}

int peal_box_gmatch(lua_State *L)
{
    (void)peal_arg_string(L, 1, NULL);
    (void)peal_arg_string(L, 2, NULL);
    lua_settop(L, 2);
    lua_pushinteger(L, 0);
    lua_pushinteger(L, -1);
    lua_pushcclosure(L, next_match, 4);
    return 1;
}

/* ---- gsub ------------------------------------------------------------------------------------ */

/* %0 to %9 of a replacement text. */
static void put_template(struct matcher *m, struct box_text *out, const char *s, const char *end)
{
    size_t bytes;
    const char *by = lua_tolstring(m->L, 3, &bytes);
    peal_sandbox_charge(m->L, bytes);
    for (size_t i = 0; i < bytes; i++) {
        if (by[i] != '%') {
            peal_text_put(out, by + i, 1);
            continue;
        }
        i++;
        if (i < bytes && by[i] == '%') {
            peal_text_put(out, "%", 1);
        } else if (i < bytes && by[i] == '0') {
            peal_text_put(out, s, (size_t)(end - s));
        } else if (i < bytes && isdigit((unsigned char)by[i])) {
            size_t length;
            if (by[i] - '1' >= (m->captures ? m->captures : 1))
                peal_lua_error(m->L, "a replacement names a capture that is not there");
            push_capture(m, by[i] - '1', s, end);
            const char *text = lua_tolstring(m->L, -1, &length);
            peal_text_put(out, text, length);
            lua_pop(m->L, 1);
        } else {
            peal_lua_error(m->L, "a '%%' in a replacement stands before a digit or a '%%'");
        }
    }
}

static void put_replaced(struct matcher *m, struct box_text *out, const char *s, const char *end)
{
    lua_State *L = m->L;
    int type = lua_type(L, 3);
    if (type == LUA_TSTRING || type == LUA_TNUMBER) {
        put_template(m, out, s, end);
        return;
    }
    if (type == LUA_TTABLE) {
        push_capture(m, 0, s, end);
        lua_gettable(L, 3);
    } else {
        lua_pushvalue(L, 3);
        lua_call(L, push_captures(m, s, end), 1);
    }
    size_t bytes;
    if (!lua_toboolean(L, -1)) {
        peal_text_put(out, s, (size_t)(end - s));
    } else if (lua_isstring(L, -1)) {
        const char *text = lua_tolstring(L, -1, &bytes);
        peal_text_put(out, text, bytes);
    } else {
        peal_lua_error(L, "a replacement is a %s", lua_typename(L, lua_type(L, -1)));
    }
    lua_pop(L, 1);
}

static lua_Integer substitute(struct matcher *m, struct box_text *out, const char *p,
                              lua_Integer most)
{
    const char *s = m->text, *last = NULL;
    int anchored = p < m->pattern_end && *p == '^';
    lua_Integer n = 0;
    p += anchored;
    while (n < most) {
        m->captures = 0;
        const char *end = match_here(m, s, p);
        if (end && end != last) {
            n++;
            put_replaced(m, out, s, end);
            s = last = end;
        } else if (s < m->end) {
            peal_text_put(out, s++, 1);
        } else {
            break;
        }
        if (anchored)
            break;
    }
    peal_text_put(out, s, (size_t)(m->end - s));
    return n;
}

int peal_box_gsub(lua_State *L)
{
    size_t bytes, pattern_bytes;
    const char *text = peal_arg_string(L, 1, &bytes);
    const char *pattern = peal_arg_string(L, 2, &pattern_bytes);
    int type = lua_type(L, 3);
    lua_Integer most = peal_arg_integer_or(L, 4, (lua_Integer)bytes + 1);
    struct matcher m;
    struct box_text out;
    if (type != LUA_TSTRING && type != LUA_TNUMBER && type != LUA_TTABLE && type != LUA_TFUNCTION)
        peal_arg_error(L, 3, "a string, table or function was expected");
    lua_settop(L, 3);
    if (type == LUA_TNUMBER)
        (void)lua_tolstring(L, 3, NULL);
    begin_match(&m, L, text, bytes, pattern + pattern_bytes);
    peal_text_begin(&out, L);
    lua_Integer n = substitute(&m, &out, pattern, most);
    peal_text_push(&out);
    lua_pushinteger(L, n);
    return 2;
}
