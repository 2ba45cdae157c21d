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

static uint32_t log2_up(uint32_t n)
{
    uint32_t log = 0;
    while (1ull << log < n)
        log++;
    return log;
}

uint32_t peal_pace_barrier(const struct group *group)
{
    if (group->local_min != group->local_max)
        return log2_up(group->n);
    return log2_up(group->local_max) + log2_up(group->nhosts);
}

/* Dissemination (Hensgen, Finkel, Manber 1988): whoever has heard of 2^k ranks tells one that lies
 * as far away. Inside of hosts first, so that only one round in a doubling of hosts crosses. */
uint32_t peal_pace_barrier_round(const struct group *group, uint32_t k)
{
    uint32_t inside = log2_up(group->local_max);
    if (group->local_min != group->local_max)
        return 1u << k;
    return k < inside ? (1u << k) * group->nhosts : 1u << (k - inside);
}
