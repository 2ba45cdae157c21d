/* SPDX-License-Identifier: Apache-2.0 */
/* Recursive doubling among the peers of the top level: of whole shards, which each of them ends
 * up with. */
#include "level.h"

void peal_level_double(struct level_run *run, const struct level_phase *phase)
{
    struct build *b = run->b;
    const struct level_phase *before = peal_level_before(run, phase);
    const struct level_phase *after = peal_level_after(run, phase);
    struct doubling_part part = {.n = phase->way.n,
                                 .self = run->peers.self,
                                 .members = run->peers.rank,
                                 .chunk = peal_level_chunk(run, phase, 0, run->peers.self),
                                 .in_buffer = before ? PLAN_BUF_OUT : PLAN_BUF_IN,
                                 .region = peal_level_region(run, run->layout->inbox[phase->level]),
                                 .depth = SLOT_DEPTH,
                                 .sem0 = peal_level_sem(run, phase->level, LEVEL_SEM_FOLD),
                                 .credits = b->plan->tile_bytes != 0};
    peal_build_lane(b);
    peal_build_section(b, 1);
    if (before)
        peal_build_wait(b, b->self, peal_level_ready(run, phase), 0);
    peal_doubling_body(b, &part);
    if (after)
        peal_build_signal(b, b->self, peal_level_ready(run, after));
    peal_build_drain(b);
}
