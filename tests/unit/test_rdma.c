/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: threads */
/* RDMA without a device: what is read of texts and of peers, memory that is kept registered, and
 * calls of four ranks over a fake that delays and reorders between queue pairs. */
#include "net.h"
#include "test_rdma_fake.h"
#include "test_suite.h"
#include "test_two_hosts.h"

#include "test_member.h"

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

/* ---- one end of a link, whose device writes down what it is given */

#define LINK_WORKS 64u

static struct {
    struct rdma_work work[LINK_WORKS];
    void *pair[LINK_WORKS];
    uint32_t works, receives, failed;
} seen;

static uint32_t seen_post(struct rdma_nic *nic, void *pair, const struct rdma_work *work,
                          uint32_t count)
{
    (void)nic;
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_uint_lt(seen.works, LINK_WORKS);
        seen.pair[seen.works] = pair;
        seen.work[seen.works++] = work[i];
    }
    return count;
}

static int seen_receive(struct rdma_nic *nic, void *pair, uint64_t id, char *to, uint32_t bytes,
                        uint32_t own_key)
{
    (void)nic, (void)pair, (void)id, (void)to, (void)bytes, (void)own_key;
    seen.receives++;
    return 1;
}

static void seen_fail(struct rdma_nic *nic, void *pair)
{
    (void)nic, (void)pair;
    seen.failed++;
}

static const struct rdma_nic_ops seen_ops = {
    .post = seen_post, .receive = seen_receive, .fail = seen_fail};

#define SCRATCH 131072u
struct link {
    struct rdma_nic nic;
    struct peal_comm comm;
    struct rdma rdma;
    struct rdma_peer peers[2];
    struct rdma_pair pairs[2];
    struct rdma_record records[2 * RDMA_RECEIVES + RDMA_SENDS];
    struct rdma_item queue[RDMA_QUEUE];
    struct rt_event event;
    struct rt_piece piece;
    char *memory;
};

/* Rank 0 of two, with rank 1 over two pairs. Semaphores are at the segment's start, scratch
 * behind them. */
static struct link *link_make(void)
{
    struct link *self = calloc(1, sizeof *self);
    struct rdma *rdma = &self->rdma;
    memset(&seen, 0, sizeof seen);
    self->memory = aligned_alloc(4096, 4096 + 8 * SCRATCH);
    memset(self->memory, 0, 4096 + 8 * SCRATCH);
    self->nic = (struct rdma_nic){.ops = &seen_ops, .inline_bytes = 128};
    rdma->nic = rdma->cache.nic = &self->nic;
    rdma->base = self->comm.base = self->memory;
    rdma->layout =
        (struct rt_layout){.nranks = 2, .nsems = 2, .scratch = 4096, .scratch_bytes = SCRATCH};
    self->comm.layout = rdma->layout;
    self->comm.nranks = rdma->nranks = 2;
    rdma->comm = &self->comm;
    rdma->peers = self->peers;
    rdma->scratch = (struct rdma_region){self->memory + 4096, 2 * SCRATCH, 11, 12, NULL};
    struct rdma_peer *peer = &self->peers[1];
    *peer = (struct rdma_peer){.rank = 1,
                               .pairs = 2,
                               .pair = self->pairs,
                               .in = self->records,
                               .out = self->records + 2 * RDMA_RECEIVES,
                               .queue = self->queue,
                               .scratch = 0x700000,
                               .scratch_key = 77};
    self->pairs[0].pair = &self->pairs[0];
    self->pairs[1].pair = &self->pairs[1];
    return self;
}

static void link_free(struct link *self)
{
    free(self->memory);
    free(self);
}

/* From own scratch to the name `to`, in one piece, as of call `call`. */
static void link_put(struct link *self, uint64_t to, size_t bytes, uint32_t call)
{
    struct rdma_peer *peer = &self->peers[1];
    char *name = (char *)(uintptr_t)((uintptr_t)self->memory + to);
    self->piece = (struct rt_piece){self->memory + 4096, name, bytes, 0, bytes};
    self->event.issued++;
    self->event.unread = self->event.unwritten = 1;
    peer->queue[peer->tail++ % RDMA_QUEUE] =
        (struct rdma_item){.count = 1, .call = call, .event = &self->event, .pieces = &self->piece};
    rdma_pump(&self->rdma, peer);
}

static void link_signal(struct link *self, uint32_t sem, uint32_t count)
{
    struct rdma_peer *peer = &self->peers[1];
    peer->queue[peer->tail++ % RDMA_QUEUE] =
        (struct rdma_item){.kind = RDMA_SIGNAL, .at = sem, .word = count};
    rdma_pump(&self->rdma, peer);
}

