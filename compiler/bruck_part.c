/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bruck's schedules (Bruck, Ho, Kipnis, Upfal, Weathersby 1997) for any number of ranks: about
 * log_radix N rounds, in each of which a rank sends radix - 1 messages. Distances are powers of
 * the radix; in the round of distance `far` rank r sends to r - d * far for each digit d.
 */
#include "compiler.h"

/* Sends the blocks [first, first + count) mod n of the own output: as they lie there, so that no
 * rotation is needed at the end; two messages where they run over the last block. */
static void send_range(struct build *b, const struct bruck_part *part, uint32_t to, uint32_t first,
                       uint32_t count)
{
    while (count) {
        uint32_t block = first % part->n;
        uint32_t here = count < part->n - block ? count : part->n - block;
        uint32_t chunk = block * part->channels + part->channel;
        peal_build_span(b, here, part->channels);
        peal_build_push(b, chunk, peal_op_user(b->self, PLAN_BUF_OUT, chunk),
                        peal_op_user(to, PLAN_BUF_OUT, chunk), part->sem0 + 1);
        first += here;
        count -= here;
    }
}

static void hear_range(struct build *b, const struct bruck_part *part, uint32_t from,
                       uint32_t count)
{
    peal_build_wait(b, from, part->sem0 + 1, 0);
    if (from + count > part->n)
        peal_build_wait(b, from, part->sem0 + 1, 0);
}

/* How many blocks the message of a digit has: those from d * far on that far ones hold. */
uint32_t peal_bruck_range(uint32_t n, uint32_t far, uint32_t digit)
{
    uint32_t left = n - digit * far;
    return far < left ? far : left;
}

/* Receivers say that they have entered; whoever returns has heard of all. */
static void enter(struct build *b, const struct bruck_part *part)
{
    for (uint32_t far = 1; far < part->n; far *= part->radix)
        for (uint32_t d = 1; d < part->radix && d * far < part->n; d++)
            peal_build_signal(b, (b->self + d * far) % part->n, part->sem0);
    for (uint32_t far = 1; far < part->n; far *= part->radix)
        for (uint32_t d = 1; d < part->radix && d * far < part->n; d++)
            peal_build_wait(b, (b->self + part->n - d * far) % part->n, part->sem0, 0);
}

void peal_bruck_allgather(struct build *b, const struct bruck_part *part)
{
    uint32_t n = part->n, chunk = b->self * part->channels + part->channel;
    struct plan_operand in = peal_op_user(b->self, PLAN_BUF_IN, chunk);
    struct plan_operand out = peal_op_user(b->self, PLAN_BUF_OUT, chunk);
    enter(b, part);
    peal_build_section(b, 1);
    peal_build_move(b, chunk, 1, &in, 1, &out, PEAL_ENGINE_SM, 0);
    for (uint32_t far = 1; far < n; far *= part->radix) {
        for (uint32_t d = 1; d < part->radix && d * far < n; d++)
            send_range(b, part, (b->self + n - d * far) % n, b->self, peal_bruck_range(n, far, d));
        for (uint32_t d = 1; d < part->radix && d * far < n; d++)
            hear_range(b, part, (b->self + d * far) % n, peal_bruck_range(n, far, d));
    }
}

/*
 * All-to-all. The block of rank p for rank p - j has offset j, and moves by each digit of j in
 * turn, the lowest first; before the round of `far`, rank r holds that of rank r + j mod far. It
 * leaves the input of its sender in the round of its lowest digit other than 0, and arrives in the
 * output of its receiver in that of its highest; in between it lies in slot j of the region of the
 * round in which it came, so that nothing arrives where another block may still have to leave.
 */
struct offsets {
    uint32_t first; /* offsets first, first + step, ...: count of them */
    uint32_t step;
    uint32_t count;
};

static uint32_t chunk_of(const struct bruck_part *part, uint32_t far, uint32_t j)
{
    uint32_t n = part->n;
    uint32_t from = (part->self + j % far) % n, to = (from + n - j) % n;
    return (from * n + to) * part->channels + part->channel;
}

/* The round, from 1 on, in which offset j came to where it is before the round of far; 0: it is
 * its sender's still. */
static uint32_t came_in(const struct bruck_part *part, uint32_t far, uint32_t j)
{
    uint32_t round = 0;
    for (uint32_t left = j % far; left; left /= part->radix)
        round++;
    return round;
}

/* Where offset j, with this chunk, leaves from, and where it arrives. */
/* Slots in a region run with the digits up to its round and against those beyond, so that a
 * message's slots rise with its chunks both where it arrives and where its blocks go on. */
static struct plan_operand slot_of(const struct bruck_part *part, uint32_t rank, uint32_t round,
                                   uint32_t j)
{
    uint32_t whole = 1;
    for (uint32_t i = 0; i < round; i++)
        whole *= part->radix;
    uint32_t last = (part->n - 1) / whole;
    return peal_op_slot(rank, PLAN_BUF_SCRATCH, part->region + round - 1,
                        (last - j / whole) * whole + j % whole);
}

/* Where offset j, with this chunk, leaves from, and where it arrives. */
static struct plan_operand source(const struct bruck_part *part, uint32_t far, uint32_t j,
                                  uint32_t chunk)
{
    uint32_t round = came_in(part, far, j);
    return round ? slot_of(part, part->self, round, j)
                 : peal_op_user(part->self, PLAN_BUF_IN, chunk);
}

