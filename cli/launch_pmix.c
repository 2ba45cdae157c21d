/* SPDX-License-Identifier: Apache-2.0 */
/* The part of PMIx that it takes to meet: who we are, and one value from rank 0 to all. */
#include "launch.h"

#include <stdlib.h>
#include <string.h>

int pmix_asks(void)
{
    const char *rank = getenv("PMIX_RANK");
    return rank && *rank;
}

#ifdef PEAL_HAVE_PMIX

#include <pmix.h>
#include <stdbool.h>

static pmix_proc_t self;

static int failed(const char *what, pmix_status_t status)
{
    say(SAY_ERROR, "PMIx: %s: %s", what, PMIx_Error_string(status));
    return EXIT_RUNTIME;
}

/* Of the whole job. */
static pmix_status_t get_number(const char *key, uint32_t *out)
{
    pmix_proc_t job;
    pmix_value_t *value;
    PMIX_LOAD_PROCID(&job, self.nspace, PMIX_RANK_WILDCARD);
    pmix_status_t status = PMIx_Get(&job, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS)
        return status;
    *out = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return status;
}

int pmix_begin(uint32_t *rank, uint32_t *ranks, int *one_host)
{
    uint32_t here = 0;
    pmix_status_t status = PMIx_Init(&self, NULL, 0);
    if (status != PMIX_SUCCESS)
        return failed("starting", status);
    status = get_number(PMIX_JOB_SIZE, ranks);
    if (status != PMIX_SUCCESS)
        return failed("the number of ranks", status);
    *rank = self.rank;
    *one_host = get_number(PMIX_LOCAL_SIZE, &here) == PMIX_SUCCESS && here == *ranks;
    return EXIT_YES;
}

static pmix_status_t put_id(const char *key, const peal_id *id)
{
    pmix_value_t value;
    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = (char *)(uintptr_t)id->bytes;
    value.data.bo.size = sizeof id->bytes;
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, &value);
    return status == PMIX_SUCCESS ? PMIx_Commit() : status;
}

static pmix_status_t get_id(const char *key, peal_id *id)
{
    pmix_proc_t root;
    pmix_value_t *value;
    PMIX_LOAD_PROCID(&root, self.nspace, 0);
    pmix_status_t status = PMIx_Get(&root, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS)
        return status;
    if (value->type == PMIX_BYTE_OBJECT && value->data.bo.size == sizeof id->bytes)
        memcpy(id->bytes, value->data.bo.bytes, sizeof id->bytes);
    else
        status = PMIX_ERR_BAD_PARAM;
    PMIX_VALUE_RELEASE(value);
    return status;
}

/* Not only waits: what a host has already asked another for it would not ask for again. */
static pmix_status_t exchange(void)
{
    pmix_info_t info;
    bool collect = true;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    pmix_status_t status = PMIx_Fence(NULL, 0, &info, 1);
    PMIX_INFO_DESTRUCT(&info);
    return status;
}

int pmix_spread(uint32_t number, int is_root, peal_id *id)
{
    char key[32];
    (void)snprintf(key, sizeof key, "peal-id-%lu", (unsigned long)number);
    pmix_status_t status = is_root ? put_id(key, id) : PMIX_SUCCESS;
    if (status == PMIX_SUCCESS)
        status = exchange();
    if (status == PMIX_SUCCESS && !is_root)
        status = get_id(key, id);
    return status == PMIX_SUCCESS ? EXIT_YES : failed("passing the job's id on", status);
}

void pmix_end(void)
{
    (void)PMIx_Finalize(NULL, 0);
}

#else

int pmix_begin(uint32_t *rank, uint32_t *ranks, int *one_host)
{
    (void)rank;
    (void)ranks;
    (void)one_host;
    say(SAY_ERROR, "started by a PMIx launcher (mpirun, srun), but this peal was built without "
                   "PMIx; --local runs all ranks here");
    return EXIT_RUNTIME;
}

int pmix_spread(uint32_t number, int is_root, peal_id *id)
{
    (void)number;
    (void)is_root;
    (void)id;
    return EXIT_RUNTIME;
}

void pmix_end(void)
{
}

#endif
