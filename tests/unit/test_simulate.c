/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator against closed forms, where nothing contends: alpha and beta of the cost model by
 * hand; max-min shares on a case small enough to work out; same bytes in every run; memory that
 * runs out; slow links; the queue of many senders into one port.
 */
#include "model.h"
#include "support.h"
#include "test_fixture.h"
#include "test_suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- a plan, simulated */

struct run {
    peal_fabric *fabric;
    peal_table *table;
    peal_sim *sim;
    peal_sim_info info;
};

static peal_fabric *parse(peal_ctx *of, const char *xml)
{
    char base[4096];
    peal_fabric *fabric;
    peal_diag diag = PEAL_DIAG_INIT;
    (void)snprintf(base, sizeof base, "%s", test_source_path("examples/topologies"));
    ck_assert_msg(peal_fabric_parse(of, xml, strlen(xml), "made", base, &diag, &fabric) == PEAL_OK,
                  "%s", diag.text);
    return fabric;
}

/* DGX H100: 0.8 us and 450 GB/s between any two, 45 GB/s a lane. */
static peal_fabric *h100(void)
{
    return parse(ctx, "<peal version=\"1\" name=\"h\"><host name=\"h\" "
                      "topology=\"dgx-h100.xml\"/></peal>");
}

/* Hosts of one process, each with a NIC of 100 Gbit/s, on one switch. */
static peal_fabric *hosts(int count)
{
    char xml[512];
    (void)snprintf(xml, sizeof xml,
                   "<peal version=\"1\" name=\"n\"><host name=\"h\" count=\"%d\" ranks=\"1\">"
                   "<nic name=\"mlx5_0\" speed-gbits=\"100\"/></host>"
                   "<network kind=\"leaf-spine\"/></peal>",
                   count);
    return parse(ctx, xml);
}

