/* SPDX-License-Identifier: Apache-2.0 */
/* Names and sentences of statuses. */
#include "base.h"

struct status_row {
    peal_status status;
    const char *name;
    const char *text;
};

static const struct status_row status_rows[] = {
#define X(name, text) {name, #name, text},
#include "status.def"
#undef X
};

static const struct status_row *status_find(peal_status status)
{
    for (size_t i = 0; i < sizeof status_rows / sizeof status_rows[0]; i++) {
        if (status_rows[i].status == status)
            return &status_rows[i];
    }
    return NULL;
}

const char *peal_status_name(peal_status status)
{
    const struct status_row *row = status_find(status);
    return row ? row->name : "PEAL_ERR_UNKNOWN";
}

const char *peal_status_text(peal_status status)
{
    const struct status_row *row = status_find(status);
    return row ? row->text : "an unknown status";
}