static int link_got(struct link *self, uint32_t pair, uint32_t slot, struct rdma_record record)
{
    struct rdma_done done = {.bytes = sizeof record, .received = 1};
    self->records[slot] = record;
    return rdma_received(&self->rdma, &self->peers[1], pair, slot, &done);
}

static void link_flag(struct link *self)
{
    struct rdma_done done = {.received = 1, .flag = 1};
    ck_assert(rdma_received(&self->rdma, &self->peers[1], 1, 0, &done));
}

#define PEER_SCRATCH (4096u + 2 * SCRATCH)

/* A flag behind the data of each other pair that carried any, once. */
START_TEST(test_sent_flags)
{
    struct link *self = link_make();
    struct rdma_record record;
    link_put(self, PEER_SCRATCH + 256, 60000, 1);
    link_put(self, PEER_SCRATCH + 65536, 60000, 1);
    link_signal(self, 1, 5);
    ck_assert_uint_eq(seen.works, 4);
    ck_assert_ptr_eq(seen.pair[0], &self->pairs[0]);
    ck_assert_ptr_eq(seen.pair[1], &self->pairs[1]);
    ck_assert_uint_eq(seen.work[0].to, 0x700100);
    ck_assert_uint_eq(seen.work[0].peer_key, 77);
    ck_assert_uint_eq(seen.work[0].own_key, 11);
    ck_assert_uint_eq(seen.work[1].to, 0x710000);
    uint32_t flag = seen.work[2].op == RDMA_FLAG ? 2 : 3, send = 5 - flag;
    ck_assert_uint_eq(seen.work[flag].op, RDMA_FLAG);
    ck_assert_ptr_eq(seen.pair[flag], &self->pairs[1]);
    ck_assert_uint_eq(seen.work[send].op, RDMA_SEND);
    ck_assert_ptr_eq(seen.pair[send], &self->pairs[0]);
    memcpy(&record, seen.work[send].from, sizeof record);
    ck_assert_uint_eq(record.kind, RDMA_SIGNAL);
    ck_assert_uint_eq(record.flags[0], 0);
    ck_assert_uint_eq(record.flags[1], 1);
    /* Small pieces are in order with the records; nothing has gone by the second pair since. */
    link_put(self, PEER_SCRATCH, 1000, 1);
    link_signal(self, 1, 6);
    ck_assert_uint_eq(seen.works, 6);
    ck_assert_ptr_eq(seen.pair[4], &self->pairs[0]);
    ck_assert_ptr_eq(seen.pair[5], &self->pairs[0]);
    memcpy(&record, seen.work[5].from, sizeof record);
    ck_assert_uint_eq(record.flags[1], 1);
    link_free(self);
}
END_TEST

static uint64_t sem_of(const struct link *self, uint32_t index)
{
    return atomic_load(rt_sem(self->memory, &self->rdma.layout, 0, 1, index));
}

/* A record counts when its flags have come, and none behind it does before. */
START_TEST(test_flags_wait)
{
    struct link *self = link_make();
    ck_assert(link_got(self, 0, 3, (struct rdma_record){.kind = RDMA_SIGNAL, .at = 0, .a = 1}));
    ck_assert_uint_eq(sem_of(self, 0), 1);
    ck_assert(link_got(
        self, 0, 5, (struct rdma_record){.kind = RDMA_SIGNAL, .at = 0, .a = 2, .flags = {0, 2}}));
    ck_assert(link_got(self, 0, 4, (struct rdma_record){.kind = RDMA_SIGNAL, .at = 1, .a = 9}));
    ck_assert_uint_eq(seen.receives, 1); /* the places of what waits are not given away */
    link_flag(self);
    ck_assert_uint_eq(sem_of(self, 0), 1);
    ck_assert_uint_eq(sem_of(self, 1), 0);
    link_flag(self);
    ck_assert_uint_eq(sem_of(self, 0), 2);
    ck_assert_uint_eq(sem_of(self, 1), 9);
    ck_assert_uint_eq(seen.receives, 5);
    /* What is no record, or comes where none does. */
    ck_assert(!link_got(self, 0, 6, (struct rdma_record){.kind = RDMA_SIGNAL, .at = 2}));
    ck_assert(!link_got(self, 1, 6, (struct rdma_record){.kind = RDMA_SIGNAL, .at = 0, .a = 3}));
    ck_assert_uint_eq(sem_of(self, 0), 2);
    link_free(self);
}
END_TEST

