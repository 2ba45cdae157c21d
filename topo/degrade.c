/* SPDX-License-Identifier: Apache-2.0 */
/* A fabric with links that carry less than they should. Routes stay as they are: they were chosen
 * for the machine that was meant. */
#include "fabric.h"

#include <string.h>

#define NAME_BYTES 64u
#define DEAD 1e-9 /* of a dead link: times stay finite, and nobody takes it by choice */

/* "A>B" of the nodes it lies between. */
static int lies_between(const char *from, const char *to, const char *name)
{
    size_t length = strlen(from);

    return strncmp(name, from, length) == 0 && name[length] == '>' &&
           strcmp(name + length + 1, to) == 0;
}

static peal_status degrade_one(peal_fabric *fabric, uint64_t resource, double factor)
{
    PEAL_TRY(peal_grow(fabric->ctx, (void **)&fabric->slow, &fabric->slow_room,
                       (size_t)fabric->slows + 1, sizeof *fabric->slow, 4096));
    fabric->slow[fabric->slows++] = (struct topo_slow){resource, factor > 0 ? factor : DEAD};
    fabric->digest =
        peal_hash64(fabric->slow, fabric->slows * sizeof *fabric->slow) ^ fabric->digest * 31;
    return PEAL_OK;
}

double peal_topo_slowness(const peal_fabric *fabric, uint64_t resource)
{
    double factor = 1;

    for (uint32_t i = 0; i < fabric->slows; i++) {
        if (fabric->slow[i].resource == resource)
            factor *= fabric->slow[i].factor;
    }
    return factor;
}

peal_status peal_fabric_degrade(peal_fabric *fabric, const char *link, double factor,
                                peal_diag *diag)
{
    uint32_t found = 0;

    if (!fabric || !link || !(factor >= 0 && factor <= 1))
        return peal_fail(diag, PEAL_ERR_ARG, "a link and a factor from 0 to 1 are needed");
    for (uint64_t r = 0; r < fabric->resources; r++) {
        char name[NAME_BYTES], from[NAME_BYTES], to[NAME_BYTES];

        peal_topo_resource_names(fabric, r, name, from, to, NAME_BYTES);
        if (strcmp(name, link) != 0 && !lies_between(from, to, link))
            continue;
        if (degrade_one(fabric, r, factor) != PEAL_OK)
            return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
        found++;
    }
    if (!found)
        return peal_fail(diag, PEAL_ERR_ARG, "%s has no link '%s'; 'peal topo --links' lists them",
                         fabric->name, link);
    return PEAL_OK;
}
