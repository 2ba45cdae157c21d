/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: slow */
/*
 * The proof by classes against the proof that executes all ranks: both accept what the compiler
 * makes of hierarchical plans, and what the latter rejects of edited ones, the former rejects too,
 * be the edit in one rank, or the same in every host.
 */
#include "compiler.h"
#include "level.h"
#include "machines.h"
#include "support.h"
#include "test_suite.h"
#include "verify_classes.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY_RANKS                                                                                 \
    24u /* of more only some candidates are proven, others for each number of hosts */

static struct test_heap heap;
static peal_ctx *ctx;
static peal_fabric *fabric;
static peal_table *table;

static void set_up(void)
{
    ctx = test_ctx(&heap);
    fabric = NULL;
    table = NULL;
}

static void tear_down(void)
{
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
    ck_assert_int_eq(heap.bytes, 0);
}

/* ---- plans of many hosts ------------------------------------------------------ */

/* A host of so many accelerators behind one switch, with a NIC. */
static void parse_hosts(uint32_t hosts, uint32_t local)
{
    static char xml[8192];
    peal_diag diag = PEAL_DIAG_INIT;
    int used = snprintf(xml, sizeof xml,
                        "<peal version=\"1\" name=\"c\"><host name=\"h\" count=\"%u\">"
                        "<system version=\"1\"><cpu numaid=\"0\" affinity=\"ffff\" arch=\"x86_64\" "
                        "vendor=\"AuthenticAMD\" familyid=\"25\" modelid=\"1\">",
                        hosts);
    for (uint32_t g = 0; g < local; g++)
        used += snprintf(xml + used, sizeof xml - (size_t)used,
                         "<pci busid=\"0000:0%u:00.0\" class=\"0x030200\" "
                         "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"%u\" "
                         "sm=\"90\" rank=\"%u\" gdr=\"1\"><nvlink target=\"0000:c7:00.0\" "
                         "count=\"18\" tclass=\"0x068000\"/></gpu></pci>",
                         g, g, g);
    (void)snprintf(xml + used, sizeof xml - (size_t)used,
                   "<pci busid=\"0000:09:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" "
                   "link_width=\"16\"><nic><net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" "
                   "port=\"1\" guid=\"0x1\" gdr=\"1\"/></nic></pci></cpu></system></host>"
                   "<network kind=\"rails\"/></peal>");
    ck_assert_msg(peal_fabric_parse(ctx, xml, strlen(xml), "c.xml", NULL, &diag, &fabric) ==
                      PEAL_OK,
                  "%s", diag.text);
}

static void load_hosts(const char *topology, uint32_t hosts)
{
    fabric = test_cluster(ctx, topology, hosts, "rails");
}

static const struct planner *planned(const char *algorithm, uint32_t channels, uint64_t tile,
                                     uint64_t bytes)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_request request = PEAL_REQUEST_INIT;
    request.algorithm = algorithm;
    request.depth = 1; /* pieces that overtake each other are proven as a whole */
    request.channels = channels;
    request.tile_bytes = tile;
    request.max_bytes = bytes;
    ck_assert_msg(peal_table_plan(ctx, fabric, &request, &diag, &table) == PEAL_OK, "%s",
                  diag.text);
    return table->planner;
}

static struct emission *emitted(const struct candidate *candidate, uint64_t bytes)
{
    peal_diag diag = PEAL_DIAG_INIT;
    struct emission *emission;
    ck_assert_msg(peal_emission_begin(table->planner, fabric, candidate, 8, bytes, &diag,
                                      &emission) == PEAL_OK,
                  "%s", diag.text);
    return emission;
}

static struct peal_plan *gathered(const struct emission *emission)
{
    struct peal_plan *plan;
    ck_assert_int_eq(peal_plan_gather(peal_emission_source(emission), &plan), PEAL_OK);
    ck_assert_int_eq(peal_plan_seal(plan, NULL), PEAL_OK);
    return plan;
}

static void forget_plans(void)
{
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
    table = NULL;
    fabric = NULL;
}

/* ---- both proofs ------------------------------------------------------------------ */

