/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which lanes of a rank stay inside its block, and which run between blocks. The latter fall into
 * groups that share neither chunks nor regions; each takes tiles over by one semaphore of the rank
 * with itself, and hands them back by another.
 */
#include "verify_classes.h"

#include <string.h>

/* How lanes use one semaphore of the rank with itself. */
struct self_sem {
    uint32_t signals; /* in all sections */
    uint32_t waits;
    uint32_t signals_body;
    uint32_t waits_body;
    uint32_t signal_lane;
    uint32_t wait_lane;
    int shared; /* more than one lane on a side */
    int lagging;
};

struct splitter {
    struct classes *c;
    uint32_t rank;
    uint32_t first;
    uint32_t count;
    const struct plan_rank *program;
    struct split *split;
    uint8_t outer[PLAN_LANES_MAX];
    uint8_t moves[PLAN_LANES_MAX]; /* outer: it has a data step */
    uint32_t parent[PLAN_LANES_MAX];
    uint32_t sem_lane[PLAN_SEMS_MAX]; /* outer: 1 + the lane that named the index first */
};

static uint32_t lane_length(const struct plan_lane *lane)
{
    return lane->pre + lane->body + lane->post;
}

static int inside(const struct splitter *s, uint32_t rank)
{
    return rank >= s->first && rank - s->first < s->count;
}

static uint32_t root(const struct splitter *s, uint32_t lane)
{
    while (s->parent[lane] != lane)
        lane = s->parent[lane];
    return lane;
}

static void join(struct splitter *s, uint32_t a, uint32_t b)
{
    a = root(s, a);
    b = root(s, b);
    s->parent[a > b ? a : b] = a > b ? b : a;
}

/* ---- inner or outer -------------------------------------------------------- */

static void note_peer(const struct splitter *s, uint32_t peer, int *in, int *out)
{
    if (peer == s->rank)
        return;
    *in |= inside(s, peer);
    *out |= !inside(s, peer);
}

static peal_status classify(struct splitter *s, uint32_t l)
{
    const struct plan_lane *lane = &s->program->lanes[l];
    int in = 0, out = 0;
    for (uint32_t i = 0; i < lane_length(lane); i++) {
        const struct plan_step *step = &s->program->steps[lane->first + i];
        if (step->op == PLAN_SIGNAL || step->op == PLAN_WAIT)
            note_peer(s, step->peer, &in, &out);
        for (uint32_t k = 0; k < (uint32_t)step->nsrc + step->ndst; k++)
            note_peer(s, s->program->operands[step->operands + k].rank, &in, &out);
    }
    if (in && out)
        return peal_classes_refuse(s->c, "rank %u lane %u works inside its host and between hosts",
                                   s->rank, l);
    s->outer[l] = out != 0;
    s->parent[l] = l;
    return PEAL_OK;
}

/* ---- what lanes share ------------------------------------------------------- */

static peal_status use_region(struct splitter *s, uint32_t l, uint32_t region)
{
    uint32_t *lane = &s->c->region_lane[region];
    if (!*lane) {
        *lane = l + 1;
        return PEAL_OK;
    }
    if (s->outer[*lane - 1] != s->outer[l])
        return peal_classes_refuse(
            s->c, "rank %u uses region %u both inside its host and between hosts", s->rank, region);
    if (s->outer[l])
        join(s, *lane - 1, l);
    return PEAL_OK;
}

static peal_status use_operand(struct splitter *s, uint32_t l, const struct plan_operand *operand)
{
    if (operand->buffer == PLAN_BUF_SCRATCH || operand->buffer == PLAN_BUF_PACKET) {
        if (s->outer[l] && operand->buffer == PLAN_BUF_PACKET)
            return peal_classes_refuse(s->c, "rank %u lane %u sends packets between hosts", s->rank,
                                       l);
        return use_region(s, l, operand->index);
    }
    if (s->outer[l] && operand->buffer == PLAN_BUF_IN)
        return peal_classes_refuse(
            s->c, "rank %u lane %u reads an input between hosts, which no host has folded", s->rank,
            l);
    return PEAL_OK;
}

