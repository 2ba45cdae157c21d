/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one-shot takes among accelerators. Everything is under way at once: a rank stores its
 * packets (to all at one time, or a gap or a packet's length after the other), turns to what has
 * come when its own are out, and is through with each no sooner than its last word is there.
 * Signals to those who get no packet follow behind. So the time is that of the longest of some
 * ways, each a sum of start-ups, gaps and bytes (max-plus).
 */
#include "oneshot.h"

/* A time at which something happens: gaps, bytes that a lane moves, and messages. */
struct moment {
    double gaps;
    double moved; /* of the message, what is read and written halved */
    double messages;
};

struct course_of {
    const struct planner *planner;
    struct candidate *candidate;
    struct oneshot_load load;
    double lane_us;
    double message_us[2]; /* per byte, of one message, or of the store to all; without siblings */
};

/* A way that begins at the moment, with so much to move behind it; started: and a start-up on it.
 */
static void add(struct course_of *c, struct moment at, int started, double moved)
{
    double us[2];
    for (int i = 0; i < 2; i++)
        us[i] = at.messages * c->message_us[i] + (at.moved + moved) * c->lane_us;
    peal_candidate_course(c->candidate, at.gaps * c->load.gap_us + (started ? c->load.alpha_us : 0),
                          us);
}

/* When the last of the messages begins and ends, by gaps or by what each takes. */
struct send {
    struct moment begin[2];
    struct moment end[2];
    double moved; /* by a lane for one message */
};

static struct send in_turn(double messages, double moved)
{
    double before = messages > 1 ? messages - 1 : 0;
    return (struct send){
        {{before, 0, 0}, {0, 0, before}}, {{before, 0, 1}, {0, 0, before + 1}}, moved};
}

static struct send to_all(double n, double share)
{
    return (struct send){{{0, 0, 0}, {0, 0, 0}}, {{n - 2, 0, 0}, {0, 0, 1}}, (n - 0.5) * share};
}

/* Which of a channel's messages is stored, and how long it takes: the lane's time or the link's. */
static void set_message(struct course_of *c, const struct send *send)
{
    const struct stage *stage = &c->candidate->stage[0];
    double messages = send->end[1].messages, lane_us = send->moved * c->lane_us;
    /* A lane has one link at a time, with all channels that began with the same rank. */
    uint32_t channels = c->candidate->channels, others = (uint32_t)messages;
    double turn_us = c->load.link_us * ((channels + others - 1) / others) / channels;
    double link_us[2] = {stage->load_us / messages, stage->alone_load_us / messages};
    for (int i = 0; i < 2; i++) {
        c->message_us[i] = link_us[i] > lane_us ? link_us[i] : lane_us;
        if (turn_us > c->message_us[i])
            c->message_us[i] = turn_us;
    }
}

/* What has come: its first part is taken when the lane is free and it has begun to arrive, and
 * through when it has ended; the rest follows. copied: of its own input, before that. */
static void take(struct course_of *c, const struct send *send, double copied, double first,
                 double rest)
{
    for (int i = 0; i < 2; i++) {
        add(c, send->end[i], 0, copied + first + rest);
        add(c, send->begin[i], 1, first + rest);
        add(c, send->end[i], 1, rest);
    }
}

static void signals(struct course_of *c)
{
    add(c, (struct moment){c->planner->group.n - 2.0, 0, 0}, 1, 0);
}

/* A fold of all ranks' shares, which the accelerator's unit may bound. */
static double fold_of(const struct course_of *c, double share)
{
    double n = c->planner->group.n, lane = n * share * c->lane_us;
    double unit = n * share * peal_planner_fold_us(c->planner);
    return (unit > lane ? unit : lane) / c->lane_us;
}

/* The root stores, and the others take, who have told each other before. */
static void from_root(struct course_of *c, const struct send *send, double share)
{
    set_message(c, send);
    signals(c);
    add(c, (struct moment){c->planner->group.n - 2.0, 0, 0}, 0, 1.5 * share);
    for (int i = 0; i < 2; i++) {
        add(c, send->end[i], 0, share);
        add(c, send->begin[i], 1, 1.5 * share);
        add(c, send->end[i], 1, 0);
    }
}

/* All store one message to the root at once, and tell the others; the root has told them. */
static void to_root(struct course_of *c, double share, double copied, double first, double rest)
{
    double n = c->planner->group.n;
    struct send send = in_turn(1, 1.5 * share);
    set_message(c, &send);
    signals(c);
    add(c, (struct moment){n - 3, 0, 1}, 1, 0);
    add(c, (struct moment){n - 2, 0, 0}, 0, copied + first + rest);
    add(c, send.begin[0], 1, first + rest);
    add(c, send.end[0], 1, rest);
}

static void sendrecv(struct course_of *c)
{
    double n = c->planner->group.n, out = c->load.most_out, told = n - 1 - out;
    double rest = 1.5 * (c->load.most_in > 1 ? c->load.most_in - 1.0 : 0);
    struct send send = in_turn(out, 1.5);
    set_message(c, &send);
    signals(c);
    if (told >= 1)
        add(c, (struct moment){told - 1, 0, out}, 1, 0);
    for (int i = 0; i < 2; i++) { /* the lane turns to what has come when it has told the others */
        send.end[i].gaps += told >= 1 ? told - 1 : 0;
        add(c, send.end[i], 0, 1.5 + rest);
        send.end[i].gaps -= told >= 1 ? told - 1 : 0;
        add(c, send.begin[i], 1, 1.5 + rest);
        add(c, send.end[i], 1, rest);
    }
}

static void alltoall(struct course_of *c, double share)
{
    double n = c->planner->group.n;
    struct send send = in_turn(n - 1, 1.5 * share);
    set_message(c, &send);
    /* Taken in the order in which they come. */
    for (int i = 0; i < 2; i++) {
        add(c, send.end[i], 0, share + (n - 1) * 1.5 * share);
        add(c, send.begin[i], 1, 1.5 * share);
        add(c, send.end[i], 1, 0);
    }
    add(c, (struct moment){0, 0, 0}, 1, (n - 1) * 1.5 * share);
}

void peal_oneshot_courses(const struct planner *planner, struct candidate *candidate,
                          const struct oneshot_load *load)
{
    double n = planner->group.n, share = peal_peers_share(planner);
    struct course_of c = {.planner = planner, .candidate = candidate, .load = *load};
    struct send all = to_all(n, share), turns = in_turn(n - 1, 1.5 * share);
    c.lane_us = 1 / (peal_planner_lane_gbs(planner) * 1e3) / candidate->channels;
    switch (planner->request.collective) {
    case PEAL_ALLREDUCE:
        set_message(&c, &all);
        take(&c, &all, 0, fold_of(&c, share), 0);
        break;
    case PEAL_REDUCE_SCATTER:
        set_message(&c, &turns);
        take(&c, &turns, 0, fold_of(&c, share), 0);
        break;
    case PEAL_ALLGATHER:
        set_message(&c, &all);
        take(&c, &all, share, 1.5 * share, (n - 2) * 1.5 * share);
        break;
    case PEAL_ALLTOALL:
        alltoall(&c, share);
        break;
    case PEAL_BROADCAST:
        from_root(&c, &all, share);
        break;
    case PEAL_SCATTER:
        from_root(&c, &turns, share);
        break;
    case PEAL_REDUCE:
        to_root(&c, share, 0, fold_of(&c, share), 0);
        break;
    case PEAL_GATHER:
        to_root(&c, share, share, 1.5 * share, (n - 2) * 1.5 * share);
        break;
    case PEAL_SENDRECV:
        sendrecv(&c);
        break;
    default:
        signals(&c);
    }
}