/* Where the output of the call before was, nothing is written. */
START_TEST(test_output_of_the_call)
{
    struct link *self = link_make();
    struct rdma_record out = {.kind = RDMA_OUT, .call = 4, .at = 55, .a = 0x900000, .b = 70000};
    link_put(self, FAR_OUT + 100, 1000, 4);
    ck_assert_uint_eq(seen.works, 1); /* it asks */
    ck_assert_uint_eq(((const struct rdma_record *)(const void *)seen.work[0].from)->kind,
                      RDMA_WANT);
    ck_assert(link_got(self, 0, 0, out));
    rdma_pump(&self->rdma, &self->peers[1]);
    ck_assert_uint_eq(seen.works, 2);
    ck_assert_uint_eq(seen.work[1].to, 0x900064);
    ck_assert_uint_eq(seen.work[1].peer_key, 55);
    link_put(self, FAR_OUT, 1000, 5);
    link_signal(self, 0, 1);
    ck_assert_uint_eq(seen.works, 2);
    out.call = 5;
    out.a = 0xa00000;
    ck_assert(link_got(self, 0, 1, out));
    rdma_pump(&self->rdma, &self->peers[1]);
    ck_assert_uint_eq(seen.works, 4);
    ck_assert_uint_eq(seen.work[2].to, 0xa00000);
    /* Beyond its end, neither. */
    link_put(self, FAR_OUT + 69500, 1000, 5);
    ck_assert_uint_eq(seen.works, 4);
    ck_assert_uint_eq(self->peers[1].broken, RDMA_REFUSED);
    ck_assert_uint_eq(seen.failed, 2);
    link_free(self);
}
END_TEST

/* A source is free and its copy in place when the last work that carried it says so, on whatever
 * pair; what is flushed never is. */
START_TEST(test_completions)
{
    struct link *self = link_make();
    struct rdma_pair *pairs = self->pairs;
    link_put(self, PEER_SCRATCH, 256 * 1024 - 8192, 1); /* in one work */
    ck_assert_uint_eq(seen.works, 1);
    ck_assert_uint_eq(seen.work[0].told, 1);
    ck_assert_uint_ne(self->event.freed, self->event.issued);
    rdma_completed(&self->rdma, &pairs[0], 1, 1); /* none of that number is under way */
    rdma_completed(&self->rdma, &pairs[1], 0, 1);
    ck_assert_uint_ne(self->event.delivered, self->event.issued);
    rdma_completed(&self->rdma, &pairs[0], 0, 1);
    ck_assert_uint_eq(self->event.freed, self->event.issued);
    ck_assert_uint_eq(self->event.delivered, self->event.issued);
    /* Inline: read at once, in place later. */
    link_put(self, PEER_SCRATCH, 128, 1);
    ck_assert_uint_eq(seen.work[1].copied, 1);
    ck_assert_uint_eq(self->event.freed, self->event.issued);
    ck_assert_uint_ne(self->event.delivered, self->event.issued);
    rdma_completed(&self->rdma, &pairs[0], 1, 0);
    ck_assert_uint_ne(self->event.delivered, self->event.issued);
    ck_assert_uint_eq(pairs[0].done, pairs[0].posted);
    ck_assert(rdma_idle(&self->peers[1]));
    link_free(self);
}
END_TEST

/* Whatever a peer sends, nothing is written but its own semaphores and counts. */
START_TEST(test_any_records)
{
    struct link *self = link_make();
    char *before = malloc(4096);
    uint64_t random = 12345, taken = 0, strayed = 0;
    for (uint32_t n = 0; n < 20000; n++) {
        struct rdma_record record;
        uint64_t *words = (uint64_t *)(void *)&record;
        memset(&record, 0, sizeof record);
        for (size_t i = 0; i < sizeof record / 8; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            words[i] = random >> 40 & 1 ? random >> 33 : random >> 61;
        }
        record.kind = n % 8 == 0 ? record.kind : n % 8;
        record.at = n % 3 ? record.at % 4096 : record.at;
        memset(record.flags, 0, n % 16 ? sizeof record.flags : 0);
        memcpy(before, self->memory, 4096);
        self->peers[1].first = self->peers[1].last = 0; /* what waits is forgotten */
        taken += (uint64_t)link_got(self, n % 64 == 0, n % RDMA_RECEIVES, record);
        for (uint32_t at = 0; at < 4096; at += 8) {
            int own = (at >= 2 * RT_LINE && at < 4 * RT_LINE && at % RT_LINE == 0) ||
                      at == 2048 + 8 || at == 2048 + RT_LINE + 8;
            strayed += !own && memcmp(before + at, self->memory + at, 8) != 0;
        }
    }
    ck_assert_uint_eq(strayed, 0);
    ck_assert_uint_gt(taken, 2000); /* right and wrong ones are among them */
    ck_assert_uint_lt(taken, 19000);
    free(before);
    link_free(self);
}
END_TEST