static peal_status use_data(struct splitter *s, uint32_t l, const struct plan_step *step)
{
    uint32_t *lane = &s->c->chunk_lane[step->chunk];
    for (uint32_t k = 0; k < (uint32_t)step->nsrc + step->ndst; k++)
        PEAL_TRY(use_operand(s, l, &s->program->operands[step->operands + k]));
    if (s->outer[l] && step->more)
        return peal_classes_refuse(s->c, "rank %u lane %u moves several chunks in one message",
                                   s->rank, l);
    if (!s->outer[l] && step->flags & PLAN_FLAG_FINAL)
        return peal_classes_refuse(s->c, "rank %u lane %u marks a result final inside its host",
                                   s->rank, l);
    if (s->outer[l] && *lane)
        join(s, *lane - 1, l);
    if (s->outer[l])
        *lane = l + 1;
    s->moves[l] = s->outer[l];
    return PEAL_OK;
}

/* A semaphore towards another block has one lane on each side: those that name its index are taken
 * together, so that one system sees them all. */
static void use_sem(struct splitter *s, uint32_t l, const struct plan_step *step)
{
    uint32_t *lane = &s->sem_lane[step->sem];
    if (!s->outer[l] || step->peer == s->rank)
        return;
    if (*lane)
        join(s, *lane - 1, l);
    *lane = l + 1;
}

static peal_status use_all(struct splitter *s)
{
    for (uint32_t l = 0; l < s->program->nlanes; l++) {
        const struct plan_lane *lane = &s->program->lanes[l];
        for (uint32_t i = 0; i < lane_length(lane); i++) {
            const struct plan_step *step = &s->program->steps[lane->first + i];
            if (peal_plan_op_groups(step->op))
                return peal_classes_refuse(s->c,
                                           "plans whose switches fold are not proven by classes");
            if (peal_plan_op_moves(step->op))
                PEAL_TRY(use_data(s, l, step));
            else if (step->op != PLAN_AWAIT)
                use_sem(s, l, step);
        }
    }
    return PEAL_OK;
}

/* ---- semaphores of the rank with itself --------------------------------------- */

static void note_self(struct self_sem *sem, const struct plan_step *step, uint32_t l, int body)
{
    if (step->op == PLAN_SIGNAL) {
        sem->shared |= sem->signals && sem->signal_lane != l;
        sem->signal_lane = l;
        sem->signals++;
        sem->signals_body += body != 0;
    } else {
        sem->shared |= sem->waits && sem->wait_lane != l;
        sem->lagging |= step->lag != 0;
        sem->wait_lane = l;
        sem->waits++;
        sem->waits_body += body != 0;
    }
}

static void collect_self(const struct splitter *s, struct self_sem *sems)
{
    for (uint32_t l = 0; l < s->program->nlanes; l++) {
        const struct plan_lane *lane = &s->program->lanes[l];
        for (uint32_t i = 0; i < lane_length(lane); i++) {
            const struct plan_step *step = &s->program->steps[lane->first + i];
            int body = i >= lane->pre && i < lane->pre + lane->body;
            if ((step->op == PLAN_SIGNAL || step->op == PLAN_WAIT) && step->peer == s->rank)
                note_self(&sems[step->sem], step, l, body);
        }
    }
}

/* In each trip as often as it is waited on, and not at another time. */
static int hands_over(const struct self_sem *sem)
{
    return !sem->lagging && sem->signals == sem->waits && sem->signals_body == sem->signals &&
           sem->waits_body == sem->waits;
}

/* A lane that moves nothing, but tells when a result is there, goes with the lanes of the chunk
 * that is taken up then. Another guess would fail to be proven, not be proven wrongly. */
static void join_silent(struct splitter *s, uint32_t l, uint32_t taker)
{
    const struct plan_lane *lane = &s->program->lanes[taker];
    for (uint32_t i = 0; i < lane_length(lane); i++) {
        const struct plan_step *step = &s->program->steps[lane->first + i];
        if (peal_plan_op_moves(step->op) && s->c->chunk_lane[step->chunk]) {
            join(s, s->c->chunk_lane[step->chunk] - 1, l);
            return;
        }
    }
}

