/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: threads */
/* RDMA without a device: what is read of texts and of peers, memory that is kept registered, and
 * calls of four ranks over a fake that delays and reorders between queue pairs. */
#include "test_rdma_fake.h"

#define RANKS 4u

/* ---- texts and numbers */

START_TEST(test_choices)
{
    struct rdma_choice choice;
    ck_assert(rdma_choice_read("mlx5_0", &choice));
    ck_assert_str_eq(choice.device, "mlx5_0");
    ck_assert_uint_eq(choice.port, 0);
    ck_assert_int_eq(choice.gid, -1);
    ck_assert(rdma_choice_read("rxe0:2:13", &choice));
    ck_assert_str_eq(choice.device, "rxe0");
    ck_assert_uint_eq(choice.port, 2);
    ck_assert_int_eq(choice.gid, 13);
    static const char *const bad[] = {"",      ":1",   "a:",     "a:0",    "a:x",
                                      "a:1:",  "a/b",  "a:1:-1", "a:256",  "a:1:1:1",
                                      "a:1:x", "a: 1", "a::1",   "a:1000", "a:1:256"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!rdma_choice_read(bad[i], &choice), "%s", bad[i]);
    char long_name[80];
    memset(long_name, 'x', sizeof long_name);
    long_name[79] = '\0';
    ck_assert(!rdma_choice_read(long_name, &choice));
}
END_TEST

/* RoCE v2 of an IPv4 address first, then what is routed, v1 last; an empty entry never. */
START_TEST(test_gids)
{
    static const uint8_t none[16];
    static const uint8_t ipv4[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1};
    static const uint8_t ipv6[16] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    static const uint8_t local[16] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    ck_assert_int_eq(rdma_gid_rank(none, 1), 0);
    ck_assert_int_gt(rdma_gid_rank(ipv4, 1), rdma_gid_rank(ipv6, 1));
    ck_assert_int_gt(rdma_gid_rank(ipv6, 1), rdma_gid_rank(local, 1));
    ck_assert_int_gt(rdma_gid_rank(local, 1), rdma_gid_rank(ipv4, 0));
    ck_assert_int_gt(rdma_gid_rank(ipv4, 0), rdma_gid_rank(local, 0));
    ck_assert_int_gt(rdma_gid_rank(local, 0), 0);
}
END_TEST

START_TEST(test_closeness)
{
    static const char gpu[] = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0";
    static const char same[] = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0";
    static const char port[] = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:01.0/0000:05:00.0";
    static const char root[] = "/sys/devices/pci0000:00/0000:00:02.0/0000:07:00.0";
    static const char away[] = "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0";
    ck_assert_uint_gt(rdma_closeness(gpu, same), rdma_closeness(gpu, port));
    ck_assert_uint_gt(rdma_closeness(gpu, port), rdma_closeness(gpu, root));
    ck_assert_uint_gt(rdma_closeness(gpu, root), rdma_closeness(gpu, away));
    /* A name that begins like another is another. */
    ck_assert_uint_eq(rdma_closeness("/a/b1", "/a/b2"), rdma_closeness("/a/b1", "/a/c"));
    ck_assert_uint_gt(rdma_closeness("/a/b", "/a/b"), rdma_closeness("/a/b", "/a/b1"));
}
END_TEST

/* ---- what peers say */

static struct rt_layout layout = {.nranks = 4, .nsems = 3, .count_bytes = 128, .counts = 65536};