/* ---- ranks as threads of two hosts */

static peal_table *table;
static peal_table *two;

static peal_table *table_of(peal_collective collective, uint32_t ranks)
{
    static const uint32_t groups[2][RANKS] = {{0, 8}, {0, 1, 8, 9}};
    return plan_two_hosts(ctx, collective, NULL, groups[ranks == RANKS], ranks, 16 << 20);
}

static void set_up(void)
{
    ctx = test_ctx(&heap);
    table = table_of(PEAL_ALLREDUCE, RANKS);
    static const peal_collective more[] = {PEAL_ALLTOALLV, PEAL_ALLGATHER};
    for (size_t i = 0; i < 2; i++) {
        peal_table *other = table_of(more[i], RANKS);
        ck_assert_int_eq(peal_table_join(table, other, NULL), PEAL_OK);
        peal_table_destroy(other);
    }
    ck_assert_int_eq(peal_table_verify(table, NULL, NULL, NULL, NULL), PEAL_OK);
    two = table_of(PEAL_ALLREDUCE, 2);
}

static void tear_down(void)
{
    peal_table_destroy(table);
    peal_table_destroy(two);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}

static void run_members(struct member *members, const struct member *like)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        members[r] = *like;
        members[r].table = table;
    }
    meet_members(members);
}

static void expect_all_right(const struct member *members)
{
    expect_all_ok(members);
    ck_assert_uint_eq(fake.wrong, 0);
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
    expect_ok(self, peal_allreduce(comm, in, out, count, PEAL_INT32, PEAL_SUM, &diag), &diag);
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
    expect_ok(self, peal_allgather(comm, in, out, count, PEAL_INT32, &diag), &diag);
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
    expect_ok(self, peal_alltoallv(comm, in, send, out, got, block, PEAL_INT32, &diag), &diag);
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

/* What the rows say went by a transport. */
static uint64_t carried(peal_comm *comm, peal_transport by)
{
    uint64_t bytes = 0;
    peal_counter counter = {.size = sizeof counter};
    for (uint32_t i = 0; peal_comm_counter(comm, i, &counter) == PEAL_OK; i++)
        bytes += counter.carried[by].bytes;
    return bytes;
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
    uint64_t sent = far.bytes;
    ck_assert_int_eq(peal_world_link(self->world, 3 - self->rank, &far), PEAL_OK);
    self->wrong += carried(comm, PEAL_TRANSPORT_RDMA) != sent + far.bytes;
    self->wrong += carried(comm, PEAL_TRANSPORT_TCP) != 0;
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
    ck_assert(like.sockets == 1 || fake.flags > 20);
    fake_end();
}
END_TEST

/* ---- calls that are only asked for, whose caller takes completions itself: the thread has ended
 */

static void *stand_in(void *user)
{
    struct rdma *rdma = user;
    while (!atomic_load(&rdma->stop)) {
        (void)rdma->transport.listen(&rdma->transport);
        rt_sleep_us(100);
    }
    return NULL;
}

/* The same for what goes by TCP, where some does. */
static void *stand_in_tcp(void *user)
{
    struct net *net = user;
    while (!atomic_load(&net->stop)) {
        (void)net->transport.listen(&net->transport);
        rt_sleep_us(100);
    }
    return NULL;
}

static void end_one(pthread_t thread, _Atomic uint32_t *stop, int wake)
{
    uint64_t one = 1;
    atomic_store(stop, 1);
    (void)!write(wake, &one, sizeof one);
    (void)pthread_join(thread, NULL);
    atomic_store(stop, 0);
}

static void ask(struct member *self, peal_comm *comm, int32_t *in, int32_t *out, size_t count)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_pending *pending = NULL;
    peal_call call = PEAL_CALL_INIT;
    call.in = in;
    call.out = out;
    call.count = count;
    call.dtype = PEAL_INT32;
    for (size_t i = 0; i < count; i++)
        in[i] = (int32_t)(i % 1000 * (self->rank + 1));
    expect_ok(self, peal_pending_create(comm, &call, &diag, &pending), &diag);
    expect_ok(self, peal_start(pending, &diag), &diag);
    for (int done = 0; !done && self->status == PEAL_OK;)
        expect_ok(self, peal_test(pending, &done, &diag), &diag);
    for (size_t i = 0; i < count && self->status == PEAL_OK; i++)
        self->wrong += out[i] != (int32_t)(i % 1000 * 10);
    peal_pending_destroy(pending);
}