static void first_finding(void *user, const peal_finding *finding)
{
    char *text = user;
    if (!*text)
        (void)snprintf(text, 480, "%s: %s", finding->kind, finding->text);
}

static peal_status by_classes(const struct peal_plan *plan, struct plan_proof *proof,
                              char text[480])
{
    struct plan_reader reader;
    struct plan_source source;
    peal_diag diag = PEAL_DIAG_INIT;
    *text = 0;
    ck_assert_int_eq(peal_plan_reader_init(&reader, plan, &source), PEAL_OK);
    peal_status status = peal_verify_by_classes(&source, 0, first_finding, text, proof, &diag);
    peal_plan_reader_free(&reader);
    if (status == PEAL_ERR_UNSUPPORTED)
        (void)snprintf(text, 480, "%.400s", diag.text);
    return status;
}

static uint32_t orders; /* plans that have one */

static void both_accept(const struct peal_plan *plan, uint32_t hosts)
{
    struct plan_proof proof;
    char text[480] = "";
    peal_status status = peal_plan_verify(plan, 0, first_finding, text, &proof, NULL);
    ck_assert_msg(status == PEAL_OK, "%s: %s", plan->detail, text);
    ck_assert_uint_eq(proof.classes, 0);
    ck_assert_uint_eq(proof.executed, plan->nranks);
    uint64_t order = proof.order;
    orders += order ? 1 : 0;
    status = by_classes(plan, &proof, text);
    ck_assert_msg(status == PEAL_OK, "%s, tile %u: %s", plan->detail, (unsigned)plan->tile_bytes,
                  text);
    ck_assert_uint_ge(proof.classes, 2);
    ck_assert_uint_eq(proof.blocks, hosts);
    ck_assert_msg(proof.order == order, "%s, tile %u: %016llx, not %016llx", plan->detail,
                  (unsigned)plan->tile_bytes, (unsigned long long)proof.order,
                  (unsigned long long)order);
}

/* Every `stride`th candidate of one number of channels and one tile. */
static uint32_t all_accepted(uint32_t hosts, uint32_t channels, uint64_t tile, uint32_t first,
                             uint32_t stride)
{
    const struct planner *planner = planned("hierarchical", channels, tile, 1 << 20);
    uint32_t count = 0;
    for (uint32_t i = first % stride; i < planner->count; i += stride) {
        struct emission *emission = emitted(&planner->candidates[i], 1 << 20);
        struct peal_plan *plan = gathered(emission);
        both_accept(plan, hosts);
        peal_plan_destroy(plan);
        peal_emission_end(emission);
        count++;
    }
    return count;
}

START_TEST(both_proofs_accept_what_is_compiled)
{
    static const uint32_t locals[] = {2, 3, 4, 8};
    uint32_t count = 0, turn = 0;
    for (uint32_t hosts = 2; hosts <= 17; hosts++)
        for (size_t l = 0; l < sizeof locals / sizeof locals[0]; l++, turn++) {
            if (hosts * locals[l] > 72)
                continue;
            parse_hosts(hosts, locals[l]);
            count += all_accepted(hosts, 1 + turn % 2, turn / 2 % 2 ? 16384 : 0, turn,
                                  hosts * locals[l] > MANY_RANKS ? 3 : 1);
            forget_plans();
        }
    printf("%u plans proven in both ways, %u of them add up every element in one order\n", count,
           orders);
    ck_assert_uint_ge(count, 200);
    ck_assert_uint_ge(orders, 20);
    ck_assert_uint_lt(orders, count);
}
END_TEST

/* Hosts whose ranks do not reach each other, or not all, push to their gateways. */
START_TEST(hosts_without_direct_links_are_proven)
{
    static const char *const hosts[] = {"pcie-8gpu.xml", "dgx1-v100.xml", "slingshot-4gpu.xml"};
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        load_hosts(hosts[i], 3);
        ck_assert_uint_gt(all_accepted(3, 1, 16384, 0, 1), 0);
        forget_plans();
    }
}
END_TEST

/* ---- edits -------------------------------------------------------------------------- */

static uint64_t rng;
static uint32_t random_below(uint32_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 33) % n;
}