START_TEST(test_records)
{
    struct rdma_bounds bounds = {.layout = &layout, .rank = 1, .peer = 2, .pairs = 2};
    uint64_t own = layout.counts + 2 * 128 + 2 * 8;
    struct {
        struct rdma_record record;
        int right;
    } list[] = {
        {{.kind = RDMA_SIGNAL, .at = 2, .flags = {7, 9}}, 1},
        {{.kind = RDMA_SIGNAL, .at = 3}, 0},
        {{.kind = RDMA_SIGNAL, .at = UINT64_MAX}, 0},
        {{.kind = RDMA_SIGNAL, .at = 2, .flags = {0, 0, 1}}, 0},
        {{.kind = RDMA_STORE, .at = own}, 1},
        {{.kind = RDMA_STORE, .at = own + 128}, 1},
        {{.kind = RDMA_STORE, .at = own + 8}, 0},
        {{.kind = RDMA_STORE, .at = own + 256}, 0},
        {{.kind = RDMA_OUT, .at = UINT32_MAX, .a = 1, .b = UINT64_MAX - 1}, 1},
        {{.kind = RDMA_OUT, .at = 1ull + UINT32_MAX}, 0},
        {{.kind = RDMA_OUT, .a = 2, .b = UINT64_MAX - 1}, 0},
        {{.kind = RDMA_WANT}, 1},
        {{.kind = RDMA_BYE, .at = 1}, 1},
        {{.kind = RDMA_BYE, .at = 2}, 0},
        {{.kind = 0}, 0},
        {{.kind = 6}, 0},
        {{.kind = UINT32_MAX}, 0},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const struct rdma_record *record = &list[i].record;
        ck_assert_msg(rdma_record_right(record, sizeof *record, &bounds) == list[i].right,
                      "record %zu", i);
        ck_assert(!rdma_record_right(record, sizeof *record - 1, &bounds));
    }
    layout.count_bytes = 0; /* a table that tells no counts */
    ck_assert(!rdma_record_right(&list[4].record, sizeof list[4].record, &bounds));
    layout.count_bytes = 128;
}
END_TEST

START_TEST(test_hellos)
{
    struct rdma_hello right = {
        .mark = RDMA_MARK, .has = 1, .pairs = 2, .scratch = 4096, .scratch_bytes = 8192};
    struct rdma_hello hello = right;
    ck_assert(rdma_hello_right(&hello, 2, 8192));
    ck_assert(!rdma_hello_right(&hello, 3, 8192));
    ck_assert(!rdma_hello_right(&hello, 2, 4096));
    hello.scratch = UINT64_MAX - 8191;
    ck_assert(!rdma_hello_right(&hello, 2, 8192));
    hello = right;
    hello.mark[7] ^= 1;
    ck_assert(!rdma_hello_right(&hello, 2, 8192));
    hello = (struct rdma_hello){.mark = RDMA_MARK};
    ck_assert(rdma_hello_right(&hello, 2, 8192));
    hello.has = 2;
    ck_assert(!rdma_hello_right(&hello, 2, 8192));
}
END_TEST

/* ---- memory that is kept registered */

START_TEST(test_cache)
{
    static char memory[1 << 16];
    struct rdma_nic nic = {.ops = &fake_ops};
    struct rdma_cache cache = {.nic = &nic};
    fake_begin(1);
    cache.spans[0] = (struct rdma_span){memory + 4096, 4096};
    cache.spans[1] = (struct rdma_span){memory + 32768, 4096};
    struct rdma_entry *a = rdma_use(&cache, memory + 4196, 200);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_eq(a->region.at, memory + 4096);
    ck_assert_uint_eq(a->region.bytes, 4096);
    ck_assert_ptr_eq(rdma_use(&cache, memory + 4096, 4096), a);
    ck_assert_uint_eq(fake.regions, 1);
    /* What has not been taken, or only in part, is not there. */
    ck_assert_ptr_null(rdma_use(&cache, memory + 8192, 1));
    ck_assert_ptr_null(rdma_use(&cache, memory + 8100, 200));
    ck_assert_ptr_null(rdma_use(&cache, memory + 4095, 2));
    /* More has been taken: the old one stays for those who use it. */
    cache.spans[0].bytes = 8192;
    struct rdma_entry *b = rdma_use(&cache, memory + 8100, 200);
    ck_assert_ptr_nonnull(b);
    ck_assert_ptr_ne(b, a);
    ck_assert_ptr_ne(rdma_use(&cache, memory + 32768, 1), b);
    rdma_cache_clear(&cache);
    ck_assert_uint_eq(fake.wrong, 0);
    fake_end();
}
END_TEST