static peal_status join_self(struct splitter *s, const struct self_sem *sems)
{
    for (uint32_t i = 0; i < PLAN_SEMS_MAX; i++) {
        const struct self_sem *sem = &sems[i];
        if (!sem->signals || !sem->waits)
            continue; /* unbalanced: whichever system it is in says so */
        if (sem->shared)
            return peal_classes_refuse(s->c, "semaphore %u of rank %u with itself is shared", i,
                                       s->rank);
        if (s->outer[sem->signal_lane] == s->outer[sem->wait_lane]) {
            if (s->outer[sem->signal_lane])
                join(s, sem->signal_lane, sem->wait_lane);
        } else if (!hands_over(sem)) {
            return peal_classes_refuse(
                s->c, "semaphore %u of rank %u with itself is not waited on in its trip", i,
                s->rank);
        } else if (s->outer[sem->signal_lane] && !s->moves[sem->signal_lane]) {
            join_silent(s, sem->signal_lane, sem->wait_lane);
        }
    }
    return PEAL_OK;
}

/* ---- groups ---------------------------------------------------------------- */

static void number_groups(struct splitter *s)
{
    struct split *split = s->split;
    split->lanes = s->program->nlanes;
    split->groups = 0;
    for (uint32_t l = 0; l < s->program->nlanes; l++) {
        uint32_t r = root(s, l); /* the first lane of its group */
        if (!s->outer[l])
            split->group[l] = CLASSES_INNER;
        else if (r != l)
            split->group[l] = split->group[r];
        else {
            split->of[split->groups] = (struct split_group){
                .over = CLASSES_NONE, .back = CLASSES_NONE, .rail = CLASSES_NONE};
            split->group[l] = split->groups++;
        }
    }
}

static peal_status find_gates(struct splitter *s, const struct self_sem *sems)
{
    struct split *split = s->split;
    for (uint32_t i = 0; i < PLAN_SEMS_MAX; i++) {
        const struct self_sem *sem = &sems[i];
        if (!sem->signals || !sem->waits || s->outer[sem->signal_lane] == s->outer[sem->wait_lane])
            continue;
        int over = s->outer[sem->wait_lane];
        struct split_group *group =
            &split->of[split->group[over ? sem->wait_lane : sem->signal_lane]];
        uint32_t *place = over ? &group->over : &group->back;
        if (*place != CLASSES_NONE)
            return peal_classes_refuse(s->c, "rank %u hands tiles %s by several semaphores",
                                       s->rank, over ? "over to a rail" : "back from a rail");
        *place = i;
        *(over ? &group->overs : &group->backs) = sem->signals;
        *(over ? &group->over_lane : &group->back_lane) = sem->wait_lane;
    }
    for (uint32_t g = 0; g < split->groups; g++)
        if (split->of[g].over == CLASSES_NONE || split->of[g].back == CLASSES_NONE)
            return peal_classes_refuse(s->c,
                                       "lanes of rank %u between hosts take no tiles from "
                                       "its other lanes, or give none back",
                                       s->rank);
    return PEAL_OK;
}

/* ---- turns ------------------------------------------------------------------- */

/* A lane names its chunks behind the signals that they come with: those that it names first
 * behind its n-th wait are taken to have come with the n-th signal, and what it does not name with
 * the last. Another guess would fail to be proven, not be proven wrongly. */

static peal_status hand_over(struct splitter *s, struct split_group *group, uint32_t chunk,
                             uint32_t turn)
{
    struct split *split = s->split;
    if (s->c->chunk_mark[chunk])
        return PEAL_OK;
    s->c->chunk_mark[chunk] = turn + 1 == group->overs ? 2 : 1;
    PEAL_TRY(peal_grow(s->c->ctx, (void **)&split->over, &split->over_capacity,
                       (size_t)split->turns + 1, sizeof *split->over, PLAN_CHUNKS_MAX));
    PEAL_TRY(peal_grow(s->c->ctx, (void **)&split->back, &split->back_capacity,
                       (size_t)split->turns + 1, sizeof *split->back, PLAN_CHUNKS_MAX));
    split->over[split->turns++] = (struct split_turn){chunk, turn};
    group->chunks++;
    return PEAL_OK;
}

static uint32_t raises(const struct splitter *s, const struct plan_step *step, uint32_t sem)
{
    return step->op == PLAN_WAIT && step->peer == s->rank && step->sem == sem ? 1 : 0;
}