static struct run simulate(peal_fabric *fabric, const peal_request *request,
                           const peal_sim_params *params)
{
    struct run run = {.fabric = fabric, .info = {.size = sizeof run.info}};
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_msg(peal_table_plan(ctx, fabric, request, &diag, &run.table) == PEAL_OK, "%s",
                  diag.text);
    ck_assert_msg(peal_table_compile(run.table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    ck_assert_msg(peal_simulate(ctx, fabric, run.table, 0, params, &diag, &run.sim) == PEAL_OK,
                  "%s", diag.text);
    ck_assert_int_eq(peal_sim_get(run.sim, &run.info), PEAL_OK);
    return run;
}

static void done(struct run *run)
{
    peal_sim_destroy(run->sim);
    peal_table_destroy(run->table);
    peal_fabric_destroy(run->fabric);
}

static peal_request request_of(peal_collective collective, const char *algorithm, uint32_t ranks,
                               uint64_t bytes)
{
    peal_request request = PEAL_REQUEST_INIT;
    request.collective = collective;
    request.algorithm = algorithm;
    request.ranks = ranks;
    request.min_bytes = request.max_bytes = bytes;
    return request;
}

static void near(const char *what, uint32_t n, double found, double wanted)
{
    ck_assert_msg(fabs(found / wanted - 1) < 1e-3, "%s of %u: %.6f us, and should be %.6f", what, n,
                  found, wanted);
}

/* ---- closed forms */

#define ALPHA 0.8
#define GPU 450e3 /* bytes per us */
#define LANE 45e3
#define GAP 0.1

/* 2 (N - 1) hops of S / N: through the GPU's port when lanes are many. */
START_TEST(ring)
{
    for (uint32_t n = 2; n <= 8; n++) {
        uint64_t bytes = 32 * 7 * 5 * 9 * 8192; /* all chunks are alike */
        peal_request request = request_of(PEAL_ALLREDUCE, "ring", n, bytes);
        request.channels = 32;
        request.tile_bytes = 1ull << 30;
        struct run run = simulate(h100(), &request, NULL);
        near("ring", n, run.info.time_us, 2 * (n - 1) * (ALPHA + (double)bytes / n / GPU));
        done(&run);
    }
}
END_TEST

/* One lane a rank: a copy, N - 2 folds of one and a half copies, one into two places, copies. */
START_TEST(ring_of_one_lane)
{
    for (uint32_t n = 3; n <= 8; n++) {
        uint64_t bytes = 8 * 7 * 5 * 9 * 65536;
        peal_request request = request_of(PEAL_ALLREDUCE, "ring", n, bytes);
        request.channels = 1;
        request.tile_bytes = 1ull << 30;
        struct run run = simulate(h100(), &request, NULL);
        double chunk = (double)bytes / n / LANE;
        near("ring", n, run.info.time_us,
             2 * (n - 1) * ALPHA + (1 + (n - 2) * 1.5 + 2 + (n - 2)) * chunk);
        done(&run);
    }
}
END_TEST

START_TEST(chain)
{
    static const uint64_t sizes[] = {4096, 1 << 20, 1 << 26};
    for (uint32_t n = 2; n <= 8; n++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            peal_request request = request_of(PEAL_BROADCAST, "chain", n, sizes[i]);
            request.channels = 1;
            request.tile_bytes = 1ull << 30;
            struct run run = simulate(h100(), &request, NULL);
            double copy = (double)sizes[i] / LANE;
            /* The root puts into its own output and the next rank's; the last has nobody behind
             * it. */
            double first = 1.5 * copy;
            near("chain", n, run.info.time_us, 2 * (n - 1) * ALPHA + first + (n - 2) * copy);
            done(&run);
        }
}
END_TEST

/* Down the binomial tree of N = 2^d: all have entered after d start-ups; the root reads once and
 * writes its own output and d children's in one step, the child with the largest subtree d - 1, and
 * so on, each a start-up later. The one with the largest is told last, a gap behind each other. */
START_TEST(tree)
{
    static const uint64_t sizes[] = {4096, 1 << 16, 1 << 20, 1 << 26};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t d = 2; d <= 3; d++) {
            peal_request request = request_of(PEAL_BROADCAST, "tree", 1u << d, sizes[i]);
            request.channels = 1;
            request.tile_bytes = 1ull << 30;
            struct run run = simulate(h100(), &request, NULL);
            double copies = (2 + d) / 2.0, told = (d - 1) * GAP;
            for (uint32_t children = 1; children < d; children++) {
                copies += (1 + children) / 2.0;
                told += (children - 1) * GAP;
            }
            near("tree", 1u << d, run.info.time_us,
                 2 * d * ALPHA + told + copies * (double)sizes[i] / LANE);
            done(&run);
        }
}
END_TEST

/* Over a NIC each: 2 (N - 1) hops of S / N, and half of them are folded behind by one lane. */
START_TEST(ring_of_hosts)
{
    static const uint32_t ranks[] = {3, 5, 8, 12};
    static const uint64_t each[] = {4096, 1 << 20, 1 << 24};
    const double alpha = 10, beta = 11.25e3; /* 100 Gbit/s, of which 0.9 */
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        for (size_t k = 0; k < sizeof each / sizeof *each; k++) {
            uint32_t n = ranks[i];
            peal_request request = request_of(PEAL_ALLREDUCE, "ring", n, n * each[k]);
            request.channels = 1;
            request.tile_bytes = 1ull << 30;
            struct run run = simulate(hosts((int)n), &request, NULL);
            double fold = 1.5 * (double)each[k] / 10e3; /* a core: two in, one out */
            near("ring of hosts", n, run.info.time_us,
                 2 * (n - 1) * (alpha + (double)each[k] / beta) + (n - 1) * fold);
            done(&run);
        }
}
END_TEST

START_TEST(twoshot)
{
    for (uint32_t n = 2; n <= 8; n++) {
        uint64_t bytes = 32 * 7 * 5 * 9 * 65536;
        peal_request request = request_of(PEAL_ALLREDUCE, "twoshot", n, bytes);
        request.channels = 32;
        struct run run = simulate(h100(), &request, NULL);
        near("twoshot", n, run.info.time_us,
             3 * ALPHA + 2 * (n - 2) * 0.1 + 2 * (double)(n - 1) / n * (double)bytes / GPU);
        done(&run);
    }
}
END_TEST

START_TEST(oneshot)
{
    for (uint32_t n = 2; n <= 8; n++) {
        peal_request request = request_of(PEAL_ALLREDUCE, "oneshot", n, 8);
        struct run run = simulate(h100(), &request, NULL);
        near("oneshot", n, run.info.time_us, ALPHA + (n - 2) * 0.1);
        done(&run);
    }
}
END_TEST

/* ---- shares */

static void set_groups(struct peal_sim *sim, uint32_t needs)
{
    for (uint32_t n = 0; n < needs; n++)
        sim->group[n] = (struct sim_group){.cap = sim->need[n].cap,
                                           .first_use = sim->need[n].first_use,
                                           .uses = sim->need[n].uses,
                                           .head = SIM_NONE,
                                           .heap_at = SIM_NONE};
}

static void free_shares(struct peal_sim *sim)
{
    struct sim_vector32 *made[] = {&sim->heap, &sim->fresh,         &sim->dirty,
                                   &sim->part, &sim->part_resource, &sim->levels};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
        peal_free(ctx, made[i]->at, made[i]->capacity * sizeof(uint32_t));
    peal_free(ctx, sim->flow, sim->flow_capacity * sizeof *sim->flow);
    for (uint32_t i = 0; i < sim->resources; i++)
        peal_free(ctx, sim->resource[i].on, sim->resource[i].room * sizeof *sim->resource[i].on);
}

/* Port 0 takes 10, port 1 takes 4. B and C share port 1: 2 each. A and D share what B leaves of
 * port 0, which D loads twice: 8 / 3 each. E is held to 1/2 by its own cap, and leaves C and B
 * less of port 1: 7/4 each, and A and D 8.25 / 3. */
START_TEST(shares)
{
    enum { A, B, C, D, E, FLOWS };
    static struct sim_use use[] = {{0, 1}, {0, 1}, {1, 1}, {1, 1}, {0, 2}, {1, 1}};
    static struct sim_need need[FLOWS] = {{.cap = 100, .first_use = 0, .uses = 1},
                                          {.cap = 100, .first_use = 1, .uses = 2},
                                          {.cap = 100, .first_use = 3, .uses = 1},
                                          {.cap = 100, .first_use = 4, .uses = 1},
                                          {.cap = 0.5, .first_use = 5, .uses = 1}};
    static const double rates[3][FLOWS] = {{8.0 / 3, 2, 2, 8.0 / 3, 0},
                                           {8.25 / 3, 1.75, 1.75, 8.25 / 3, 0.5},
                                           {8 / 3.0, 2, 2, 8 / 3.0, 0}};
    struct sim_resource resource[2] = {{.capacity = 10}, {.capacity = 4}};
    struct sim_record record[FLOWS] = {{0}};
    struct sim_group group[FLOWS];
    struct peal_sim sim = {.ctx = ctx,
                           .need = need,
                           .group = group,
                           .use = use,
                           .resource = resource,
                           .record = record,
                           .resources = 2,
                           .round = 1,
                           .flow_free = SIM_NONE};
    set_groups(&sim, FLOWS);
    for (int step = 0; step < 3; step++) {
        uint32_t first = step == 1 ? E : A, last = step == 0 ? D : E;
        for (uint32_t i = first; step < 2 && i <= last; i++) {
            ck_assert_uint_eq(peal_sim_flow_new(&sim), i);
            sim.flow[i].need = sim.flow[i].record = i;
            record[i].bytes = 1000000;
            peal_sim_flow_begin(&sim, i);
        }
        if (step == 2)
            ck_assert_uint_eq(peal_sim_flow_end(&sim, E), E);
        peal_sim_share(&sim);
        for (uint32_t i = A; i <= (step == 1 ? (uint32_t)E : (uint32_t)D); i++)
            ck_assert_msg(fabs(group[i].rate - rates[step][i]) < 1e-9, "step %d, flow %u: %f", step,
                          i, group[i].rate);
    }
    free_shares(&sim);
}
END_TEST

/* ---- groups, against filling flow by flow */

enum { PORTS = 6, NEEDS = 9, MANY = 40, TURNS = 600 };

struct crowd {
    struct sim_use use[NEEDS * PORTS];
    struct sim_need need[NEEDS];
    struct sim_group group[NEEDS];
    struct sim_resource resource[PORTS];
    struct sim_record record[1];
    uint32_t flows[NEEDS]; /* under way */
    uint32_t seed;
};

static uint32_t draw(struct crowd *c, uint32_t below)
{
    c->seed = c->seed * 1664525u + 1013904223u;
    return (c->seed >> 8) % below;
}

static void make_crowd(struct crowd *c, struct peal_sim *sim)
{
    for (uint32_t n = 0, uses = 0; n < NEEDS; n++) {
        c->need[n] = (struct sim_need){.cap = 0.5 + draw(c, 8), .first_use = uses};
        for (uint32_t p = 0; p < PORTS; p++)
            if (draw(c, 3) == 0)
                c->use[uses++] = (struct sim_use){p, 1 + draw(c, 2)};
        c->need[n].uses = uses - c->need[n].first_use;
    }
    for (uint32_t p = 0; p < PORTS; p++)
        c->resource[p].capacity = 2 + draw(c, 9);
    c->record[0].bytes = 1ull << 50;
    *sim = (struct peal_sim){.ctx = ctx,
                             .need = c->need,
                             .group = c->group,
                             .use = c->use,
                             .resource = c->resource,
                             .record = c->record,
                             .resources = PORTS,
                             .round = 1,
                             .flow_free = SIM_NONE};
    set_groups(sim, NEEDS);
}

/* All rates rise together; those at their cap, or over a full port, stay where they are. */
static void fill_slowly(const struct crowd *c, double *rate)
{
    int still[NEEDS] = {0};
    double level = 0;
    for (;;) {
        double step = 1e30, used[PORTS] = {0}, rising[PORTS] = {0};
        for (uint32_t n = 0; n < NEEDS; n++) {
            rate[n] = still[n] ? rate[n] : level;
            if (!still[n] && c->flows[n] && c->need[n].cap - level < step)
                step = c->need[n].cap - level;
            for (uint32_t u = 0; u < c->need[n].uses; u++) {
                const struct sim_use *use = &c->use[c->need[n].first_use + u];
                used[use->resource] += c->flows[n] * use->weight * rate[n];
                rising[use->resource] += still[n] ? 0 : c->flows[n] * use->weight;
            }
        }
        for (uint32_t p = 0; p < PORTS; p++)
            if (rising[p] > 0 && (c->resource[p].capacity - used[p]) / rising[p] < step)
                step = (c->resource[p].capacity - used[p]) / rising[p];
        if (step > 1e29)
            return;
        level += step;
        for (uint32_t n = 0; n < NEEDS; n++) {
            if (still[n] || !c->flows[n])
                continue;
            rate[n] = level;
            still[n] = level > c->need[n].cap - 1e-9;
            for (uint32_t u = 0; u < c->need[n].uses; u++) {
                uint32_t p = c->use[c->need[n].first_use + u].resource;
                still[n] |= used[p] + step * rising[p] > c->resource[p].capacity - 1e-9;
            }
        }
    }
}

/* A few flows end and begin at one time, often one for the other. */
static void change(struct crowd *c, struct peal_sim *sim)
{
    for (uint32_t i = draw(c, 4) + 1; i-- > 0;) {
        uint32_t n = draw(c, NEEDS), m = draw(c, 2) ? n : draw(c, NEEDS);
        if (c->flows[n] && draw(c, 3)) {
            peal_sim_flow_free(sim, peal_sim_flow_end(sim, n));
            c->flows[n]--;
        }
        if (draw(c, 3) && c->flows[m] < MANY) {
            uint32_t flow = peal_sim_flow_new(sim);
            sim->flow[flow].need = m;
            sim->flow[flow].record = 0;
            peal_sim_flow_begin(sim, flow);
            c->flows[m]++;
        }
    }
}

START_TEST(groups)
{
    for (uint32_t seed = 1; seed <= 20; seed++) {
        struct crowd c = {.seed = seed};
        struct peal_sim sim;
        double rate[NEEDS];
        make_crowd(&c, &sim);
        for (uint32_t turn = 0; turn < TURNS; turn++) {
            change(&c, &sim);
            peal_sim_share(&sim);
            fill_slowly(&c, rate);
            for (uint32_t n = 0; n < NEEDS; n++)
                ck_assert_msg(!c.flows[n] || fabs(c.group[n].rate - rate[n]) < 1e-6,
                              "seed %u, turn %u, need %u: %f, not %f", seed, turn, n,
                              c.group[n].rate, rate[n]);
            sim.now += draw(&c, 5); /* 0: more happens at the same time, once shares are known */
        }
        free_shares(&sim);
    }
}
END_TEST

/* Events come by time, and those of one time as they were noted, whether they come one of a few
 * times after now, which is what rows are for, or any. */
START_TEST(events)
{
    struct crowd c = {.seed = 7};
    struct peal_sim sim = {.ctx = ctx};
    uint64_t pushed = 0, popped = 0;
    struct sim_due last = {0, 0, 0, 0};
    peal_sim_dues_open(&sim);
    while (popped < 20000) {
        for (uint32_t i = draw(&c, 4); i > 0 && pushed < 20000; i--, pushed++) {
            uint32_t after = draw(&c, 3) ? 1000 * draw(&c, 12) : draw(&c, 5000);
            peal_sim_push(&sim, sim.now + after, EV_PACKET_BEGUN, (uint32_t)sim.now + after);
        }
        uint32_t first = peal_sim_first(&sim);
        if (sim.next[first].time == SIM_NEVER)
            continue;
        struct sim_due due = peal_sim_pop(&sim, first);
        ck_assert(due.time > last.time || (due.time == last.time && due.order > last.order));
        ck_assert_uint_eq(due.a, due.time);
        sim.now = due.time;
        last = due;
        popped++;
    }
    ck_assert_uint_eq(sim.next[peal_sim_first(&sim)].time, SIM_NEVER);
    peal_sim_dues_free(&sim);
}
END_TEST

/* A slow link slows what crosses it, and by as much. */
START_TEST(degraded)
{
    uint64_t bytes = 1ull << 30;
    peal_request request = request_of(PEAL_ALLREDUCE, "ring", 8, bytes);
    request.channels = 32;
    struct run run = simulate(h100(), &request, NULL);
    peal_diag diag = PEAL_DIAG_INIT;
    peal_sim *slow;
    peal_sim_info info = {.size = sizeof info};
    ck_assert_int_eq(peal_fabric_degrade(run.fabric, "gpu3>nvs0", 0.25, &diag), PEAL_OK);
    ck_assert_int_eq(peal_simulate(ctx, run.fabric, run.table, 0, NULL, &diag, &slow), PEAL_OK);
    ck_assert_int_eq(peal_sim_get(slow, &info), PEAL_OK);
    near("slow ring", 8, info.time_us, 14 * (ALPHA + (double)bytes / 8 / (GPU / 4)));
    peal_sim_destroy(slow);
    done(&run);
}
END_TEST

/* ---- queues */

/* N - 1 hosts that send a block each at full rate into one port, which takes one of them at a
 * time: the rest of what came in waits there. They begin a gap apart, so the queue is deepest when
 * the last but one ends. */
START_TEST(incast)
{
    for (uint32_t n = 3; n <= 9; n += 3) {
        uint64_t block = 1 << 20;
        peal_request request = request_of(PEAL_GATHER, "direct", 0, block * n);
        peal_sim_params params = PEAL_SIM_PARAMS_INIT;
        peal_sim_port port = {.size = sizeof port};
        request.incast = n;
        request.tile_bytes = 1ull << 30;
        params.buffer_bytes = 1000;
        struct run run = simulate(hosts((int)n), &request, &params);
        double deepest = 0;
        for (uint32_t p = 0; p < run.info.ports; p++) {
            ck_assert_int_eq(peal_sim_port_get(run.sim, p, &port), PEAL_OK);
            deepest = port.depth_bytes > deepest ? port.depth_bytes : deepest;
            if (strstr(port.resource, "h0/") && strstr(port.resource, "rx"))
                ck_assert_msg(port.overrun && port.senders >= 2, "%s: %u of %u senders, %.0f deep",
                              port.resource, port.senders, n - 1, port.depth_bytes);
        }
        ck_assert_msg(fabs(deepest / (double)((n - 2) * block) - 1) < 0.05,
                      "%u senders: %.0f bytes deep", n - 1, deepest);
        done(&run);
    }
}
END_TEST

/* ---- the same, bad input, no memory */

static peal_status append(void *user, const char *data, size_t bytes)
{
    struct peal_hash128 *hash = user;
    struct peal_hash128 part = peal_hash128(data, bytes);
    hash->low = hash->low * 31 + part.low;
    hash->high = hash->high * 31 + part.high;
    return PEAL_OK;
}

START_TEST(same_bytes)
{
    struct peal_hash128 hash[2] = {{0}};
    for (int i = 0; i < 2; i++) {
        peal_request request = request_of(PEAL_ALLREDUCE, "tree", 8, 1 << 20);
        peal_sim_params params = PEAL_SIM_PARAMS_INIT;
        peal_diag diag = PEAL_DIAG_INIT;
        params.keep = 1;
        struct run run = simulate(h100(), &request, &params);
        ck_assert_int_eq(peal_sim_write(run.sim, "flows", append, &hash[i], &diag), PEAL_OK);
        ck_assert_int_eq(peal_sim_write(run.sim, "trace", append, &hash[i], &diag), PEAL_OK);
        done(&run);
    }
    ck_assert(hash[0].low == hash[1].low && hash[0].high == hash[1].high);
}
END_TEST

/* Gives the second of a rank's signals to one semaphore another engine. */
static void split_signals(struct plan_rank *program)
{
    const struct plan_step *first = NULL;
    for (uint32_t i = 0; i < program->nsteps; i++) {
        struct plan_step *step = &program->steps[i];
        if (step->op != PLAN_SIGNAL)
            continue;
        if (first && first->peer == step->peer && first->sem == step->sem) {
            step->engine = PEAL_ENGINE_CE;
            return;
        }
        first = first ? first : step;
    }
    ck_abort_msg("no semaphore has two signals");
}

START_TEST(refused)
{
    peal_request request = request_of(PEAL_ALLREDUCE, "ring", 4, 1 << 16);
    peal_sim_params params = PEAL_SIM_PARAMS_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_sim *sim = NULL;
    struct run run = simulate(h100(), &request, NULL);
    peal_fabric *other = hosts(4), *small = hosts(2);
    ck_assert_int_eq(peal_simulate(ctx, other, run.table, 0, NULL, &diag, &sim), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_simulate(ctx, small, run.table, 0, NULL, &diag, &sim), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_simulate(ctx, run.fabric, run.table, 1, NULL, &diag, &sim), PEAL_ERR_ARG);
    params.bytes = (1 << 16) + 1;
    ck_assert_int_eq(peal_simulate(ctx, run.fabric, run.table, 0, &params, &diag, &sim),
                     PEAL_ERR_RANGE);
    split_signals(&run.table->rows[0].plan->ranks[0]);
    ck_assert_int_eq(peal_simulate(ctx, run.fabric, run.table, 0, NULL, &diag, &sim),
                     PEAL_ERR_PLAN);
    ck_assert_ptr_null(sim);
    peal_fabric_destroy(other);
    peal_fabric_destroy(small);
    done(&run);
}
END_TEST

static peal_status all_of_it(peal_ctx *own, void *user)
{
    const struct run *run = user;
    peal_sim_params params = PEAL_SIM_PARAMS_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_sim *sim;
    params.keep = 1;
    params.buffer_bytes = 1 << 20;
    peal_status status = peal_simulate(own, run->fabric, run->table, 0, &params, &diag, &sim);
    if (status == PEAL_OK)
        peal_sim_destroy(sim);
    return status;
}

START_TEST(no_memory)
{
    uint64_t runs;
    peal_request request = request_of(PEAL_ALLREDUCE, "hierarchical", 0, 1 << 16);
    struct run run = simulate(hosts(4), &request, NULL);
    struct test_heap *kept = &heap;
    int64_t blocks = kept->blocks;
    ck_assert_int_eq(test_oom_sweep(all_of_it, &run, 0, &runs), 0);
    ck_assert_uint_gt(runs, 20);
    ck_assert_int_le(kept->blocks, blocks + 1); /* at most the chunks' lengths, of the plan */
    done(&run);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("simulate");
    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_set_timeout(all, 120);
    tcase_add_test(all, ring);
    tcase_add_test(all, ring_of_one_lane);
    tcase_add_test(all, chain);
    tcase_add_test(all, tree);
    tcase_add_test(all, ring_of_hosts);
    tcase_add_test(all, twoshot);
    tcase_add_test(all, oneshot);
    tcase_add_test(all, shares);
    tcase_add_test(all, groups);
    tcase_add_test(all, events);
    tcase_add_test(all, degraded);
    tcase_add_test(all, incast);
    tcase_add_test(all, same_bytes);
    tcase_add_test(all, refused);
    tcase_add_test(all, no_memory);
    Suite *suite = suite_create("simulate");
    suite_add_tcase(suite, all);
    return run_suite(suite, CK_FORK_GETENV);
}