/* Places are reused, but never of what is in use; a device may run out of them. */
START_TEST(test_cache_full)
{
    static char memory[64 * 4096];
    struct rdma_nic nic = {.ops = &fake_ops};
    struct rdma_cache cache = {.nic = &nic};
    struct rdma_entry *held[RDMA_REGIONS];
    fake_begin(2);
    for (uint32_t i = 0; i < RDMA_REGIONS; i++) {
        cache.spans[0] = (struct rdma_span){memory + i * 4096, 4096};
        held[i] = rdma_use(&cache, memory + i * 4096, 1);
        ck_assert_ptr_nonnull(held[i]);
    }
    cache.spans[0] = (struct rdma_span){memory + 40 * 4096, 4096};
    ck_assert_ptr_null(rdma_use(&cache, memory + 40 * 4096, 1));
    rdma_unuse(held[5]);
    rdma_unuse(held[3]);
    ck_assert_ptr_eq(rdma_use(&cache, memory + 40 * 4096, 1), held[3]); /* used before 5 */
    cache.spans[0] = (struct rdma_span){memory + 41 * 4096, 4096};
    fake.regions_most = 0;
    ck_assert_ptr_null(rdma_use(&cache, memory + 41 * 4096, 1));
    rdma_cache_clear(&cache);
    ck_assert_uint_eq(fake.wrong, 0);
    fake_end();
}
END_TEST

/* ---- ranks as threads of two hosts */

static struct test_heap heap;
static peal_ctx *ctx;
static peal_table *table;

static peal_table *table_of(peal_collective collective)
{
    static const uint32_t group[RANKS] = {0, 1, 8, 9};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_fabric *fabric;
    peal_table *made;
    peal_request request = PEAL_REQUEST_INIT;
    const char *path = test_source_path("examples/topologies/cluster-h100-2.xml");
    ck_assert_msg(peal_fabric_load(ctx, path, &diag, &fabric) == PEAL_OK, "%s", diag.text);
    request.collective = collective;
    request.ranks = request.group_size = RANKS;
    request.group = group;
    request.min_bytes = 8;
    request.max_bytes = 16 << 20;
    ck_assert_msg(peal_table_plan(ctx, fabric, &request, &diag, &made) == PEAL_OK, "%s", diag.text);
    ck_assert_msg(peal_table_compile(made, fabric, &diag) == PEAL_OK, "%s", diag.text);
    peal_fabric_destroy(fabric);
    return made;
}

static void set_up(void)
{
    ctx = test_ctx(&heap);
    table = table_of(PEAL_ALLREDUCE);
    static const peal_collective more[] = {PEAL_ALLTOALLV, PEAL_ALLGATHER};
    for (size_t i = 0; i < 2; i++) {
        peal_table *other = table_of(more[i]);
        ck_assert_int_eq(peal_table_join(table, other, NULL), PEAL_OK);
        peal_table_destroy(other);
    }
    ck_assert_int_eq(peal_table_verify(table, NULL, NULL, NULL, NULL), PEAL_OK);
}

static void tear_down(void)
{
    peal_table_destroy(table);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}

struct member;
typedef void (*member_fn)(struct member *self, peal_comm *comm);

struct member {
    uint32_t rank;
    const peal_id *id;
    peal_meeting *meeting;
    const char *rdma;
    uint32_t sockets;
    uint32_t timeout_ms;
    member_fn body;
    peal_world *world;
    pthread_t thread;
    peal_status status;
    char text[512];
    uint32_t wrong;
    uint64_t random;
};

static void *member_main(void *user)
{
    struct member *self = user;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_join_params params = PEAL_JOIN_PARAMS_INIT;
    peal_comm *comm = NULL;
    params.rank = self->rank;
    params.ranks = RANKS;
    params.id = self->id;
    params.meeting = self->meeting;
    params.host = self->rank < 2 ? "left" : "right";
    params.sockets = self->sockets;
    params.heap_bytes = 32 << 20;
    params.timeout_ms = self->timeout_ms;
    params.rdma = self->rdma;
    self->status = peal_world_join(ctx, &params, table, &diag, &self->world);
    if (self->status == PEAL_OK)
        self->status = peal_comm_create(self->world, table, self->rank, &diag, &comm);
    if (self->status == PEAL_OK)
        self->body(self, comm);
    else
        (void)snprintf(self->text, sizeof self->text, "%s", diag.text);
    peal_comm_destroy(comm);
    peal_world_destroy(self->world);
    return NULL;
}