/* late: those that the taker does not name. */
static peal_status list_lane(struct splitter *s, struct split_group *group, uint32_t l, int late)
{
    const struct plan_lane *lane = &s->program->lanes[l];
    uint32_t turn = 0;
    for (uint32_t i = 0; i < lane_length(lane); i++) {
        const struct plan_step *step = &s->program->steps[lane->first + i];
        turn += raises(s, step, group->over);
        if (peal_plan_op_moves(step->op))
            PEAL_TRY(hand_over(s, group, step->chunk,
                               late   ? group->overs - 1
                               : turn ? turn - 1
                                      : 0));
    }
    return PEAL_OK;
}

static peal_status list_over(struct splitter *s, uint32_t g)
{
    struct split_group *group = &s->split->of[g];
    group->first = s->split->turns;
    PEAL_TRY(list_lane(s, group, group->over_lane, 0));
    for (uint32_t l = 0; l < s->program->nlanes; l++)
        if (s->split->group[l] == g)
            PEAL_TRY(list_lane(s, group, l, 1));
    return PEAL_OK;
}

/* Takes the marks off again. Nothing may come back before all has been handed over: what comes
 * back first has to hold something that was handed over last. */
static peal_status list_back(struct splitter *s, struct split_group *group)
{
    const struct plan_lane *lane = &s->program->lanes[group->back_lane];
    struct split_turn *back = s->split->back + group->first;
    uint32_t *mark = s->c->chunk_mark, turn = 0, count = 0;
    int whole = 0;
    for (uint32_t i = 0; i < lane_length(lane); i++) {
        const struct plan_step *step = &s->program->steps[lane->first + i];
        turn += raises(s, step, group->back);
        if (!turn || !peal_plan_op_moves(step->op) || !mark[step->chunk])
            continue;
        whole |= turn == 1 && mark[step->chunk] == 2;
        mark[step->chunk] = 0;
        back[count++] = (struct split_turn){step->chunk, turn - 1};
    }
    for (uint32_t i = 0; i < group->chunks; i++) {
        uint32_t chunk = s->split->over[group->first + i].chunk;
        if (!mark[chunk])
            continue;
        whole |= group->backs == 1 && mark[chunk] == 2;
        mark[chunk] = 0;
        back[count++] = (struct split_turn){chunk, group->backs - 1};
    }
    if (whole)
        return PEAL_OK;
    return peal_classes_refuse(s->c, "rank %u gets tiles back from a rail that waits for others",
                               s->rank);
}

static peal_status list_turns(struct splitter *s)
{
    s->split->turns = 0;
    for (uint32_t g = 0; g < s->split->groups; g++) {
        PEAL_TRY(list_over(s, g));
        PEAL_TRY(list_back(s, &s->split->of[g]));
    }
    return PEAL_OK;
}

/* Leaves the work space as it was. */
static void forget(struct splitter *s)
{
    for (uint32_t i = 0; i < s->program->nsteps; i++)
        if (peal_plan_op_moves(s->program->steps[i].op)) {
            s->c->chunk_lane[s->program->steps[i].chunk] = 0;
            s->c->chunk_mark[s->program->steps[i].chunk] = 0;
        }
    memset(s->c->region_lane, 0, s->c->head->nregions * sizeof(uint32_t));
}

peal_status peal_classes_split(struct classes *c, uint32_t rank, uint32_t first, uint32_t count,
                               const struct plan_rank *program, struct split *split)
{
    struct splitter s = {
        .c = c, .rank = rank, .first = first, .count = count, .program = program, .split = split};
    struct self_sem sems[PLAN_SEMS_MAX] = {{0}};
    peal_status status = PEAL_OK;
    for (uint32_t l = 0; status == PEAL_OK && l < program->nlanes; l++)
        status = classify(&s, l);
    if (status == PEAL_OK)
        status = use_all(&s);
    if (status == PEAL_OK) {
        collect_self(&s, sems);
        status = join_self(&s, sems);
    }
    if (status == PEAL_OK) {
        number_groups(&s);
        status = find_gates(&s, sems);
    }
    if (status == PEAL_OK)
        status = list_turns(&s);
    forget(&s);
    return status;
}