static void body_asked(struct member *self, peal_comm *comm)
{
    static const size_t counts[] = {1, 30, 4096, BIG, 2, 70000};
    struct net *net = comm->far->links_tcp ? net_of(comm->far->tcp) : NULL;
    struct rdma *rdma =
        comm->far->transport != comm->far->tcp ? rdma_of(comm->far->transport) : NULL;
    int32_t *in = malloc(BIG * sizeof *in), *out = malloc(BIG * sizeof *out);
    if (rdma)
        end_one(rdma->thread, &rdma->stop, rdma->wake);
    if (net)
        end_one(net->thread, &net->stop, net->wake);
    for (uint32_t i = 0; i < 18 && self->status == PEAL_OK; i++)
        ask(self, comm, in, out, counts[i % 6]);
    if (rdma) {
        rdma->mixed = 0; /* as the thread, which leaves sockets to their own */
        (void)pthread_create(&rdma->thread, NULL, stand_in, rdma);
    }
    if (net)
        (void)pthread_create(&net->thread, NULL, stand_in_tcp, net);
    free(in);
    free(out);
}

/* 1: a rank has no device. */
START_TEST(test_asked)
{
    struct member members[RANKS];
    fake_begin(5);
    fake.absent = _i == 1;
    fake.inline_bytes = 64;
    struct member like = {.sockets = 2, .timeout_ms = 5000, .body = body_asked};
    run_members(members, &like);
    expect_all_right(members);
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

/* A part of a world is linked as the whole was told to be. */
static void body_split(struct member *self, peal_comm *comm)
{
    uint32_t pair[2] = {self->rank % 2, self->rank % 2 + 2};
    peal_link_state link = {.size = sizeof link};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world *next = NULL;
    peal_comm *half = NULL;
    int32_t in[3000], out[3000];
    (void)comm;
    expect_ok(self, peal_world_split(self->world, pair, 2, two, &diag, &next), &diag);
    if (self->status == PEAL_OK)
        expect_ok(self, peal_comm_create(next, two, self->rank / 2, &diag, &half), &diag);
    for (int i = 0; i < 3000; i++)
        in[i] = i + (int)self->rank;
    if (self->status == PEAL_OK)
        expect_ok(self, peal_allreduce(half, in, out, 3000, PEAL_INT32, PEAL_SUM, &diag), &diag);
    for (int i = 0; i < 3000 && self->status == PEAL_OK; i++)
        self->wrong += out[i] != 2 * i + (int)(pair[0] + pair[1]);
    if (self->status == PEAL_OK)
        expect_ok(self, peal_world_link(next, 1 - self->rank / 2, &link), &diag);
    if (self->status == PEAL_OK)
        self->wrong += strcmp(link.transport, self->rdma ? "tcp" : "rdma") != 0;
    peal_comm_destroy(half);
    peal_world_destroy(next);
}

START_TEST(test_split)
{
    struct member members[RANKS];
    struct member like = {.sockets = 2, .timeout_ms = 60000, .body = body_split};
    fake_begin(33);
    like.rdma = _i ? "off" : NULL;
    run_members(members, &like);
    expect_all_right(members);
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
    tcase_add_test(parts, test_sent_flags);
    tcase_add_test(parts, test_flags_wait);
    tcase_add_test(parts, test_output_of_the_call);
    tcase_add_test(parts, test_completions);
    tcase_add_test(parts, test_any_records);
    suite_add_tcase(suite, parts);
    TCase *ranks = tcase_create("ranks");
    tcase_add_unchecked_fixture(ranks, set_up, tear_down);
    tcase_add_checked_fixture(ranks, set_up_test, tear_down_test);
    tcase_add_loop_test(ranks, test_calls, 0, 4);
    tcase_add_loop_test(ranks, test_asked, 0, 2);
    tcase_add_loop_test(ranks, test_stays, 0, 4);
    tcase_add_loop_test(ranks, test_split, 0, 2);
    tcase_add_loop_test(ranks, test_breaks, 0, 6);
    tcase_add_test(ranks, test_scarce);
    suite_add_tcase(suite, ranks);
    return run_suite(suite, CK_FORK_GETENV);
}