static void run_members(struct member *members, const struct member *like)
{
    peal_id id;
    peal_meeting *meeting;
    ck_assert_int_eq(peal_meeting_open(ctx, NULL, 0, NULL, &meeting, &id), PEAL_OK);
    for (uint32_t r = 0; r < RANKS; r++) {
        members[r] = *like;
        members[r].rank = r;
        members[r].id = &id;
        members[r].meeting = r ? NULL : meeting;
        members[r].random = r + 1;
        ck_assert_int_eq(pthread_create(&members[r].thread, NULL, member_main, &members[r]), 0);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        (void)pthread_join(members[r].thread, NULL);
}

static void expect_all_right(const struct member *members)
{
    for (uint32_t r = 0; r < RANKS; r++)
        ck_assert_msg(members[r].status == PEAL_OK && members[r].wrong == 0, "rank %u: %d, %u: %s",
                      r, members[r].status, members[r].wrong, members[r].text);
    ck_assert_uint_eq(fake.wrong, 0);
}

static void note(struct member *self, peal_status status, const peal_diag *diag)
{
    if (status == PEAL_OK || self->status != PEAL_OK)
        return;
    self->status = status;
    (void)snprintf(self->text, sizeof self->text, "%s", diag->text);
}

static void dawdle(struct member *self)
{
    self->random = self->random * 6364136223846793005u + 1442695040888963407u;
    if (self->random >> 62 == 0)
        rt_sleep_us((uint32_t)(self->random >> 52 & 511));
}

static void reduce(struct member *self, peal_comm *comm, int32_t *in, int32_t *out, size_t count,
                   uint32_t call)
{
    peal_diag diag = PEAL_DIAG_INIT;
    for (size_t i = 0; i < count; i++)
        in[i] = (int32_t)(i % 1000 * (self->rank + 1) + call);
    dawdle(self);
    note(self, peal_allreduce(comm, in, out, count, PEAL_INT32, PEAL_SUM, &diag), &diag);
    for (size_t i = 0; i < count && self->status == PEAL_OK; i++)
        self->wrong += out[i] != (int32_t)(i % 1000 * 10 + 4 * call);
}

static void gather(struct member *self, peal_comm *comm, int32_t *in, int32_t *out, size_t count,
                   uint32_t call)
{
    peal_diag diag = PEAL_DIAG_INIT;
    for (size_t i = 0; i < count; i++)
        in[i] = (int32_t)(i * RANKS + self->rank + call);
    dawdle(self);
    note(self, peal_allgather(comm, in, out, count, PEAL_INT32, &diag), &diag);
    for (size_t i = 0; i < RANKS * count && self->status == PEAL_OK; i++)
        self->wrong += out[i] != (int32_t)(i % count * RANKS + i / count + call);
}

static void exchange(struct member *self, peal_comm *comm, uint32_t call)
{
    static const size_t block = 700;
    peal_diag diag = PEAL_DIAG_INIT;
    size_t send[RANKS], got[RANKS];
    int32_t in[RANKS * 700], out[RANKS * 700];
    for (uint32_t r = 0; r < RANKS; r++)
        send[r] = (self->rank * 7 + r * 13 + call * 101) % (block + 1);
    for (uint32_t i = 0; i < RANKS * block; i++)
        in[i] = (int32_t)(self->rank * 10000 + i);
    memset(out, 0xff, sizeof out);
    note(self, peal_alltoallv(comm, in, send, out, got, block, PEAL_INT32, &diag), &diag);
    for (uint32_t r = 0; r < RANKS && self->status == PEAL_OK; r++) {
        size_t want = (r * 7 + self->rank * 13 + call * 101) % (block + 1);
        self->wrong += got[r] != want;
        for (size_t i = 0; i < block; i++) {
            int32_t sent = (int32_t)(r * 10000 + self->rank * block + i);
            self->wrong += out[r * block + i] != (i < want ? sent : -1);
        }
    }
}

/* Private buffers and registered ones by turns, in pieces that take one pair and all of them. */
#define BIG ((1200u << 10) / 4)
static void body_calls(struct member *self, peal_comm *comm)
{
    static const size_t counts[] = {1, 0, 30, 4096, BIG, 2, 70000, 20000};
    int32_t *mine[2] = {malloc(BIG * sizeof(int32_t)), malloc(BIG * sizeof(int32_t))};
    int32_t *ours[2] = {NULL, NULL};
    for (uint32_t call = 0; call < 16 && self->status == PEAL_OK; call++) {
        size_t count = counts[call % 8];
        if (call == 3) /* after some calls: what is registered grows */
            for (unsigned i = 0; i < 2; i++)
                ours[i] = peal_mem_alloc(comm, BIG * sizeof(int32_t));
        int32_t **use = call % 3 == 0 && ours[1] ? ours : mine;
        reduce(self, comm, use[0], use[1], count, call);
        if (count && count < BIG / RANKS)
            gather(self, comm, use[0], use[1], count, call);
        exchange(self, comm, call);
    }
    free(mine[0]);
    free(mine[1]);
}

/* That all went by the device, and that it is said so. */
static void body_checked(struct member *self, peal_comm *comm)
{
    peal_link_state near = {.size = sizeof near}, far = near;
    peal_comm_info info = {.size = sizeof info};
    body_calls(self, comm);
    ck_assert_int_eq(peal_world_link(self->world, self->rank ^ 1, &near), PEAL_OK);
    ck_assert_int_eq(peal_world_link(self->world, (self->rank + 2) % 4, &far), PEAL_OK);
    ck_assert_int_eq(peal_world_link(self->world, RANKS, &far), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_comm_get(comm, &info), PEAL_OK);
    self->wrong += strcmp(near.transport, "memory") != 0 || strcmp(far.transport, "rdma") != 0 ||
                   strcmp(far.device, "fake0:1") != 0 || far.links_tcp != 0 ||
                   far.links_rdma != 8 || far.why[0] != '\0';
    self->wrong += far.puts == 0 || far.bytes == 0 || far.signals == 0;
    self->wrong +=
        !(info.engines >> PEAL_ENGINE_RDMA & 1) || info.stand_ins >> PEAL_ENGINE_RDMA & 1;
}

START_TEST(test_calls)
{
    static const uint32_t sockets[] = {1, 2, 3, 8};
    struct member members[RANKS];
    fake_begin((uint64_t)_i);
    fake.inline_bytes = _i % 3 == 2 ? 0 : _i % 3 == 1 ? 64 : 128;
    struct member like = {.sockets = sockets[_i % 4], .timeout_ms = 60000, .body = body_checked};
    run_members(members, &like);
    expect_all_right(members);
    ck_assert_uint_gt(fake.works, 100);
    fake_end();
}
END_TEST

/* ---- what stays with TCP */

static void body_tcp(struct member *self, peal_comm *comm)
{
    peal_comm_info info = {.size = sizeof info};
    peal_link_state far = {.size = sizeof far};
    body_calls(self, comm);
    ck_assert_int_eq(peal_world_link(self->world, (self->rank + 2) % 4, &far), PEAL_OK);
    ck_assert_int_eq(peal_comm_get(comm, &info), PEAL_OK);
    self->wrong += far.links_tcp == 0 || !strstr(far.why, self->rdma ? "told not to" : "no");
    if (self->rdma)
        self->wrong += strcmp(far.transport, "tcp") != 0 || far.links_rdma != 0 ||
                       !(info.stand_ins >> PEAL_ENGINE_RDMA & 1);
}

/* 0: it is switched off; 1: a rank has no device, the others use theirs; 2: none has room; 3: one
 * rank's device has room for a part. */
START_TEST(test_stays)
{
    struct member members[RANKS];
    struct member like = {.sockets = 2, .timeout_ms = 60000, .body = body_tcp};
    fake_begin(11 + (uint64_t)_i);
    like.rdma = _i == 0 ? "off" : NULL;
    fake.absent = _i == 1;
    fake.regions_most = _i == 2 ? 1 : UINT32_MAX;
    fake.region_at = _i == 3 ? 6 : 0;
    run_members(members, &like);
    expect_all_right(members);
    ck_assert(_i == 1 || _i == 3 || fake.works == 0);
    fake_end();
}
END_TEST

/* ---- what breaks */

static void body_until_broken(struct member *self, peal_comm *comm)
{
    static int32_t in[RANKS][40000], out[RANKS][40000];
    for (uint32_t call = 0; call < 40 && self->status == PEAL_OK; call++)
        reduce(self, comm, in[self->rank], out[self->rank], 40000, call);
}

/* Whatever a device reports, all ranks end with an error about a rank, in good time, and what is
 * reported as right is. */
static void expect_all_told(const struct member *members, const char *what)
{
    int told = 0;
    for (uint32_t r = 0; r < RANKS; r++) {
        ck_assert_msg(members[r].status == PEAL_ERR_PEER && members[r].wrong == 0,
                      "rank %u: %d, %u: %s", r, members[r].status, members[r].wrong,
                      members[r].text);
        told |= strstr(members[r].text, what) != NULL;
        ck_assert_msg(strstr(members[r].text, "step") != NULL, "%s", members[r].text);
    }
    ck_assert_msg(told, "nobody says '%s': %s", what, members[0].text);
    ck_assert_uint_eq(fake.wrong, 0);
}

START_TEST(test_breaks)
{
    struct member members[RANKS];
    struct member like = {.sockets = 2, .timeout_ms = 30000, .body = body_until_broken};
    fake_begin(100 + (uint64_t)_i);
    uint32_t when = 10 + (uint32_t)_i * 37;
    if (_i % 3 == 0)
        fake.break_at = when;
    else if (_i % 3 == 1)
        fake.refuse_at = when;
    else
        fake.post_at = when;
    uint64_t start = rt_now_ns();
    run_members(members, &like);
    expect_all_told(members, _i % 3 == 1 ? "refused a write" : "queue pair failed");
    ck_assert_uint_lt((rt_now_ns() - start) / 1000000000u, 25);
    fake_end();
}
END_TEST

/* Memory that cannot be registered when it is asked for: a source is copied, an output is an
 * error of the rank that has it. */
static void body_scarce(struct member *self, peal_comm *comm)
{
    int32_t *in = peal_mem_alloc(comm, 80000 * sizeof *in);
    int32_t *out = malloc(80000 * sizeof *out);
    fake_lock();
    fake.regions_most = 0;
    fake_unlock();
    for (uint32_t call = 0; call < 4; call++)
        reduce(self, comm, in, out, 80000, call);
    free(out);
}

START_TEST(test_scarce)
{
    struct member members[RANKS];
    struct member like = {.sockets = 2, .timeout_ms = 6000, .body = body_scarce};
    fake_begin(77);
    run_members(members, &like);
    for (uint32_t r = 0; r < RANKS; r++)
        ck_assert_msg(members[r].wrong == 0 &&
                          (members[r].status == PEAL_OK || members[r].status == PEAL_ERR_MEMORY ||
                           members[r].status == PEAL_ERR_PEER ||
                           members[r].status == PEAL_ERR_TIMEOUT),
                      "rank %u: %d: %s", r, members[r].status, members[r].text);
    ck_assert_uint_eq(fake.wrong, 0);
    fake_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdma");
    TCase *parts = tcase_create("parts");
    tcase_add_test(parts, test_choices);
    tcase_add_test(parts, test_gids);
    tcase_add_test(parts, test_closeness);
    tcase_add_test(parts, test_records);
    tcase_add_test(parts, test_hellos);
    tcase_add_test(parts, test_cache);
    tcase_add_test(parts, test_cache_full);
    suite_add_tcase(suite, parts);
    TCase *ranks = tcase_create("ranks");
    tcase_add_checked_fixture(ranks, set_up, tear_down);
    tcase_add_loop_test(ranks, test_calls, 0, 4);
    tcase_add_loop_test(ranks, test_stays, 0, 4);
    tcase_add_loop_test(ranks, test_breaks, 0, 6);
    tcase_add_test(ranks, test_scarce);
    suite_add_tcase(suite, ranks);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