struct edit {
    uint32_t lane;
    uint32_t at; /* step of the lane */
    uint32_t kind;
    uint32_t pick; /* which operand, or which way */
    uint32_t local;
    struct plan_step step; /* what was there in the first rank: other hosts must have the like */
};

enum {
    EDIT_DROP,
    EDIT_DOUBLE,
    EDIT_EXCHANGE,
    EDIT_CHUNK,
    EDIT_OPERAND_CHUNK,
    EDIT_SLOT,
    EDIT_REGION,
    EDIT_BUFFER,
    EDIT_RANK,
    EDIT_PEER,
    EDIT_SEM,
    EDIT_LAG,
    EDIT_FINAL,
    EDIT_AFTER,
    EDIT_AWAIT,
    EDIT_SECTION,
    EDITS
};

static struct plan_step *step_of(struct plan_rank *rank, const struct edit *edit)
{
    return &rank->steps[rank->lanes[edit->lane].first + edit->at];
}

static uint32_t length(const struct plan_lane *lane)
{
    return lane->pre + lane->body + lane->post;
}

static uint32_t *section_of(struct plan_lane *lane, uint32_t at)
{
    return at < lane->pre ? &lane->pre : at < lane->pre + lane->body ? &lane->body : &lane->post;
}

static void drop_step(struct plan_rank *rank, const struct edit *edit)
{
    struct plan_lane *lane = &rank->lanes[edit->lane];
    uint32_t at = lane->first + edit->at;
    --*section_of(lane, edit->at);
    memmove(&rank->steps[at], &rank->steps[at + 1], (--rank->nsteps - at) * sizeof *rank->steps);
    for (uint32_t l = edit->lane + 1; l < rank->nlanes; l++)
        rank->lanes[l].first--;
}

static void double_step(struct plan_rank *rank, const struct edit *edit)
{
    struct plan_lane *lane = &rank->lanes[edit->lane];
    uint32_t at = lane->first + edit->at;
    ck_assert_int_eq(peal_grow(ctx, (void **)&rank->steps, &rank->steps_capacity,
                               (size_t)rank->nsteps + 1, sizeof *rank->steps, 1u << 26),
                     PEAL_OK);
    ++*section_of(lane, edit->at);
    memmove(&rank->steps[at + 1], &rank->steps[at], (rank->nsteps++ - at) * sizeof *rank->steps);
    for (uint32_t l = edit->lane + 1; l < rank->nlanes; l++)
        rank->lanes[l].first++;
}

static uint32_t nudged(uint32_t value, uint32_t pick)
{
    return value && pick & 1 ? value - 1 : value + 1;
}

static uint32_t link_of(const struct peal_plan *plan, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < plan->nlinks; i++)
        if (plan->links[i].from == from && plan->links[i].to == to)
            return i + 1;
    return PLAN_NO_LINK;
}

static void change_rank(const struct peal_plan *plan, uint32_t self, int source,
                        struct plan_operand *operand, uint32_t pick, uint32_t local)
{
    uint32_t by = pick & 2 ? local : 1;
    operand->rank = (operand->rank + (pick & 1 ? by : plan->nranks - by)) % plan->nranks;
    operand->link = operand->rank == self ? PLAN_NO_LINK
                    : source              ? link_of(plan, operand->rank, self)
                                          : link_of(plan, self, operand->rank);
}

static void change_chunk(struct plan_step *step, struct plan_operand *operands, uint32_t pick)
{
    step->chunk = nudged(step->chunk, pick);
    for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++)
        if (operands[i].buffer < PLAN_BUF_SCRATCH)
            operands[i].index = step->chunk;
}