static struct plan_operand target(const struct bruck_part *part, uint32_t far, uint32_t j,
                                  uint32_t chunk)
{
    uint32_t whole = far * part->radix, digit = j % whole / far;
    uint32_t to = (part->self + part->n - digit * far) % part->n;
    return j < whole ? peal_op_user(to, PLAN_BUF_OUT, chunk)
                     : slot_of(part, to, came_in(part, whole, j), j);
}

/* One message. Chunks of a span rise; where those of rising offsets fall, it begins at the end. */
static void send_offsets(struct build *b, const struct bruck_part *part, uint32_t far,
                         struct offsets set)
{
    uint32_t last = set.first + (set.count - 1) * set.step;
    uint32_t low = chunk_of(part, far, set.first), high = chunk_of(part, far, last);
    uint32_t first = high < low ? last : set.first, chunk = high < low ? high : low;
    uint32_t all = high < low ? low - high : high - low;
    peal_build_span(b, set.count, set.count > 1 ? all / (set.count - 1) : 0);
    peal_build_jump(b, set.step);
    peal_build_push(b, chunk, source(part, far, first, chunk), target(part, far, first, chunk),
                    part->sem0 + 1);
}

/* 1: offset j may follow offset i in one message: its chunk lies as far behind as each of those
 * before, and both leave from and arrive in the same memory. */
static int joins(const struct bruck_part *part, uint32_t far, uint32_t i, uint32_t j,
                 int64_t *stride)
{
    int64_t apart = (int64_t)chunk_of(part, far, j) - (int64_t)chunk_of(part, far, i);
    uint32_t whole = far * part->radix;
    if (came_in(part, far, i) != came_in(part, far, j) || (i < whole) != (j < whole))
        return 0;
    /* Between ranks that follow one another chunks rise, from one whole round to the next they
     * fall, as slots do; but for where they run over the last rank. */
    if ((j - i == whole) != (apart < 0))
        return 0;
    if (*stride == 0)
        *stride = apart;
    return apart == *stride;
}

/* Cuts offsets into messages and sends them; without b, only counts them. */
static uint32_t cut(struct build *b, const struct bruck_part *part, uint32_t far,
                    struct offsets all)
{
    uint32_t messages = 0;
    for (uint32_t k = 0; k < all.count; messages++) {
        struct offsets one = {all.first + k * all.step, all.step, 1};
        int64_t stride = 0;
        for (; k + one.count < all.count; one.count++) {
            uint32_t next = one.first + one.count * all.step;
            if (!joins(part, far, next - all.step, next, &stride))
                break;
        }
        if (b)
            send_offsets(b, part, far, one);
        k += one.count;
    }
    return messages;
}

/* All offsets of a digit, in runs of neighbours or of those a whole round apart, whichever make
 * longer ones; gives the messages. */
static uint32_t cut_digit(struct build *b, const struct bruck_part *part, uint32_t far,
                          uint32_t digit)
{
    uint32_t n = part->n, start = digit * far, whole = far * part->radix, messages = 0;
    if ((n - start + whole - 1) / whole <= far) {
        for (uint32_t j = start; j < n; j += whole)
            messages += cut(b, part, far, (struct offsets){j, 1, n - j < far ? n - j : far});
        return messages;
    }
    for (uint32_t j = start; j < start + far && j < n; j++)
        messages += cut(b, part, far, (struct offsets){j, whole, (n - j + whole - 1) / whole});
    return messages;
}

uint32_t peal_bruck_messages(const struct bruck_part *part, uint32_t far, uint32_t digit)
{
    return cut_digit(NULL, part, far, digit);
}

uint32_t peal_bruck_blocks(uint32_t n, uint32_t radix, uint32_t far, uint32_t digit)
{
    uint32_t whole = far * radix, full = n / whole, rest = n % whole;
    uint32_t over = rest > digit * far ? rest - digit * far : 0;
    return full * far + (over < far ? over : far);
}

/* As many waits as the sender has messages for this rank. */
static void hear_digit(struct build *b, const struct bruck_part *part, uint32_t far, uint32_t digit)
{
    struct bruck_part theirs = *part;
    theirs.self = (part->self + digit * far) % part->n;
    for (uint32_t i = peal_bruck_messages(&theirs, far, digit); i; i--)
        peal_build_wait(b, theirs.self, part->sem0 + 1, 0);
}

void peal_bruck_alltoall(struct build *b, const struct bruck_part *part)
{
    uint32_t n = part->n, chunk = chunk_of(part, 1, 0);
    struct plan_operand in = peal_op_user(part->self, PLAN_BUF_IN, chunk);
    struct plan_operand out = peal_op_user(part->self, PLAN_BUF_OUT, chunk);
    enter(b, part);
    peal_build_section(b, 1);
    for (uint32_t far = 1; far < n; far *= part->radix) {
        for (uint32_t d = 1; d < part->radix && d * far < n; d++)
            (void)cut_digit(b, part, far, d);
        if (far == 1)
            peal_build_move(b, chunk, 1, &in, 1, &out, PEAL_ENGINE_SM, 0);
        for (uint32_t d = 1; d < part->radix && d * far < n; d++)
            hear_digit(b, part, far, d);
    }
}
