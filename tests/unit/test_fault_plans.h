/* SPDX-License-Identifier: Apache-2.0 */
/* Plans to plant faults in: every algorithm with every collective that it serves, on machines of
 * several kinds, with whatever else can be asked for drawn from a seeded generator. */
#ifndef PEAL_TESTS_FAULT_PLANS_H
#define PEAL_TESTS_FAULT_PLANS_H

#include "machines.h"
#include "test_edits.h"

enum machine { SWITCHED, LOADS, PCIE, MESH, TWO_HOSTS, MACHINES };
static const char *const machine_name[MACHINES] = {"one switch", "host memory", "pcie", "mesh",
                                                   "two hosts"};

struct subject {
    const char *algorithm;
    peal_collective collective;
    enum machine machine;
    uint32_t ranks;
    char *text; /* freed with free() */
};

static inline peal_fabric *machine_of(peal_ctx *context, enum machine machine, uint32_t ranks)
{
    static const char *const files[] = {[PCIE] = "pcie-8gpu.xml", [MESH] = "dgx1-v100.xml"};
    char name[32];
    if (machine == SWITCHED) /* accelerators on switches that multicast */
        return test_machine(context, "<peal version=\"1\"><host topology=\"dgx-h100.xml\" "
                                     "multicast=\"yes\"/></peal>");
    if (machine == TWO_HOSTS)
        return test_machine(context, two_hosts);
    if (machine != LOADS)
        return test_example(context, files[machine]);
    (void)snprintf(name, sizeof name, "host:%u", ranks);
    return test_example(context, name);
}

/* A ring and a tree of all ranks, for the algorithms that take them from a file. */
static inline void add_graph(peal_fabric *fabric, uint32_t ranks)
{
    char text[2048] = "<graphs version=\"1\">";
    peal_diag diag = PEAL_DIAG_INIT;
    for (int id = 0; id < 2; id++) {
        size_t used = strlen(text);
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "<graph id=\"%d\" pattern=\"4\"><channel>", id);
        for (uint32_t r = 0; r < ranks; r++)
            used += (size_t)snprintf(text + used, sizeof text - used, "<gpu rank=\"%u\"/>", r);
        (void)snprintf(text + used, sizeof text - used, "</channel></graph>");
    }
    strcat(text, "</graphs>");
    ck_assert_msg(peal_fabric_graph_parse(fabric, text, strlen(text), "g", &diag) == PEAL_OK, "%s",
                  diag.text);
}

/* NULL: not served. */
static inline char *text_of(peal_ctx *context, const peal_fabric *fabric,
                            const peal_request *request)
{
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    struct text text = {0};
    peal_status status = peal_table_plan(context, fabric, request, &diag, &table);
    if (status != PEAL_OK) {
        ck_assert_msg(status == PEAL_ERR_UNSUPPORTED || status == PEAL_ERR_ARG, "%s", diag.text);
        return NULL;
    }
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s %s, %u ranks: %s",
                  request->algorithm, peal_collective_name(request->collective), request->ranks,
                  diag.text);
    ck_assert_int_eq(peal_table_print(table, append, &text, &diag), PEAL_OK);
    peal_table_destroy(table);
    return text.data;
}

static const uint32_t some_pairs[] = {0, 1, 1, 2, 2, 0, 0, 2, 1, 1, 0, 1};

static inline void draw_options(peal_request *request, enum machine machine)
{
    static const char *const levels[] = {NULL, "numa", "host", "numa,host", "pair"};
    static const char *const words[] = {NULL, "direct", "ring", "tree"};
    peal_collective c = request->collective;
    int reduces = c == PEAL_ALLREDUCE || c == PEAL_REDUCE || c == PEAL_REDUCE_SCATTER;
    uint32_t engine = random_below(6);
    request->tile_bytes = random_below(2) ? 2048 : 0;
    request->channels = random_below(4) ? 1 : 2;
    if (c == PEAL_BROADCAST || c == PEAL_REDUCE || c == PEAL_SCATTER || c == PEAL_GATHER)
        request->root = random_below(request->ranks);
    if (c == PEAL_SENDRECV && random_below(2)) {
        request->pairs = some_pairs;
        request->npairs = sizeof some_pairs / sizeof some_pairs[0] / 2;
        request->peer = 0;
    } else if (c == PEAL_SENDRECV)
        request->peer = 1 + random_below(request->ranks - 1);
    request->zero_sm = machine != LOADS && !reduces && random_below(3) == 0;
    if (!request->zero_sm && machine != LOADS && engine < 3)
        request->move_engine[PEAL_LINK_NVLINK] = (uint8_t)((engine == 0   ? PEAL_ENGINE_SM
                                                            : engine == 1 ? PEAL_ENGINE_TMA
                                                                          : PEAL_ENGINE_CE) +
                                                           1);
    request->incast =
        machine == TWO_HOSTS && (c == PEAL_GATHER || c == PEAL_REDUCE) ? random_below(3) : 0;
    if (strcmp(request->algorithm, "hierarchical") == 0) {
        request->levels = levels[random_below(5)];
        request->inner = words[random_below(4)];
        request->outer = words[random_below(4)];
    }
}

/* Takes back what was asked for besides, step by step, until the algorithm can do it. */
static inline char *plan_drawn(peal_ctx *context, struct subject *s)
{
    static const uint32_t fallback[] = {0, 0, 8, 4, 6};
    for (uint32_t attempt = 0; attempt < 5; attempt++) {
        peal_request request = PEAL_REQUEST_INIT;
        s->ranks = fallback[attempt] ? fallback[attempt] : 3 + random_below(6);
        request.algorithm = s->algorithm;
        request.collective = s->collective;
        request.ranks = s->ranks;
        request.min_bytes = request.max_bytes = 1 << 16;
        if (s->collective == PEAL_SENDRECV)
            request.peer = 1;
        if (attempt != 1 && attempt != 4)
            draw_options(&request, s->machine);
        peal_fabric *fabric = machine_of(context, s->machine, s->ranks);
        if (strncmp(s->algorithm, "nccl", 4) == 0 && s->machine == LOADS)
            add_graph(fabric, s->ranks);
        s->text = text_of(context, fabric, &request);
        peal_fabric_destroy(fabric);
        if (s->text)
            return s->text;
    }
    return NULL;
}

/* Subject `index` of all; 0: the algorithm does not serve the collective there. */
static inline int subject_of(peal_ctx *context, uint32_t index, struct subject *s)
{
    s->machine = (enum machine)(index % MACHINES);
    s->collective = (peal_collective)(index / MACHINES % PEAL_CUSTOM);
    s->algorithm = peal_algorithm_name(index / MACHINES / PEAL_CUSTOM);
    rng = 0x2545F4914F6CDD1Dull ^ (uint64_t)(index + 1) << 20;
    for (int i = 0; i < 8; i++)
        (void)random_below(2);
    return plan_drawn(context, s) != NULL;
}

static inline uint32_t subjects(void)
{
    uint32_t algorithms = 0;
    while (peal_algorithm_name(algorithms))
        algorithms++;
    return algorithms * PEAL_CUSTOM * MACHINES;
}

#endif