static void change_operand(const struct peal_plan *plan, uint32_t self, const struct edit *edit,
                           struct plan_step *step, struct plan_operand *operands)
{
    uint32_t which = edit->pick / 4 % ((uint32_t)step->nsrc + step->ndst);
    struct plan_operand *operand = &operands[which];
    int slot = operand->buffer >= PLAN_BUF_SCRATCH;
    if (edit->kind == EDIT_CHUNK)
        change_chunk(step, operands, edit->pick);
    else if (edit->kind == EDIT_OPERAND_CHUNK && !slot)
        operand->index = nudged(operand->index, edit->pick);
    else if (edit->kind == EDIT_REGION && slot)
        operand->index = nudged(operand->index, edit->pick);
    else if (edit->kind == EDIT_SLOT && slot)
        operand->slot = (uint16_t)nudged(operand->slot, edit->pick);
    else if (edit->kind == EDIT_BUFFER && !slot)
        operand->buffer ^= 1;
    else if (edit->kind == EDIT_RANK)
        change_rank(plan, self, which < step->nsrc, operand, edit->pick, edit->local);
    else if (edit->kind == EDIT_FINAL && step->op == PLAN_REDUCE)
        step->flags ^= PLAN_FLAG_FINAL;
}

static void change_signal(const struct peal_plan *plan, const struct edit *edit,
                          struct plan_step *step)
{
    uint32_t by = edit->pick & 2 ? edit->local : 1;
    if (edit->kind == EDIT_PEER)
        step->peer = (step->peer + (edit->pick & 1 ? by : plan->nranks - by)) % plan->nranks;
    else if (edit->kind == EDIT_SEM)
        step->sem = (uint16_t)nudged(step->sem, edit->pick);
    else if (edit->kind == EDIT_LAG && step->op == PLAN_WAIT)
        step->lag = (uint16_t)nudged(step->lag, edit->pick);
    else if (edit->kind == EDIT_AFTER && step->op == PLAN_SIGNAL)
        step->after = step->after == PLAN_NO_EVENT ? 0 : PLAN_NO_EVENT;
}

/* Moves the lane's step beyond its section's end: into the body from behind, or out of it. */
static void change_section(struct plan_lane *lane, uint32_t pick)
{
    uint32_t *from = pick & 1 ? &lane->body : &lane->post,
             *to = pick & 1 ? &lane->post : &lane->body;
    if (pick & 2)
        to = pick & 1 ? &lane->pre : to;
    if (!*from)
        return;
    --*from;
    ++*to;
}

static void apply(struct peal_plan *plan, uint32_t self, const struct edit *edit)
{
    struct plan_rank *rank = &plan->ranks[self];
    if (edit->lane >= rank->nlanes || edit->at >= length(&rank->lanes[edit->lane]))
        return;
    struct plan_step *step = step_of(rank, edit);
    if (step->op != edit->step.op || step->nsrc != edit->step.nsrc)
        return;
    if (edit->kind == EDIT_DROP)
        drop_step(rank, edit);
    else if (edit->kind == EDIT_DOUBLE)
        double_step(rank, edit);
    else if (edit->kind == EDIT_SECTION)
        change_section(&rank->lanes[edit->lane], edit->pick);
    else if (edit->kind == EDIT_EXCHANGE && edit->at + 1 < length(&rank->lanes[edit->lane])) {
        struct plan_step first = step[0];
        step[0] = step[1];
        step[1] = first;
    } else if (edit->kind == EDIT_AWAIT && step->op == PLAN_AWAIT)
        step->what ^= 1;
    else if (peal_plan_op_moves(step->op))
        change_operand(plan, self, edit, step, &rank->operands[step->operands]);
    else if (step->op != PLAN_AWAIT)
        change_signal(plan, edit, step);
}

struct tally {
    uint32_t planted, malformed, accepted, rejected, refused, stricter;
};

static uint32_t wanted_edit(struct peal_plan *plan, struct edit *edit)
{
    uint32_t self = random_below(plan->nranks);
    struct plan_rank *rank = &plan->ranks[self];
    *edit = (struct edit){.lane = random_below(rank->nlanes),
                          .kind = random_below(EDITS),
                          .pick = random_below(1024),
                          .local = edit->local};
    while (!length(&rank->lanes[edit->lane]))
        edit->lane = (edit->lane + 1) % rank->nlanes;
    edit->at = random_below(length(&rank->lanes[edit->lane]));
    edit->step = *step_of(rank, edit);
    return self;
}

