/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds in which everybody sends to one rank and hears from one: the order of schedules in which
 * every rank has something for every other. Where all hosts hold equally many ranks, the hosts
 * pair up and their ranks pair up: in round (l, h) local rank i of host k sends to local rank i + l
 * of host k + h, so that a host's traffic goes to one other host, spread over all of its NICs, the
 * rail-aligned rounds come first, and one round in as many as there are hosts stays inside. On
 * unequal hosts rank r sends to r + i in round i.
 */
#include "compiler.h"

static uint32_t paced(const struct group *group, uint32_t self, uint32_t round, int back)
{
    uint32_t n = group->n, hosts = group->nhosts, locals = group->local_max;
    if (group->local_min != locals)
        return back ? (self + n - round) % n : (self + round) % n;
    uint32_t h = round % hosts, l = round / hosts;
    uint32_t host = self / locals, local = self % locals;
    host = back ? host + hosts - h : host + h;
    local = back ? local + locals - l : local + l;
    return host % hosts * locals + local % locals;
}

uint32_t peal_pace_to(const struct group *group, uint32_t self, uint32_t round)
{
    return paced(group, self, round, 0);
}

uint32_t peal_pace_from(const struct group *group, uint32_t self, uint32_t round)
{
    return paced(group, self, round, 1);
}
