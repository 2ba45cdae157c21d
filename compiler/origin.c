/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The origin of a plan: a hash of all that its programs follow from, so that ranks that compile
 * their own programs know that they are of one plan (docs/plan-format.md, "Slices"). Anything that
 * changes a program and is not in here would let two plans meet under one name: what a candidate
 * gains in parameters has to be added.
 */
#include "script.h"

#include <string.h>

#define ORIGIN_BYTES_MAX (1u << 23)

static void put_number(struct peal_buf *out, uint64_t value)
{
    char bytes[8];
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (char)(value >> (8 * i) & 0xff);
    peal_buf_put(out, bytes, sizeof bytes);
}

/* With its length: what stands side by side cannot be read as something else. */
static void put_text(struct peal_buf *out, const char *text)
{
    put_number(out, strlen(text));
    peal_buf_str(out, text);
}

static void put_request(struct peal_buf *out, const struct planner *planner)
{
    put_number(out, planner->digest);
    put_number(out, planner->group.n);
    for (uint32_t c = 0; c < PEAL_LINK_CLASS_COUNT; c++)
        put_number(out, planner->request.move_engine[c]);
    for (uint32_t r = 0; planner->group.rank_of && r < planner->group.n; r++)
        put_number(out, planner->group.rank_of[r]);
    put_number(out, planner->npairs);
    for (size_t i = 0; i < 2 * (size_t)planner->npairs; i++)
        put_number(out, planner->pairs[i]);
}

static void put_script(struct peal_buf *out, const struct planner *planner)
{
    put_text(out, planner->script->name);
    put_number(out, peal_script_digest(planner->script));
}

static void put_candidate(struct peal_buf *out, const struct candidate *candidate)
{
    put_number(out, candidate->channels);
    put_number(out, candidate->gateways);
    put_number(out, candidate->trees);
    put_number(out, candidate->forest[0]);
    put_number(out, candidate->forest[1]);
    put_number(out, candidate->pieces);
    put_number(out, (uint64_t)candidate->variant);
    put_number(out, candidate->corner);
    put_number(out, candidate->radix);
    put_number(out, candidate->torus);
    put_number(out, candidate->wire);
    put_number(out, candidate->twohop);
    put_number(out, candidate->unit);
    put_number(out, candidate->window);
    put_number(out, candidate->levels);
    put_number(out, candidate->inner);
    put_number(out, candidate->outer);
    put_number(out, candidate->cells);
    put_number(out, candidate->tile_bytes);
    put_number(out, candidate->chunks);
}

static void put_head(struct peal_buf *out, const struct peal_plan *head)
{
    put_text(out, head->algorithm);
    put_text(out, head->detail);
    put_number(out, head->collective);
    put_number(out, head->root);
    put_number(out, head->peer);
    put_number(out, head->min_bytes);
    put_number(out, head->max_bytes);
    put_number(out, head->tile_bytes);
    put_number(out, head->nchunks);
    put_number(out, head->nsems);
    put_number(out, head->nregions);
    for (uint32_t i = 0; i < head->nregions; i++) {
        put_number(out, head->regions[i].buffer);
        put_number(out, head->regions[i].width);
        put_number(out, head->regions[i].depth);
        put_number(out, head->regions[i].slot_bytes);
    }
}

peal_status peal_emission_origin(const struct planner *planner, const struct candidate *candidate,
                                 struct peal_plan *head)
{
    struct peal_buf out;
    peal_buf_init(&out, planner->ctx, ORIGIN_BYTES_MAX);
    put_text(&out, "peal");
    put_text(&out, peal_version());
    put_request(&out, planner);
    put_candidate(&out, candidate);
    if (candidate->algo == ALGO_SCRIPT)
        put_script(&out, planner);
    put_head(&out, head);
    peal_status status = out.status;
    if (status == PEAL_OK)
        head->origin = peal_hash128(out.data, out.used);
    peal_buf_free(&out);
    return status;
}