static void judge(const struct peal_plan *plan, const struct edit *edit, uint32_t self, int all,
                  struct tally *tally)
{
    struct plan_proof proof;
    char whole[480] = "", apart[480];
    peal_status enumerated = peal_plan_verify(plan, 0, first_finding, whole, &proof, NULL);
    uint64_t order = proof.order;
    peal_status classes = by_classes(plan, &proof, apart);
    ck_assert_msg(enumerated == PEAL_OK || classes != PEAL_OK,
                  "%s: edit %u of rank %u%s lane %u step %u is taken for right\n%s", plan->detail,
                  edit->kind, self, all ? " and its like" : "", edit->lane, edit->at, whole);
    if (enumerated == PEAL_OK && classes == PEAL_OK)
        ck_assert_msg(proof.order == order, "%s: edit %u of rank %u: another order", plan->detail,
                      edit->kind, self);
    tally->planted++;
    tally->accepted += classes == PEAL_OK;
    tally->rejected += enumerated != PEAL_OK;
    tally->refused += enumerated != PEAL_OK && classes == PEAL_ERR_UNSUPPORTED;
    tally->stricter += enumerated == PEAL_OK && classes != PEAL_OK;
    if (enumerated == PEAL_OK && classes == PEAL_ERR_UNPROVEN)
        printf("  stricter: edit %u of rank %u%s lane %u step %u: %s\n", edit->kind, self,
               all ? " and its like" : "", edit->lane, edit->at, apart);
}

/* Once in one rank, once in the like rank of every host. */
static void plant(const struct emission *emission, uint32_t local, uint32_t count,
                  struct tally *tally)
{
    for (uint32_t i = 0; i < count; i++) {
        struct peal_plan *plan = gathered(emission);
        struct edit edit = {.local = local};
        uint32_t self = wanted_edit(plan, &edit);
        int all = (int)(i & 1);
        struct peal_hash128 before = plan->id;
        for (uint32_t r = 0; r < plan->nranks; r++)
            if (r == self || (all && r % local == self % local))
                apply(plan, r, &edit);
        if (peal_plan_seal(plan, NULL) != PEAL_OK)
            tally->malformed++;
        else if (memcmp(&before, &plan->id, sizeof before) != 0)
            judge(plan, &edit, self, all, tally);
        peal_plan_destroy(plan);
    }
}

START_TEST(what_one_proof_rejects_the_other_rejects)
{
    static const struct {
        uint32_t hosts, local, channels;
        uint64_t tile;
    } shapes[] = {{2, 3, 1, 0}, {3, 2, 1, 16384}, {4, 2, 1, 16384}, {5, 2, 2, 0}, {6, 3, 1, 16384}};
    struct tally tally = {0, 0, 0, 0, 0, 0};
    rng = 0x2545F4914F6CDD1Dull;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        parse_hosts(shapes[s].hosts, shapes[s].local);
        const struct planner *planner =
            planned("hierarchical", shapes[s].channels, shapes[s].tile, 1 << 20);
        for (uint32_t i = 0; i < planner->count; i++) {
            struct emission *emission = emitted(&planner->candidates[i], 1 << 20);
            plant(emission, shapes[s].local, 150, &tally);
            peal_emission_end(emission);
        }
        forget_plans();
    }
    printf("%u edits judged (%u more refused by form): %u rejected by both (%u of them as not "
           "fitting), %u accepted by both, %u rejected by classes only\n",
           tally.planted, tally.malformed, tally.rejected, tally.refused, tally.accepted,
           tally.stricter);
    ck_assert_uint_ge(tally.rejected - tally.refused, 300);
    ck_assert_uint_ge(tally.accepted, 20);
}
END_TEST

/* Two rails that share the semaphores between the same ranks: each is right by itself. */
START_TEST(rails_do_not_share_semaphores)
{
    struct plan_proof proof;
    char text[480] = "";
    uint32_t rejected = 0;
    parse_hosts(4, 2);
    const struct planner *planner = planned("hierarchical", 2, 0, 1 << 20);
    for (uint32_t i = 0; i < planner->count; i++) {
        struct emission *emission = emitted(&planner->candidates[i], 1 << 20);
        struct peal_plan *plan = gathered(emission);
        for (uint32_t r = 0; r < plan->nranks; r++)
            for (uint32_t s = 0; s < plan->ranks[r].nsteps; s++) {
                struct plan_step *step = &plan->ranks[r].steps[s];
                int moves = peal_plan_op_moves(step->op) || step->op == PLAN_AWAIT;
                if (moves || step->peer / 2 == r / 2 || step->sem < 2 * LEVEL_SEMS)
                    continue;
                step->sem = (uint16_t)(step->sem - 2 * LEVEL_SEMS);
            }
        ck_assert_int_eq(peal_plan_seal(plan, NULL), PEAL_OK);
        /* Two trees may have no edge in common. */
        if (peal_plan_verify(plan, 0, NULL, NULL, &proof, NULL) == PEAL_ERR_UNPROVEN) {
            ck_assert_int_ne(by_classes(plan, &proof, text), PEAL_OK);
            rejected++;
        }
        peal_plan_destroy(plan);
        peal_emission_end(emission);
    }
    ck_assert_uint_gt(rejected, 0);
}
END_TEST

/* ---- what does not fit, and what is large --------------------------------------------- */

START_TEST(what_does_not_fit_is_executed_as_a_whole)
{
    struct plan_proof proof;
    char text[480];
    peal_diag diag = PEAL_DIAG_INIT;
    peal_verify_report report = {.size = sizeof report};
    parse_hosts(4, 2);
    const struct planner *planner = planned("ring", 1, 0, 1 << 20);
    struct emission *emission = emitted(&planner->candidates[0], 1 << 20);
    struct peal_plan *plan = gathered(emission);
    ck_assert_int_eq(by_classes(plan, &proof, text), PEAL_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(text, "cannot be proven by classes: rank 0 lane 0"));
    ck_assert_int_eq(
        peal_plan_verify_classes(peal_emission_source(emission), 0, NULL, NULL, &proof, NULL),
        PEAL_OK);
    ck_assert_uint_eq(proof.classes, 0);
    peal_plan_destroy(plan);
    peal_emission_end(emission);
    ck_assert_int_eq(peal_table_compile(table, fabric, &diag), PEAL_OK);
    ck_assert_int_eq(peal_table_prove(table, PEAL_PROOF_CLASSES, NULL, NULL, &report, &diag),
                     PEAL_ERR_UNSUPPORTED);
    ck_assert_int_eq(peal_table_prove(table, PEAL_PROOF_ENUMERATE, NULL, NULL, &report, &diag),
                     PEAL_OK);
    ck_assert_uint_eq(report.by_classes, 0);
    ck_assert_int_eq(peal_table_prove(table, (peal_proof)7, NULL, NULL, &report, &diag),
                     PEAL_ERR_ARG);
}
END_TEST

/* A source whose second reading of a rank is another program. */
struct fickle {
    const struct plan_source *source;
    uint32_t reads;
    struct plan_slice slice;
};

static peal_status read_fickle(void *user, uint32_t rank, const struct plan_slice **slice_out)
{
    struct fickle *fickle = user;
    PEAL_TRY(fickle->source->read(fickle->source->user, rank, slice_out));
    if (rank != 3 || !fickle->reads++)
        return PEAL_OK;
    fickle->slice = **slice_out;
    fickle->slice.program.nlanes--;
    *slice_out = &fickle->slice;
    return PEAL_OK;
}

START_TEST(a_source_that_changes_is_refused)
{
    parse_hosts(3, 2);
    const struct planner *planner = planned("hierarchical", 1, 0, 1 << 20);
    struct emission *emission = emitted(&planner->candidates[0], 1 << 20);
    struct fickle fickle = {.source = peal_emission_source(emission)};
    struct plan_source source = {fickle.source->head, read_fickle, &fickle};
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(peal_plan_verify_classes(&source, 0, NULL, NULL, NULL, &diag), PEAL_ERR_PLAN);
    ck_assert_str_eq(diag.text, "rank 3's program changes as it is read");
    peal_emission_end(emission);
}
END_TEST

static peal_status sweep(peal_ctx *swept, void *user)
{
    struct peal_plan *plan = user;
    struct plan_reader reader;
    struct plan_source source;
    plan->ctx = swept;
    peal_status status = peal_plan_reader_init(&reader, plan, &source);
    if (status == PEAL_OK)
        status = peal_verify_by_classes(&source, 0, NULL, NULL, NULL, NULL);
    peal_plan_reader_free(&reader);
    return status;
}

START_TEST(every_allocation_may_fail)
{
    parse_hosts(3, 2);
    const struct planner *planner = planned("hierarchical", 1, 0, 1 << 20);
    struct emission *emission = emitted(&planner->candidates[0], 1 << 20);
    struct peal_plan *plan = gathered(emission);
    peal_emission_end(emission);
    ck_assert_int_eq(test_oom_sweep(sweep, plan, 3000, NULL), 0);
    plan->ctx = ctx;
    peal_plan_destroy(plan);
}
END_TEST

/* 65 536 ranks, each made when it is looked at. */
START_TEST(as_many_ranks_as_the_format_allows)
{
    uint32_t proven = 0;
    load_hosts("dgx-h100.xml", 8192);
    const struct planner *planner = planned("hierarchical", 1, 0, 64 << 20);
    for (uint32_t i = 0; i < planner->count; i++) {
        const struct candidate *candidate = &planner->candidates[i];
        struct plan_proof proof;
        if (candidate->outer == PART_RING || candidate->tile_bytes || candidate->gateways > 1)
            continue;
        struct emission *emission = emitted(candidate, 64 << 20);
        ck_assert_int_eq(
            peal_plan_verify_classes(peal_emission_source(emission), 0, NULL, NULL, &proof, NULL),
            PEAL_OK);
        ck_assert_uint_eq(proof.blocks, 8192);
        /* One host, and one rail of those that are alike, stand for all. */
        ck_assert_uint_eq(proof.rails, candidate->gateways * candidate->channels);
        ck_assert_uint_eq(proof.executed, 8 + 8192);
        peal_emission_end(emission);
        proven++;
    }
    ck_assert_uint_eq(proven, 2); /* a tree and doubling */
}
END_TEST

static uint32_t hierarchical_rows(const peal_request *request)
{
    peal_diag diag = PEAL_DIAG_INIT;
    uint32_t count = 0;
    ck_assert_msg(peal_table_plan(ctx, fabric, request, &diag, &table) == PEAL_OK, "%s", diag.text);
    for (uint32_t i = 0; i < table->nrows; i++)
        count += peal_streq(table->rows[i].info.algorithm, "hierarchical") ? 1 : 0;
    return count;
}

/* More ranks than are proven as one. */
START_TEST(large_tables_hold_what_is_provable)
{
    peal_request request = PEAL_REQUEST_INIT;
    load_hosts("dgx-h100.xml", PEAL_WHOLE_RANKS / 8);
    ck_assert_uint_lt(hierarchical_rows(&request), table->nrows);
    forget_plans();
    load_hosts("dgx-h100.xml", PEAL_WHOLE_RANKS / 8 + 1);
    ck_assert_uint_eq(hierarchical_rows(&request), table->nrows);
    peal_table_destroy(table);
    table = NULL;
    request.algorithm = "doubling"; /* asked for */
    ck_assert_uint_eq(hierarchical_rows(&request), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("classes");
    TCase *tcase = tcase_create("classes");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 600);
    tcase_add_test(tcase, both_proofs_accept_what_is_compiled);
    tcase_add_test(tcase, hosts_without_direct_links_are_proven);
    tcase_add_test(tcase, what_one_proof_rejects_the_other_rejects);
    tcase_add_test(tcase, rails_do_not_share_semaphores);
    tcase_add_test(tcase, what_does_not_fit_is_executed_as_a_whole);
    tcase_add_test(tcase, a_source_that_changes_is_refused);
    tcase_add_test(tcase, every_allocation_may_fail);
    tcase_add_test(tcase, as_many_ranks_as_the_format_allows);
    tcase_add_test(tcase, large_tables_hold_what_is_provable);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_FORK_GETENV);
}
