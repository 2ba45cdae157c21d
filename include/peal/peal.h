/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal: compiles a topology description into collective schedules, proves
 * them, and runs them.
 *
 * Five nouns carry the interface: a *fabric* is what the machine is, a *policy*
 * how to choose, a *plan* what will happen (a *table* is a set of plans, each
 * with its size range), a *comm* who takes part, a *request* what is wanted.
 *
 * Conventions that hold for every function below:
 *  - A fallible function returns peal_status; it writes its outputs only when
 *    it returns PEAL_OK. Details go to the caller's peal_diag (may be NULL).
 *  - Parameter structs start with `size`, which the *_INIT macros fill; a zero
 *    field means the default. A shorter struct than the library knows is
 *    zero-extended; a longer one is accepted when its unknown tail is zero.
 *  - Handles are opaque; every *_destroy accepts NULL. A table keeps no pointer
 *    to its fabric, a comm keeps its own reference to its table: destruction
 *    order is free, but for the context, which must outlive all it made.
 *  - Thread rule, where nothing else is said: different handles may be used by
 *    different threads at once; one handle by one thread at a time; fabrics and
 *    tables may be read by any number of threads once made.
 *  - Units: bytes, microseconds, 1e9 bytes per second. "bytes" of a collective
 *    is counted as nccl-tests counts it (allreduce: one rank's buffer).
 */
#ifndef PEAL_PEAL_H
#define PEAL_PEAL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PEAL_VERSION_MAJOR 0
#define PEAL_VERSION_MINOR 1
#define PEAL_VERSION_PATCH 0

#if defined(__GNUC__)
#define PEAL_API __attribute__((visibility("default")))
#define PEAL_CHECK __attribute__((warn_unused_result))
#define PEAL_PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#define PEAL_API
#define PEAL_CHECK
#define PEAL_PRINTF(a, b)
#endif

/* ---- status and diagnostics ------------------------------------------- */

/* Values never change once released. Negative is an error; the tens group what
 * is unusable afterwards: the argument, the input, the plan, the operation, the
 * peers, the context. */
typedef enum peal_status {
    PEAL_OK = 0,
    PEAL_AGAIN = 1,            /* not done yet; ask again */
    PEAL_ERR_ARG = -1,         /* an argument is outside its documented range */
    PEAL_ERR_UNSUPPORTED = -2, /* understood, but not available here */
    PEAL_ERR_RANGE = -3,       /* a size or count is beyond what was planned */
    PEAL_ERR_INPUT = -10,      /* a file or text is malformed; see the diag */
    PEAL_ERR_LIMIT = -11,      /* an input exceeds a documented limit */
    PEAL_ERR_IO = -12,         /* reading or writing failed */
    PEAL_ERR_PLAN = -20,       /* a plan is not well formed */
    PEAL_ERR_UNPROVEN = -21,   /* a plan failed verification */
    PEAL_ERR_TIMEOUT = -30,    /* a deadline passed */
    PEAL_ERR_MISMATCH = -31,   /* ranks called with different arguments or plans */
    PEAL_ERR_ABORTED = -32,    /* the operation was aborted */
    PEAL_ERR_PEER = -40,       /* a peer died or gave up */
    PEAL_ERR_MEMORY = -50,     /* the allocator returned NULL */
    PEAL_ERR_INTERNAL = -51    /* a defect in peal; please report it */
} peal_status;

/* The name of a status ("PEAL_ERR_ARG"); its sentence. Static strings; an
 * unknown value gives "PEAL_ERR_UNKNOWN". Any thread. */
PEAL_API const char *peal_status_name(peal_status status);
PEAL_API const char *peal_status_text(peal_status status);

/* What went wrong and where. Caller-owned, no allocation behind it. line and
 * column count from 1; 0 means there is none. */
typedef struct peal_diag {
    size_t size;
    peal_status status;
    uint32_t line;
    uint32_t column;
    char path[256];
    char text[512];
} peal_diag;
/* clang-format off */
#define PEAL_DIAG_INIT {sizeof(peal_diag), PEAL_OK, 0, 0, {0}, {0}}
/* clang-format on */

/* Receives output in pieces; a return other than PEAL_OK stops the writer,
 * which returns it. */
typedef peal_status (*peal_write_fn)(void *user, const char *data, size_t bytes);

/* ---- context ------------------------------------------------------------ */

typedef struct peal_ctx peal_ctx;

/* What the library takes from its host. realloc_fn(user, NULL, 0, n) allocates,
 * realloc_fn(user, p, old, 0) frees and returns NULL; it must be safe to call
 * from every thread that uses handles of this context. All NULL: the C heap. */
typedef struct peal_host {
    size_t size;
    void *user;
    void *(*realloc_fn)(void *user, void *ptr, size_t old_bytes, size_t new_bytes);
} peal_host;

/* Makes a context from host (NULL: defaults). Errors: ARG, MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_ctx_create(const peal_host *host, peal_ctx **ctx_out);
PEAL_API void peal_ctx_destroy(peal_ctx *ctx);

/* "0.1.0", and the features compiled in, separated by blanks. Static. */
PEAL_API const char *peal_version(void);
PEAL_API const char *peal_features(void);

/* ---- vocabularies ------------------------------------------------------- */

typedef enum peal_dtype {
    PEAL_FLOAT32 = 0,
    PEAL_FLOAT64 = 1,
    PEAL_FLOAT16 = 2,
    PEAL_BFLOAT16 = 3,
    PEAL_INT8 = 4,
    PEAL_UINT8 = 5,
    PEAL_INT32 = 6,
    PEAL_UINT32 = 7,
    PEAL_INT64 = 8,
    PEAL_UINT64 = 9
} peal_dtype;
#define PEAL_DTYPE_COUNT 10

typedef enum peal_op {
    PEAL_SUM = 0,
    PEAL_PROD = 1,
    PEAL_MIN = 2,
    PEAL_MAX = 3,
    PEAL_AVG = 4 /* sum, divided by the rank count where the last contribution enters;
                    integers truncate toward zero */
} peal_op;
#define PEAL_OP_COUNT 5

/* What a call moves, and how its bytes are counted (as nccl-tests counts them): one rank's
 * buffer for allreduce, reduce and broadcast; what goes from one rank to another for sendrecv; the
 * whole buffer of N blocks for reduce-scatter, allgather, scatter, gather and alltoall; for
 * alltoallv that of N full blocks; for custom all blocks. */
typedef enum peal_collective {
    PEAL_ALLREDUCE = 0,
    PEAL_REDUCE_SCATTER = 1, /* rank r gets block r of the reduction */
    PEAL_ALLGATHER = 2,      /* rank r gives block r; all get all blocks */
    PEAL_BROADCAST = 3,      /* the root's buffer to all */
    PEAL_REDUCE = 4,         /* to the root */
    PEAL_SCATTER = 5,        /* block r of the root's buffer to rank r */
    PEAL_GATHER = 6,         /* block r of the root's buffer from rank r */
    PEAL_ALLTOALL = 7,       /* block j of rank i becomes block i of rank j */
    PEAL_SENDRECV = 8,       /* from the root to the peer, or from and to those of a list */
    PEAL_BARRIER = 9,        /* nothing but that all have entered */
    PEAL_ALLTOALLV = 10,     /* alltoall of blocks whose lengths the calls say */
    PEAL_CUSTOM = 11         /* a script's own: who gives and who gets each block */
} peal_collective;
#define PEAL_COLLECTIVE_COUNT 12

/* Link classes, ordered from near to far: the class of a path is the farthest
 * of its links. */
typedef enum peal_link_class {
    PEAL_LINK_LOOPBACK = 0,
    PEAL_LINK_C2C = 1,
    PEAL_LINK_NVLINK = 2,
    PEAL_LINK_XGMI = 3,
    PEAL_LINK_SHM = 4,
    PEAL_LINK_PCIE = 5,
    PEAL_LINK_SMP = 6,
    PEAL_LINK_NET = 7
} peal_link_class;
#define PEAL_LINK_CLASS_COUNT 8

typedef enum peal_engine {
    PEAL_ENGINE_SM = 0,     /* load/store by the lane itself; the only one that reduces */
    PEAL_ENGINE_TMA = 1,    /* bulk asynchronous copy issued by the lane */
    PEAL_ENGINE_CE = 2,     /* copy engine, issued by the host */
    PEAL_ENGINE_RDMA = 3,   /* RDMA write, remote flag behind the data */
    PEAL_ENGINE_STAGED = 4, /* through pinned host memory */
    PEAL_ENGINE_TCP = 5,    /* sockets */
    PEAL_ENGINE_IBGDA = 6   /* as rdma, but the GPU's lane posts to the NIC by itself; on request */
} peal_engine;
#define PEAL_ENGINE_COUNT 7

/* Names as the command line and the plan text spell them ("float32", "sum",
 * "allreduce", "nvlink", "sm"); NULL for a value out of range. The *_parse
 * functions are the inverse; ERR_ARG for an unknown name. Any thread. */
PEAL_API const char *peal_dtype_name(peal_dtype dtype);
PEAL_API const char *peal_op_name(peal_op op);
PEAL_API const char *peal_collective_name(peal_collective collective);
PEAL_API const char *peal_link_class_name(peal_link_class link_class);
PEAL_API const char *peal_engine_name(peal_engine engine);
PEAL_API PEAL_CHECK peal_status peal_dtype_parse(const char *name, peal_dtype *out);
PEAL_API PEAL_CHECK peal_status peal_op_parse(const char *name, peal_op *out);
PEAL_API PEAL_CHECK peal_status peal_collective_parse(const char *name, peal_collective *out);
PEAL_API PEAL_CHECK peal_status peal_link_class_parse(const char *name, peal_link_class *out);
PEAL_API PEAL_CHECK peal_status peal_engine_parse(const char *name, peal_engine *out);
/* Bytes of one element; 0 for a value out of range. */
PEAL_API size_t peal_dtype_size(peal_dtype dtype);

/* ---- fabric ------------------------------------------------------------- */

typedef struct peal_fabric peal_fabric;

/* Reads a topology file: NCCL topology XML, RCCL's dialect, or peal cluster
 * XML (docs/topology-xml.md). A cluster's references to host files are resolved
 * against the directory of `path`; peal_fabric_parse resolves them against
 * base_dir (NULL: references are refused). `name` is what diagnostics call the
 * text. Errors: INPUT, LIMIT, IO, MEMORY, with line and column. */
PEAL_API PEAL_CHECK peal_status peal_fabric_load(peal_ctx *ctx, const char *path, peal_diag *diag,
                                                 peal_fabric **fabric_out);
PEAL_API PEAL_CHECK peal_status peal_fabric_parse(peal_ctx *ctx, const char *data, size_t bytes,
                                                  const char *name, const char *base_dir,
                                                  peal_diag *diag, peal_fabric **fabric_out);
/* One host of `ranks` processes that share memory: the machine peal runs on
 * when no accelerator is meant. */
PEAL_API PEAL_CHECK peal_status peal_fabric_host(peal_ctx *ctx, uint32_t ranks, peal_diag *diag,
                                                 peal_fabric **fabric_out);
/* Gives the fabric the rings and trees of a graph file of NCCL's (NCCL_GRAPH_DUMP_FILE), as
 * candidates nccl-ring and nccl-tree of what is planned from then on. The file knows one host;
 * every host gets its orders. Replaces those of a file read before; on an error they stay. Not
 * while another thread uses the fabric. Errors: INPUT (with line and column: no graph file, or
 * not of these ranks), UNSUPPORTED (hosts of different sizes), IO, LIMIT, MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_fabric_graph_load(peal_fabric *fabric, const char *path,
                                                       peal_diag *diag);
PEAL_API PEAL_CHECK peal_status peal_fabric_graph_parse(peal_fabric *fabric, const char *data,
                                                        size_t bytes, const char *name,
                                                        peal_diag *diag);
/* Leaves a link only `factor` of its bandwidth (0: it is dead), named as peal_fabric_link names its
 * resource, or "FROM>TO" by its nodes. Routes stay; the digest changes. Errors: ARG, MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_fabric_degrade(peal_fabric *fabric, const char *link,
                                                    double factor, peal_diag *diag);
/* Other links in the place of a file's own: a bandwidth and a start-up of a whole class. */
typedef struct peal_swap {
    size_t size;
    peal_link_class link_class;
    double beta_gbs; /* as <cost beta-gbs=> of docs/topology-xml.md; 0: as it is */
    double alpha_us; /* start-up; negative: as it is */
} peal_swap;
/* peal_fabric_load of the same machine with such links, of which a later one of a class counts.
 * What they cannot pass on (800 Gb/s behind a PCIe link of half that) they do not. Errors: ARG,
 * and those of peal_fabric_load. */
PEAL_API PEAL_CHECK peal_status peal_fabric_load_swapped(peal_ctx *ctx, const char *path,
                                                         const peal_swap *swaps, uint32_t nswaps,
                                                         peal_diag *diag, peal_fabric **fabric_out);
PEAL_API void peal_fabric_destroy(peal_fabric *fabric);

typedef struct peal_fabric_info {
    size_t size;
    const char *name;    /* owned by the fabric, as every string below */
    const char *dialect; /* "nccl", "rccl", "cluster", "host" */
    uint32_t ranks;
    uint32_t hosts;
    uint32_t numa_nodes;
    uint32_t nics;
    uint32_t links;
    uint32_t notes;  /* notes and warnings together */
    uint64_t digest; /* equal for equal fabrics */
    int pfc;         /* of the network's switches: 1 on, 0 off, -1 not stated */
    int ecn;
    uint32_t network_line; /* of the file, where that is stated or could be; 0: no network */
    uint32_t calls;        /* schedules whose calls the file has measured times of */
    uint32_t memory_ranks; /* that its <memory> was measured with; 0: it has none */
} peal_fabric_info;

typedef struct peal_rank_info {
    size_t size;
    uint32_t rank;
    uint32_t host;
    uint32_t local;         /* index on its host */
    int32_t device;         /* accelerator number on its host, -1 unknown */
    const char *busid;      /* "0000:07:00.0"; "" for a host rank */
    int32_t numa;           /* NUMA node id, -1 unknown */
    uint32_t nvlink_domain; /* ranks that reach each other over nvlink/xgmi/c2c share one */
    int32_t nic;            /* index of the nearest NIC in the fabric, -1 none */
    uint32_t arch;          /* compute capability x 10 (90), 0 unknown or not NVIDIA */
    const char *model;      /* "sm_90", "gfx942", "host" */
    const char *path;       /* of its host's file; "" for a host rank */
    uint32_t line;          /* there; 0: of none */
} peal_rank_info;

typedef struct peal_nic_info {
    size_t size;
    uint32_t host;
    const char *name;  /* "mlx5_0" */
    const char *busid; /* "" for a NIC straight under a CPU */
    int32_t numa;
    double speed_gbits; /* line rate */
    int32_t rail;       /* -1 undefined */
    int rdma;           /* 1: an RDMA NIC, 0: sockets only */
    const char *path;   /* of its host's file */
    uint32_t line;      /* there */
} peal_nic_info;

typedef struct peal_node_info {
    size_t size;
    uint32_t host;
    const char *kind; /* accelerator, numa, pcie-switch, nvswitch, nic, net-switch */
    const char *name; /* "gpu0", "numa1", "nvs0" */
    const char *busid;
} peal_node_info;

typedef struct peal_link_info {
    size_t size;
    const char *from; /* node names, "h3/gpu0" when there are several hosts */
    const char *to;
    peal_link_class link_class;
    double alpha_us;
    double beta_gbs;      /* effective, per direction */
    uint64_t sstar_bytes; /* alpha x beta: below it a message is latency-bound */
    const char *resource; /* links with an equal resource share its bandwidth */
} peal_link_info;

typedef struct peal_note_info {
    size_t size;
    int warning; /* 1: suspicious, 0: something filled in or worth knowing */
    uint32_t line;
    const char *path;
    const char *text;
    const char *rule; /* of a trap, its name in docs/lint.md; "" of other warnings and of notes */
} peal_note_info;

/* A schedule whose calls the file has measured times of: <call> of docs/topology-xml.md. */
typedef struct peal_fabric_call_info {
    size_t size;
    const char *collective; /* as the file names it, which may be no name that peal knows */
    const char *algorithm;  /* as well */
    const char *detail;     /* "": any schedule of the algorithm */
    uint64_t tile_bytes;    /* 0: whole chunks */
    int private_buffers;    /* 1: private to processes; 0: such as all ranks reach */
    uint32_t times;         /* sizes it was timed at */
    uint64_t min_bytes;     /* of these the least and the largest */
    uint64_t max_bytes;
    double max_us; /* at the largest */
    uint32_t line; /* of the file */
} peal_fabric_call_info;

/* Each fills *info, of which the caller has set info->size. ERR_ARG for an index
 * out of range. Strings live as long as the fabric. Any thread. */
PEAL_API PEAL_CHECK peal_status peal_fabric_get(const peal_fabric *fabric, peal_fabric_info *info);
PEAL_API PEAL_CHECK peal_status peal_fabric_rank(const peal_fabric *fabric, uint32_t index,
                                                 peal_rank_info *info);
PEAL_API PEAL_CHECK peal_status peal_fabric_nic(const peal_fabric *fabric, uint32_t index,
                                                peal_nic_info *info);
PEAL_API PEAL_CHECK peal_status peal_fabric_node(const peal_fabric *fabric, uint32_t index,
                                                 peal_node_info *info);
PEAL_API uint32_t peal_fabric_node_count(const peal_fabric *fabric);
PEAL_API PEAL_CHECK peal_status peal_fabric_link(const peal_fabric *fabric, uint32_t index,
                                                 peal_link_info *info);
PEAL_API PEAL_CHECK peal_status peal_fabric_call(const peal_fabric *fabric, uint32_t index,
                                                 peal_fabric_call_info *info);
PEAL_API PEAL_CHECK peal_status peal_fabric_note(const peal_fabric *fabric, uint32_t index,
                                                 peal_note_info *info);

/* How far a NIC is from a rank: what lies between them. Accelerators whose host states no PCIe, and
 * processes, are at PEAL_NIC_NUMA or beyond. */
typedef enum peal_nic_distance {
    PEAL_NIC_SWITCH = 0, /* one PCIe switch at most */
    PEAL_NIC_BRIDGE = 1, /* several of them, below one port of the host bridge */
    PEAL_NIC_NUMA = 2,   /* the host bridge of one NUMA node */
    PEAL_NIC_SYSTEM = 3, /* the links between NUMA nodes */
    PEAL_NIC_HOST = 4    /* the network: it is another host's */
} peal_nic_distance;
#define PEAL_NIC_DISTANCE_COUNT 5
/* "switch", "bridge", "numa", "system", "host"; NULL: no such. Static; any thread. */
PEAL_API const char *peal_nic_distance_name(peal_nic_distance distance);
/* ERR_ARG for a rank or NIC that is not there. Any thread. */
PEAL_API PEAL_CHECK peal_status peal_fabric_nic_distance(const peal_fabric *fabric, uint32_t rank,
                                                         uint32_t nic, peal_nic_distance *out);

/* How bytes go from one rank to another. */
typedef struct peal_path_info {
    size_t size;
    peal_link_class link_class; /* the farthest class on the way */
    double alpha_us;
    double beta_gbs; /* the narrowest link on the way */
    int direct;      /* 1: loads and stores work (peer-mapped) */
    char via[192];   /* "gpu0 > nvs0 > gpu1" */
} peal_path_info;
PEAL_API PEAL_CHECK peal_status peal_fabric_path(const peal_fabric *fabric, uint32_t from_rank,
                                                 uint32_t to_rank, peal_path_info *info);

/* Writes a cluster XML of `nodes` hosts like the one that host_path describes. */
typedef struct peal_cluster_params {
    size_t size;
    const char *host_path; /* written into the file as its reference */
    uint32_t nodes;
    int rails;               /* 1: NIC i of every host meets on rail i; 0: leaf and spine */
    double oversubscription; /* leaf to spine; 0 means 1 (none) */
    double latency_us;       /* added per crossing; 0 means the class default */
    int multicast;           /* 1: the hosts' NVSwitches multicast and fold (NVLink SHARP) */
} peal_cluster_params;
PEAL_API PEAL_CHECK peal_status peal_cluster_write(peal_ctx *ctx, const peal_cluster_params *params,
                                                   peal_write_fn write, void *user,
                                                   peal_diag *diag);

/* Calls `found` for each difference between two machines: links, speeds,
 * placement. `what` names the thing, left and right how each has it ("" where
 * it is missing). *count_out: how many. */
typedef void (*peal_diff_fn)(void *user, const char *what, const char *left, const char *right);
PEAL_API PEAL_CHECK peal_status peal_fabric_diff(peal_ctx *ctx, const peal_fabric *left,
                                                 const peal_fabric *right, peal_diff_fn found,
                                                 void *user, uint32_t *count_out);

/* ---- request and table -------------------------------------------------- */

typedef struct peal_table peal_table;
typedef struct peal_schedule peal_schedule; /* written down step by step: see below */

/* As what float32 elements travel between ranks. */
typedef enum peal_wire {
    PEAL_WIRE_NONE, /* as they are */
    PEAL_WIRE_BF16, /* bfloat16 */
    PEAL_WIRE_FP8   /* e4m3, 32 elements with a common power of two */
} peal_wire;
#define PEAL_WIRE_COUNT 3
/* "none", "bf16", "fp8"; NULL: no such format. Static; any thread. */
PEAL_API const char *peal_wire_name(peal_wire wire);

typedef struct peal_policy peal_policy; /* "policies" below */

typedef struct peal_request {
    size_t size;
    peal_collective collective;
    uint64_t min_bytes;     /* 0 means 8 */
    uint64_t max_bytes;     /* 0 means 8 GiB */
    uint32_t ranks;         /* the first `ranks` ranks of the fabric; 0 means all */
    const char *algorithm;  /* one of peal_algorithm_name; NULL: choose */
    uint32_t channels;      /* 0: choose */
    uint32_t gateways;      /* hierarchical: gateway ranks a node; 0: choose */
    uint64_t tile_bytes;    /* pipelining tile; 0: choose */
    uint64_t scratch_limit; /* bytes of scratch a rank may use; 0 means 256 MiB */
    double sm_price;        /* relative price of each SM (0.025: 2.5 %); 0 none */
    /* Engine forced for moves (not reductions) over a class: engine + 1, 0: choose. */
    uint8_t move_engine[PEAL_LINK_CLASS_COUNT];
    uint32_t root; /* broadcast, reduce, scatter, gather; sendrecv: who sends */
    uint32_t peer; /* sendrecv: who receives */
    /* 1: every element is reduced in one order, whatever the size of the message and its place
     * in it (batch invariance). */
    int deterministic;
    /* Accelerators: lanes that hold an SM, at most; 0: any number. */
    uint32_t max_sms;
    /* 1: no SM at all: copy engines and the network move everything. Not for what reduces. */
    int zero_sm;
    /* The ranks of the fabric that take part, by their rank in the group, which is what root,
     * peer and the plan count; each once, in any order. NULL: the first `ranks`. Where both are
     * given, ranks is group_size or 0. */
    const uint32_t *group;
    uint32_t group_size;
    /* Groups of as many ranks that run the same collective at the same time, one behind the
     * other, disjoint: rank i of each does what rank i of the group does, and what they share
     * with it is loaded by all of them. */
    const uint32_t *siblings;
    uint32_t nsiblings; /* groups */
    /* sendrecv by a list: who sends and who receives each block, from and to by turns; a rank may
     * be in many of them, also with itself. root and peer are then the list's number, by which
     * calls name it, and equal. NULL: one block, from root to peer. */
    const uint32_t *pairs;
    uint32_t npairs;
    uint32_t incast; /* gather, reduce: ranks of other hosts that send to the root at once;
                        0: as many as the switches have room for */
    /* hierarchical; NULL: choose. The strings need not outlive the call. */
    const char *levels; /* of pair, numa, host, pod, from the inside: "numa,host" */
    const char *inner;  /* between ranks and units of a host: direct, ring, tree */
    const char *outer;  /* between hosts and pods: direct, ring, tree, doubling */
    /* Other than PEAL_WIRE_NONE: schedules may round float32 elements to this format on their way,
     * where that is faster; every rank gets the same result. */
    peal_wire wire;
    /* A schedule of one's own, for this collective, root, peer and number of ranks: a candidate
     * beside the built-in ones, or the only one where `algorithm` is its name. Read during the
     * call only. NULL: none. */
    const peal_schedule *schedule;
    /* Pieces of a lane's share that are under way at once between two ranks, at most
     * PEAL_DEPTH_MAX; of tree, hierarchical, chain (slots, by two). 0: choose. */
    uint32_t depth;
    /* Has the last word on what is chosen; not needed any more once the table is planned. NULL:
     * none. policy_fallback 1: an error of the policy's is told in the diag, and the planner
     * chooses without it; 0: it is the error of the call. */
    const peal_policy *policy;
    int policy_fallback;
    /* 1: callers' buffers will be private to their processes (peal_world_params): what peers reach
     * of them is copied once more, and schedules are chosen accordingly. */
    int private_buffers;
    /* 1: the same inputs give the same bits in each call of one plan: no sum is added up in an
     * order that a switch chooses. deterministic implies it. */
    int repeatable;
} peal_request;
#define PEAL_DEPTH_MAX 8u
/* clang-format off */
#define PEAL_REQUEST_INIT {sizeof(peal_request), PEAL_ALLREDUCE, 0, 0, 0, NULL, 0, 0, 0, 0, 0.0, {0}, 0, 0, 0, 0, 0, NULL, 0, NULL, 0, NULL, 0, 0, NULL, NULL, NULL, PEAL_WIRE_NONE, NULL, 0, NULL, 0, 0, 0}
/* clang-format on */

/* Names of the algorithms that a request can ask for, 0, 1, ...; NULL behind the last. Static;
 * any thread. */
PEAL_API const char *peal_algorithm_name(uint32_t index);

/* Chooses a schedule for each size: a table of size ranges in rising order, the
 * crossovers found by bisection. It ends early where an algorithm that was asked
 * for serves no larger message. Rows are predictions until peal_table_compile.
 * Reads the fabric and the request's lists; keeps no pointer to them. Errors: ARG, UNSUPPORTED (the
 * algorithm cannot serve this fabric), MEMORY, and with a policy those of peal_policy_create. Where
 * it fell back on planning without the policy, diag->status is not PEAL_OK though the result is. */
PEAL_API PEAL_CHECK peal_status peal_table_plan(peal_ctx *ctx, const peal_fabric *fabric,
                                                const peal_request *request, peal_diag *diag,
                                                peal_table **table_out);
/* Lowers every row of a planned table to per-rank programs, verifies each, and
 * freezes them. The fabric must be the one the table was planned on. A table whose
 * programs would take more than PEAL_WHOLE_BYTES a row, or that is of more ranks
 * than PEAL_WHOLE_RANKS, stays planned: its programs are not made all at once, but
 * rank by rank (peal_table_slice). Errors: ARG, LIMIT (such a table), UNPROVEN (a
 * defect in peal), MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_table_compile(peal_table *table, const peal_fabric *fabric,
                                                   peal_diag *diag);
/* The first half of it: programs that nobody has proven yet. For those who want the findings, or
 * another proof, or one of several joined tables: peal_table_prove. That a deterministic request's
 * rows reduce in one order is checked by peal_table_compile alone. Errors: as there, but UNPROVEN.
 */
PEAL_API PEAL_CHECK peal_status peal_table_lower(peal_table *table, const peal_fabric *fabric,
                                                 peal_diag *diag);
#define PEAL_WHOLE_RANKS 8192u
#define PEAL_WHOLE_BYTES (1ull << 30)
/* The programs of one rank, of one row or of all, as a table by itself: made alone, in time and
 * memory proportional to that rank's steps whatever the number of ranks, from a planned table,
 * which stays as it is and may be read by any number of threads. The slices of all ranks have one
 * id (docs/plan-format.md, "Slices"); they are not proven, since a proof is of all ranks together:
 * peal_table_verify_planned proves where they come from. A rank's comm takes its own slices, and
 * meets ranks with slices of the same plans. Errors: ARG, MEMORY. */
#define PEAL_EVERY_ROW UINT32_MAX
PEAL_API PEAL_CHECK peal_status peal_table_slice(const peal_table *table, const peal_fabric *fabric,
                                                 uint32_t rank, uint32_t row, peal_diag *diag,
                                                 peal_table **slice_out);
PEAL_API void peal_table_destroy(peal_table *table);

/* ---- schedules of one's own ----------------------------------------------- */

/* A block of a collective of one's own: the ranks that have it in their input, and those that get
 * the sum of these in their output; of one giver, its input as it is. In what follows a rank's
 * buffers hold its blocks one behind the other, in the order in which they are listed. */
typedef struct peal_block {
    uint32_t nfrom; /* at least 1, as nto; each rank once */
    uint32_t nto;
    const uint32_t *from;
    const uint32_t *to;
} peal_block;

/* What ranks do with chunks, step by step, of one collective by so many ranks. It says who gives
 * which chunk to whom; engines, slots, semaphores, pipelining and channels are the compiler's
 * (docs/lua-algorithms.md has the vocabulary and what a schedule has to be like). */
typedef struct peal_schedule_params {
    size_t size;
    const char *name;           /* of the algorithm: [a-z0-9-]+, up to 63, not a built-in one's */
    const char *path;           /* of the text it was written in, for messages; NULL: none */
    peal_collective collective; /* not barrier or alltoallv, nor a list of pairs */
    uint32_t ranks;
    uint32_t root;
    uint32_t peer;
    uint32_t chunks;          /* of the message, equal; a multiple of its blocks */
    const peal_block *blocks; /* custom: at least one; else NULL */
    uint32_t nblocks;
} peal_schedule_params;
/* clang-format off */
#define PEAL_SCHEDULE_PARAMS_INIT {sizeof(peal_schedule_params), NULL, NULL, PEAL_ALLREDUCE, 0, 0, 0, 0, NULL, 0}
/* clang-format on */

/* One step. The value that a rank has of a chunk is its own input at first. A copy replaces the
 * value of each rank of `to` by that of from[0]; a reduction adds those of all ranks of `from` to
 * that of to[0]. */
typedef struct peal_schedule_step {
    size_t size;
    int reduces; /* 1: reduction, 0: copy */
    int gathers; /* reduction: read where the values lie, by loads, where those reach */
    uint32_t chunk;
    uint32_t nfrom; /* copy: 1 */
    uint32_t nto;   /* reduction: 1 */
    const uint32_t *from;
    const uint32_t *to;
    uint32_t line; /* of the text, for messages; 0: none */
} peal_schedule_step;

/* Errors: ARG, LIMIT (ranks above 256), MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_schedule_create(peal_ctx *ctx,
                                                     const peal_schedule_params *params,
                                                     peal_diag *diag, peal_schedule **script_out);
PEAL_API void peal_schedule_destroy(peal_schedule *script);
PEAL_API const char *peal_schedule_name(const peal_schedule *script); /* lives as long as it does */
/* Block `index` of a collective of its own, whose lists live as long as the script. ERR_ARG past
 * the last, and where it serves another collective. */
PEAL_API PEAL_CHECK peal_status peal_schedule_block(const peal_schedule *script, uint32_t index,
                                                    peal_block *block);
/* Appends a step; each is as if those before were over. Errors: ARG (what there is not: a rank, a
 * chunk), LIMIT, MEMORY, with path and line. */
PEAL_API PEAL_CHECK peal_status peal_schedule_add(peal_schedule *script,
                                                  const peal_schedule_step *step, peal_diag *diag);
/* What follows is done by lanes of its own, on one tile while others are at the next. */
PEAL_API PEAL_CHECK peal_status peal_schedule_stage(peal_schedule *script, peal_diag *diag);
/* Follows every contribution through the steps. Errors: UNPROVEN, with path and line: a step moves
 * what its rank does not have, or adds a contribution twice; or at the end a rank lacks part of
 * its result, where the line is the last that touched it. MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_schedule_check(const peal_schedule *script, peal_diag *diag);
/* The script that an algorithm written in Lua (docs/lua-algorithms.md) makes for a request: runs
 * the text in a sandbox, then checks the script. `name` is what messages call the text. Errors:
 * ARG, UNSUPPORTED (it serves another collective; or a library without Lua), INPUT and UNPROVEN
 * with path and line, LIMIT, MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_schedule_load(peal_ctx *ctx, const peal_fabric *fabric,
                                                   const peal_request *request, const char *text,
                                                   size_t bytes, const char *name, peal_diag *diag,
                                                   peal_schedule **script_out);

typedef struct peal_table_info {
    size_t size;
    peal_collective collective; /* of the first row */
    uint32_t ranks;
    uint32_t rows;
    int compiled; /* 1: rows hold programs */
    int verified; /* 1: this process has proven every row */
    int sliced;   /* 1: the programs of one rank only */
    uint32_t slice_rank;
} peal_table_info;

typedef struct peal_row_info {
    size_t size;
    uint64_t min_bytes;
    uint64_t max_bytes;
    char algorithm[64]; /* "ring", "hierarchical" */
    char detail[128];   /* parameters, "gateways 8, inner direct, outer ring" */
    uint32_t channels;
    uint64_t tile_bytes;                          /* 0: not tiled */
    const char *protocol;                         /* "simple" or "packet" */
    uint32_t move_engines[PEAL_LINK_CLASS_COUNT]; /* bit 1 << engine per class used */
    uint64_t scratch_bytes;                       /* per rank */
    uint32_t sms;                                 /* lanes that hold an SM */
    double time_us;                               /* predicted at max_bytes */
    double time_min_us;                           /* predicted at min_bytes */
    double alpha_us;                              /* latency part at max_bytes */
    double algbw_gbs;                             /* at max_bytes */
    double busbw_gbs;
    double bound_us;    /* lower bound of this fabric at max_bytes */
    int latency_bound;  /* 1: the latency part is the larger at max_bytes */
    uint64_t hop_bytes; /* bytes one hop carries at max_bytes */
    char binding[128];  /* the resource that limits it */
    peal_collective collective;
    uint32_t root;       /* 0 where the collective has none, */
    uint32_t peer;       /* as this */
    char bound_cut[160]; /* allgather, reduce-scatter: the ranks whose links prove the bound */
    /* Once proven: equal for plans that add up every element in the same order and round at the
     * same places; 0: there is no one order, or nothing is reduced. */
    uint64_t order;
    double time_alone_us;  /* predicted at max_bytes, were no sibling under way; 0: unknown */
    uint64_t net_messages; /* that cross hosts at max_bytes, of the rank that sends most of them;
                              0: none, or, before compilation, not counted for this algorithm */
    uint64_t net_message_bytes; /* of each, at max_bytes: the mean */
    /* As what float32 elements travel; other types are refused then. Once proven: how many
     * roundings to that format a contribution passes at most, which bounds the error
     * (docs/algorithms.md, "Compressed"). */
    peal_wire wire;
    uint32_t wire_roundings;
} peal_row_info;

/* What a table is for; what row `row` of it is, from 0. The caller sets info->size. Errors: ARG. */
PEAL_API PEAL_CHECK peal_status peal_table_get(const peal_table *table, peal_table_info *info);
PEAL_API PEAL_CHECK peal_status peal_table_row(const peal_table *table, uint32_t row,
                                               peal_row_info *info);
/* Every candidate considered, best first at the row's max_bytes, to which min_bytes
 * and max_bytes of *info are set. Errors: ARG past the last, MEMORY. Only tables from
 * peal_table_plan hold candidates, until they are joined. */
PEAL_API PEAL_CHECK peal_status peal_table_candidate(const peal_table *table, uint32_t row,
                                                     uint32_t index, peal_row_info *info);
/* The candidate of an algorithm that is fastest for a message of `bytes`, to which min_bytes and
 * max_bytes of *info are set; algorithm NULL: what the table has chosen for that size. Tables as of
 * peal_table_candidate. Errors: ARG, RANGE (no row, or no candidate of it, serves that). */
PEAL_API PEAL_CHECK peal_status peal_table_best(const peal_table *table, const char *algorithm,
                                                uint64_t bytes, peal_row_info *info);

/* What is predicted of a row's schedule for a message of `bytes`, to which min_bytes and max_bytes
 * of *info are set: also of a size that another row serves. Only tables from peal_table_plan, until
 * they are joined. Errors: ARG, RANGE (it cannot serve so many). */
PEAL_API PEAL_CHECK peal_status peal_table_predict(const peal_table *table, uint32_t row,
                                                   uint64_t bytes, peal_row_info *info);

/* ---- policies --------------------------------------------------------------- */

/* What scripts may take of their host (docs/policies.md). */
typedef struct peal_script_limits {
    size_t size;
    uint64_t memory_bytes; /* of each script; 0 means 24 MiB */
    uint64_t units;        /* of work, about an instruction each; 0 means 10 000 000 */
    int seeded;            /* 1: there is a math.random, which starts from seed */
    uint64_t seed;
    /* Receives each line that a script prints, without its newline; NULL: nobody does. Called
     * from the thread that plans. */
    void (*print)(void *user, const char *line, size_t bytes);
    void *print_user;
} peal_script_limits;
/* clang-format off */
#define PEAL_SCRIPT_LIMITS_INIT {sizeof(peal_script_limits), 0, 0, 0, 0, NULL, NULL}
/* clang-format on */

typedef struct peal_policy_text {
    const char *name; /* what errors call it */
    const char *text;
    size_t bytes;
} peal_policy_text;

/* A policy of one script, or of several, where each refines what the ones before it have decided.
 * Keeps copies. Each script is compiled and run once, so that errors come early, and again for
 * each table that is planned: nothing it remembers goes from one to the next. A policy may be used
 * by any number of threads at once. limits: NULL for defaults. Errors: ARG, INPUT (with line, and
 * the calls that led there), LIMIT (a script's budget or memory was used up), UNSUPPORTED (built
 * without Lua), MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_policy_create(peal_ctx *ctx, const peal_policy_text *texts,
                                                   uint32_t count, const peal_script_limits *limits,
                                                   peal_diag *diag, peal_policy **policy_out);
PEAL_API void peal_policy_destroy(peal_policy *policy);
/* What scripts can reach, for editors: annotations of the Lua language server. Errors: UNSUPPORTED,
 * and the writer's. */
PEAL_API PEAL_CHECK peal_status peal_policy_annotations(peal_write_fn write, void *user);

/* A script's state at hand, with `fabric` loaded, for lines that come one by one. */
typedef struct peal_console peal_console;
/* The fabric has to outlive it. Errors: as peal_policy_create. */
PEAL_API PEAL_CHECK peal_status peal_console_create(peal_ctx *ctx, const peal_fabric *fabric,
                                                    const peal_script_limits *limits,
                                                    peal_diag *diag, peal_console **console_out);
PEAL_API void peal_console_destroy(peal_console *console);
/* Runs a text; values of an expression are printed. Each has the whole budget.
 * PEAL_AGAIN: the text is not complete. Errors: as peal_policy_create. */
PEAL_API PEAL_CHECK peal_status peal_console_run(peal_console *console, const char *text,
                                                 size_t bytes, peal_diag *diag);

/* The file form (docs/plan-format.md). Loading checks checksums, bounds and
 * form, not the schedule: call peal_table_verify before trusting it; a comm
 * does so by itself. */
PEAL_API PEAL_CHECK peal_status peal_table_save(const peal_table *table, peal_write_fn write,
                                                void *user, peal_diag *diag);
PEAL_API PEAL_CHECK peal_status peal_table_load(peal_ctx *ctx, const void *data, size_t bytes,
                                                const char *name, peal_diag *diag,
                                                peal_table **table_out);
/* The text form: what print writes, assemble reads back to the same bytes. */
PEAL_API PEAL_CHECK peal_status peal_table_print(const peal_table *table, peal_write_fn write,
                                                 void *user, peal_diag *diag);
PEAL_API PEAL_CHECK peal_status peal_table_assemble(peal_ctx *ctx, const char *text, size_t bytes,
                                                    const char *name, peal_diag *diag,
                                                    peal_table **table_out);

/* One instruction of one lane, for tools. `text` is its line of the text form
 * (owned by the caller's buffer). */
typedef struct peal_step_info {
    size_t size;
    const char *op;      /* "put", "reduce", "wait"... */
    const char *section; /* "pre", "body", "post" */
    peal_engine engine;
    int moves_data;
    char text[512];
    uint32_t chunks; /* that a data step moves as one message; 0 of other steps */
} peal_step_info;
/* The 128-bit identity of a row's plan as 32 hex digits. ERR_ARG when the row
 * holds no program. */
PEAL_API PEAL_CHECK peal_status peal_table_id(const peal_table *table, uint32_t row,
                                              char id_out[33]);
/* The pairs of a row of sendrecv by a list, from and to by turns; NULL and 0 where there is none.
 * They live as long as the table. */
PEAL_API const uint32_t *peal_table_pairs(const peal_table *table, uint32_t row,
                                          uint32_t *count_out);
/* Block `index` of a row of custom, whose lists live as long as the table. ERR_ARG past the last.
 */
PEAL_API PEAL_CHECK peal_status peal_table_block(const peal_table *table, uint32_t row,
                                                 uint32_t index, peal_block *block);
PEAL_API PEAL_CHECK peal_status peal_table_lanes(const peal_table *table, uint32_t row,
                                                 uint32_t rank, uint32_t *count_out);
PEAL_API PEAL_CHECK peal_status peal_table_step(const peal_table *table, uint32_t row,
                                                uint32_t rank, uint32_t lane, uint32_t index,
                                                peal_step_info *info);

/* ---- verification ------------------------------------------------------- */

/* kind: form, capability, bounds, result, deadlock, race, composition, numbers. rank, lane,
 * step are -1 where none is meant. */
typedef struct peal_finding {
    size_t size;
    const char *kind;
    uint32_t row;
    int64_t rank;
    int64_t lane;
    int64_t step;
    char text[384];
} peal_finding;
typedef void (*peal_finding_fn)(void *user, const peal_finding *finding);

typedef struct peal_verify_report {
    size_t size;
    uint32_t findings;
    uint32_t ranks;
    uint64_t steps;      /* instructions executed symbolically */
    uint32_t proofs;     /* (plan, aliasing mode, trip count) combinations proven */
    uint32_t by_classes; /* rows proven by classes: hosts and rails apart, one of each kind */
    uint32_t hosts;      /* of the largest of these; 0: none */
    uint32_t rails;
    uint32_t executed; /* ranks executed, over all rows */
} peal_verify_report;

/* Proves every row: result, deadlock, races, composition, capability and bounds
 * (docs/plan-format.md, "What is proven"). `found` (may be NULL) hears of each
 * finding, at most 32 a row. PEAL_OK: proven, and the table is marked so;
 * ERR_UNPROVEN: findings; ERR_LIMIT: it would take too long for a table of its
 * size ("Limits" there), with the file and line of the plan that does. */
PEAL_API PEAL_CHECK peal_status peal_table_verify(peal_table *table, peal_finding_fn found,
                                                  void *user, peal_verify_report *report,
                                                  peal_diag *diag);

/* How a plan is proven (docs/plan-format.md, "By classes"). */
typedef enum peal_proof {
    PEAL_PROOF_AUTO,      /* by classes above 1 024 ranks, where a plan fits; else all ranks */
    PEAL_PROOF_ENUMERATE, /* all ranks executed as one */
    PEAL_PROOF_CLASSES    /* by classes; ERR_UNSUPPORTED: a row does not fit */
} peal_proof;
/* peal_table_verify by a given proof; that one is PEAL_PROOF_AUTO. */
PEAL_API PEAL_CHECK peal_status peal_table_prove(peal_table *table, peal_proof how,
                                                 peal_finding_fn found, void *user,
                                                 peal_verify_report *report, peal_diag *diag);

/* The same proof of a planned table, whose programs are made as the proof asks for them and not
 * kept: of tables that peal_table_compile does not take. The table stays planned and counts as
 * verified. Errors: as peal_table_verify; ARG (not planned, or on another fabric), UNSUPPORTED (a
 * row that cannot be proven without all programs at once). */
PEAL_API PEAL_CHECK peal_status peal_table_verify_planned(peal_table *table,
                                                          const peal_fabric *fabric,
                                                          peal_finding_fn found, void *user,
                                                          peal_verify_report *report,
                                                          peal_diag *diag);

/* ---- simulation ------------------------------------------------------------ */

/* One call of a plan, simulated flow by flow on a fabric: what the closed forms of the costs
 * cannot see. Max-min fair shares of links, start-ups, gaps of engines and NICs, rates of lanes,
 * finite slots. */
typedef struct peal_sim peal_sim;

typedef struct peal_sim_params {
    size_t size;
    uint64_t bytes; /* of the message, as the collective counts it; 0: the row's max_bytes */
    int keep;       /* 1: keep waits and dependences too, which trace, flows and steps need */
    uint64_t buffer_bytes; /* of a switch port; 0: queues are not looked at */
} peal_sim_params;
#define PEAL_SIM_PARAMS_INIT                                                                       \
    {                                                                                              \
        sizeof(peal_sim_params), 0, 0, 0                                                           \
    }

/* Runs a compiled row on the fabric, whose ranks are taken for the plan's in order. The table must
 * outlive the simulation, the fabric need not. Errors: ARG (no program, another machine), RANGE
 * (more bytes than planned), PLAN (it never ends: not verified, or a dead link), LIMIT, MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_simulate(peal_ctx *ctx, const peal_fabric *fabric,
                                              const peal_table *table, uint32_t row,
                                              const peal_sim_params *params, peal_diag *diag,
                                              peal_sim **sim_out);
PEAL_API void peal_sim_destroy(peal_sim *sim);

typedef struct peal_sim_info {
    size_t size;
    uint64_t bytes;
    double time_us;    /* until the last rank returns */
    double model_us;   /* what the plan predicts, when bytes is its max_bytes; else 0 */
    uint32_t links;    /* that carried anything */
    uint32_t critical; /* entries of the critical path */
    uint32_t events;   /* entries of the timeline */
    uint32_t ports;    /* of switches, whose queues were looked at */
} peal_sim_info;
PEAL_API PEAL_CHECK peal_status peal_sim_get(const peal_sim *sim, peal_sim_info *info);

typedef struct peal_sim_link {
    size_t size;
    const char *resource; /* as peal_fabric_link has it; strings live as long as the simulation */
    const char *from;
    const char *to;
    double beta_gbs;
    double busy_us; /* something was on it */
    double bytes;   /* carried, stamps and detours counted */
    double share;   /* of what it could have carried in the whole time */
} peal_sim_link;
/* Links that carried anything, the busiest first. */
PEAL_API PEAL_CHECK peal_status peal_sim_link_get(const peal_sim *sim, uint32_t index,
                                                  peal_sim_link *info);

typedef struct peal_sim_event {
    size_t size;
    const char *kind; /* "move" by the lane, "transfer" by another engine, "signal", "wait" */
    uint32_t rank;
    uint32_t lane;
    uint32_t step; /* of the lane, as peal_table_step counts */
    uint32_t trip;
    peal_engine engine;
    uint64_t bytes; /* of the tile */
    double start_us;
    double end_us;
    double own_us;  /* critical path: what it added */
    char text[256]; /* its line of the text form */
} peal_sim_event;
/* The chain of steps that the time is due to, first one first: the own times add up to it. */
PEAL_API PEAL_CHECK peal_status peal_sim_critical(const peal_sim *sim, uint32_t index,
                                                  peal_sim_event *info);
/* All that was kept, in the order of their beginnings. */
PEAL_API PEAL_CHECK peal_status peal_sim_event_get(const peal_sim *sim, uint32_t index,
                                                   peal_sim_event *info);

typedef struct peal_sim_port {
    size_t size;
    const char *resource;
    double depth_bytes; /* the deepest its queue was */
    double at_us;
    uint32_t senders;  /* hosts' ports that filled it up to that */
    int overrun;       /* 1: deeper than the buffer */
    uint32_t innocent; /* overrun: transfers to other ports that PFC would have stopped too */
    const char *innocent_first; /* where the first of them went; "" none */
    uint32_t innocent_ports;    /* how many ports they went to */
} peal_sim_port;
/* Ports of switches, when buffer_bytes was given: what was offered to each above its rate. */
PEAL_API PEAL_CHECK peal_status peal_sim_port_get(const peal_sim *sim, uint32_t index,
                                                  peal_sim_port *info);
/* The hosts' ports that filled one, and the innocent ones. Errors: ARG. */
PEAL_API PEAL_CHECK peal_status peal_sim_port_sender(const peal_sim *sim, uint32_t port,
                                                     uint32_t index, const char **name_out);
PEAL_API PEAL_CHECK peal_status peal_sim_port_innocent(const peal_sim *sim, uint32_t port,
                                                       uint32_t index, const char **name_out);

/* Writes a simulation that has kept everything: "trace", the timeline for Chrome's and Perfetto's
 * viewers; "flows", a graph of flows for other simulators (peal.flows/1); "steps", every transfer
 * and what it leaves in the ranks' chunks, up to 64 ranks. Errors: ARG, MEMORY, LIMIT, the
 * writer's; UNPROVEN: all is written, and the steps leave wrong tiles. */
PEAL_API PEAL_CHECK peal_status peal_sim_write(const peal_sim *sim, const char *form,
                                               peal_write_fn write, void *user, peal_diag *diag);

typedef struct peal_emit_params {
    size_t size;
    uint64_t bytes;     /* of the message; 0: the row's max_bytes */
    int collapse_hosts; /* dot: hosts as nodes */
} peal_emit_params;
#define PEAL_EMIT_PARAMS_INIT                                                                      \
    {                                                                                              \
        sizeof(peal_emit_params), 0, 0                                                             \
    }
/* Writes a compiled row for other programs: "dot", a graph for Graphviz; "goal", a schedule for
 * LogGOPSim and ATLAHS. Errors: ARG, RANGE, MEMORY, and the writer's. */
PEAL_API PEAL_CHECK peal_status peal_table_emit(const peal_table *table, uint32_t row,
                                                const char *form, const peal_emit_params *params,
                                                peal_write_fn write, void *user, peal_diag *diag);

/* ---- estimating ------------------------------------------------------------- */

/* What of a model decides its communication. Zero fields mean what is said. */
typedef struct peal_model {
    size_t size;
    char name[32];
    uint64_t params;        /* all of them, of all experts */
    uint32_t layers;        /* each an attention and an MLP */
    uint32_t hidden;        /* width of an activation */
    uint32_t sequence;      /* tokens; 0 means 4096 */
    uint32_t batch;         /* sequences of one replica in a step; 0 means 1 */
    uint32_t micro_batches; /* the batch is cut into, a divisor; 0 means 1 */
    uint32_t act_bytes;     /* of an element of an activation; 0 means 2 */
    uint32_t grad_bytes;    /* of an element of a gradient; 0 means 2 */
    uint32_t experts;       /* of a layer that has any; 0: a dense model */
    uint32_t top_k;         /* experts a token goes to; 0 means 2 */
    uint32_t moe_layers;    /* layers with experts; 0 means all */
    uint32_t expert_hidden; /* an expert is three matrices of hidden x this */
    uint32_t kv_hidden;     /* width of keys, and of values; 0 means hidden */
} peal_model;
/* clang-format off */
#define PEAL_MODEL_INIT {sizeof(peal_model), {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */
/* Known models, 0, 1, ...; ERR_ARG past the last. Any thread. */
PEAL_API PEAL_CHECK peal_status peal_model_preset(uint32_t index, peal_model *model);

/* How the model is split. Rank t + tp * (c + C * (d + dp * p)) of the fabric is tensor-parallel
 * place t of part c of replica d's sequences in stage p, C = sp / tp; the experts of a layer are
 * spread over ep replicas, or parts of them, in a row. */
typedef struct peal_estimate_params {
    size_t size;
    uint32_t tp; /* 0 means 1, as of pp, ep and sp */
    uint32_t dp; /* 0: as many replicas as the fabric has room for */
    uint32_t pp;
    uint32_t ep; /* divides C * dp and the experts */
    uint32_t sp; /* tp: allgather and reduce-scatter in the place of tp's allreduce; a multiple
                    of tp: sequences are cut further, into C parts; or 1 */
    int full_gradient; /* 1: dp moves all parameters' gradients, though tp, pp and ep cut them */
    uint32_t zero;     /* 0: allreduce of gradients; 1, 2: reduce-scatter, and an allgather of
                          parameters; 3: two of those */
    double overlap;    /* part of dp that compute hides; 0 means 0.9, negative none */
    double compute_us; /* of a rank in a step; 0: 6 x active parameters x tokens of its share */
    double tflops;     /* 1e12 operations a second that a rank gets done; 0 means 400 */
    const char *algorithm;  /* of allreduces; NULL: choose */
    uint32_t channels;      /* the same; 0: choose */
    uint64_t scratch_limit; /* as of a request */
    uint64_t bucket_bytes;  /* of gradients; 0: choose */
    uint32_t decode_batch;  /* sequences that get a token each; 0 means 4 */
    /* As of a request, for every collective of every axis. */
    const peal_policy *policy;
    int policy_fallback;
    /* An algorithm in Lua for the allreduces, in the place of `algorithm` (peal_schedule_load).
     * NULL: none. */
    const peal_policy_text *script;
    /* How parts of a sequence get the keys and values of the others: 0: an allgather, 1: block by
     * block around a ring, beside the attention to the block before. */
    int context_ring;
} peal_estimate_params;
/* clang-format off */
#define PEAL_ESTIMATE_PARAMS_INIT {sizeof(peal_estimate_params), 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, NULL, 0, 0, 0, 0, NULL, 0, NULL, 0}
/* clang-format on */

typedef struct peal_estimate peal_estimate;

/* Plans the collectives of a training step, and of a token of decoding, for every axis, as all its
 * groups run them at once. Keeps no pointer to its arguments. docs/estimate.md has the formulas.
 * Errors: ARG (sizes that do not fit each other or the fabric), UNSUPPORTED (as of
 * peal_table_plan), MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_estimate_create(peal_ctx *ctx, const peal_fabric *fabric,
                                                     const peal_model *model,
                                                     const peal_estimate_params *params,
                                                     peal_diag *diag, peal_estimate **estimate_out);
PEAL_API void peal_estimate_destroy(peal_estimate *estimate);

typedef struct peal_estimate_info {
    size_t size;
    uint32_t ranks; /* tp x dp x pp */
    uint32_t dp;
    uint32_t axes;
    uint32_t buckets; /* sizes looked at */
    double compute_us;
    double bubble_us; /* of the pipeline: (pp - 1) / micro-batches of compute_us */
    double model_us;  /* tp, sp, cp, ep and pp in a step: what no compute hides of them */
    double dp_us;     /* all of data parallelism in a step, each collective as one call */
    double serial_us; /* a step with nothing hidden: the four together */
    double overlap;
    double overlap_us;     /* a step with that part of dp_us hidden */
    double backward_us;    /* of the last micro-batch, which the buckets leave during */
    double exposed_us;     /* of the gradients in buckets: what reaches beyond backward_us */
    double bucketed_us;    /* a step with these, and with `overlap` of the allgathers hidden */
    uint64_t bucket_bytes; /* 0: there is no data parallelism */
    double text_serial_us; /* serial_us and overlap_us by the formulas of rings */
    double text_overlap_us;
    double decode_us;       /* communication of one token */
    double decode_alpha_us; /* its start-ups */
} peal_estimate_info;
PEAL_API PEAL_CHECK peal_status peal_estimate_get(const peal_estimate *estimate,
                                                  peal_estimate_info *info);

typedef struct peal_estimate_axis {
    size_t size;
    const char *axis; /* "tp", "sp", "cp", "ep", "pp", "dp"; "edp": experts' gradients. Static */
    int decode;       /* 1: in a token of decoding, 0: in a step of training */
    peal_collective collective;
    uint32_t ranks;  /* of a group */
    uint32_t groups; /* under way at the same time */
    uint64_t calls;
    uint64_t bytes; /* of a call, as the collective counts them */
    double call_us;
    double alpha_us;            /* of that, start-ups */
    double alone_us;            /* were the other groups idle; 0: unknown */
    double total_us;            /* calls x call_us */
    double exposed_us;          /* of that, with the stated overlap, or beyond beside_us */
    double text_us;             /* a call by the formula of a ring (docs/estimate.md), of the */
    double hop_alpha_us;        /* slowest start-up and */
    double hop_beta_gbs;        /* narrowest way between neighbours of a group */
    peal_link_class link_class; /* the farthest of these */
    int latency_bound;
    char algorithm[64];
    char detail[128];
    char binding[128];
    double beside_us; /* compute that a call runs beside; 0: none */
    int alternative;  /* 1: of context parallelism's other form, and in no sum */
} peal_estimate_axis;
PEAL_API PEAL_CHECK peal_status peal_estimate_axis_get(const peal_estimate *estimate,
                                                       uint32_t index, peal_estimate_axis *info);

/* Gradients cut into buckets of a size: each is sent when the backward pass has filled it and the
 * one before is through. */
typedef struct peal_estimate_bucket {
    size_t size;
    uint64_t bytes;
    uint32_t count;
    double call_us;
    double alpha_us; /* of that, start-ups */
    double total_us;
    double first_share; /* of the backward pass, when the first one leaves */
    double exposed_us;  /* behind the backward pass */
    int latency_bound;
    int good;   /* 1: the first leaves in the first 15 %, and start-ups are 5 % of a call at most */
    int chosen; /* 1: bucket_bytes: the smallest of the good (none: of all) whose end is within 1 %
                   of the earliest */
} peal_estimate_bucket;
PEAL_API PEAL_CHECK peal_status peal_estimate_bucket_get(const peal_estimate *estimate,
                                                         uint32_t index,
                                                         peal_estimate_bucket *info);

/* Writes the chosen buckets against the backward pass: "text", "svg". Errors: ARG (no data
 * parallelism), MEMORY, and the writer's. */
PEAL_API PEAL_CHECK peal_status peal_estimate_write(const peal_estimate *estimate, const char *form,
                                                    peal_write_fn write, void *user,
                                                    peal_diag *diag);

/* ---- measurements and the lines through them ------------------------------- */

/* Tables of measured times, series by series. */
typedef struct peal_measured peal_measured;

typedef struct peal_point {
    uint64_t bytes; /* as nccl-tests counts them */
    double time_us;
} peal_point;

typedef struct peal_series_info {
    size_t size;
    char name[192];
    char system[64];    /* the machine; "": not known */
    int has_collective; /* 0: a transfer between two, or not known */
    peal_collective collective;
    uint32_t ranks; /* 0: the text does not say */
    uint32_t nodes; /* as ranks */
    int has_link;   /* it was measured over one class of links */
    peal_link_class link;
    uint32_t points;
    uint32_t line;       /* of the first one */
    int of_blocks;       /* sizes are those of one block, as OSU counts them, not of all blocks */
    int has_buffers;     /* the text says whether callers' buffers were private to processes */
    int private_buffers; /* and they were (peal_request) */
} peal_series_info;

/* An empty set. Errors: ARG, MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_measured_create(peal_ctx *ctx, peal_measured **measured_out);
PEAL_API void peal_measured_destroy(peal_measured *measured);
/* Adds the series of a text: the tables of nccl-tests, rccl-tests and peal bench, of the OSU
 * micro-benchmarks, or columns with names between tabs (docs/costs.md). `path` names the text in
 * errors. On an error nothing is added. Errors: ARG, INPUT (with the line), LIMIT, MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_measured_read(peal_measured *measured, const char *data,
                                                   size_t bytes, const char *path, peal_diag *diag);
/* Adds points to the series of info's name, which is made if there is none (info's points and line
 * do not count). Errors: ARG (no name, a size of 0, a time that is not above 0), LIMIT, MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_measured_add(peal_measured *measured,
                                                  const peal_series_info *info,
                                                  const peal_point *points, uint32_t count,
                                                  peal_diag *diag);
PEAL_API uint32_t peal_measured_count(const peal_measured *measured);
/* Of series `index`; the points live until the set is changed. Errors: ARG. */
PEAL_API PEAL_CHECK peal_status peal_measured_get(const peal_measured *measured, uint32_t index,
                                                  peal_series_info *info,
                                                  const peal_point **points_out);

/* Sizes of blocks times the number of ranks: those that peal counts. A series that has them is left
 * as it is. Errors: ARG, LIMIT. */
PEAL_API PEAL_CHECK peal_status peal_measured_whole(peal_measured *measured, uint32_t index,
                                                    uint32_t ranks, peal_diag *diag);

#define PEAL_FIT_SEGMENTS 4

/* time = alpha_us + bytes / beta_gbs, from min_bytes to max_bytes. The intervals hold the true
 * value with 95 % confidence. */
typedef struct peal_fit_segment {
    uint64_t min_bytes;
    uint64_t max_bytes;
    double alpha_us; /* of the line at 0 bytes: below 0 where lines bend upwards */
    double alpha_low_us;
    double alpha_high_us;
    double beta_gbs; /* 0: the time does not grow with the size */
    double beta_low_gbs;
    double beta_high_gbs; /* 0: no bound */
    uint32_t points;
} peal_fit_segment;

typedef struct peal_fit {
    size_t size;
    uint32_t segments;
    peal_fit_segment segment[PEAL_FIT_SEGMENTS];
    double alpha_us;        /* of the first segment */
    double beta_gbs;        /* of the last one */
    double crossover_bytes; /* S* = alpha * beta: below it the start-up is the larger part */
    uint32_t sizes;         /* fitted; of several times of one size the median */
    uint32_t parameters;    /* alpha, a beta for each segment, the places between them */
    uint32_t outliers;      /* sizes that counted for less than half */
    double error;           /* exp(mean |ln(fitted / measured)|) - 1 */
    double worst_error;     /* of the worst size: fitted / measured - 1 */
    uint64_t worst_bytes;
} peal_fit;

/* Fits at most max_segments (0: 4) straight lines that meet. Deviations are relative and Huber's;
 * how many lines is decided by Bayes' information criterion. Errors: ARG (fewer than 2 sizes, a
 * time that is not above 0), LIMIT (more than 1024 sizes), MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_fit_points(peal_ctx *ctx, const peal_point *points,
                                                uint32_t count, uint32_t max_segments,
                                                peal_diag *diag, peal_fit *fit);
/* The time in us that a fit gives for a size; beyond the fitted ones the outer lines go on. */
PEAL_API double peal_fit_time(const peal_fit *fit, uint64_t bytes);

typedef struct peal_fit_shape {
    size_t size;
    peal_collective collective;
    uint32_t ranks;
    uint32_t nodes;
} peal_fit_shape;
/* The time in us that a fit of one collective gives for another one, or for other numbers of ranks
 * or nodes, by what each moves and how many stages it has (docs/costs.md). 0: it cannot say, since
 * one of the two uses links that the other does not. */
PEAL_API double peal_fit_time_as(const peal_fit *fit, const peal_fit_shape *fitted,
                                 const peal_fit_shape *wanted, uint64_t bytes);

/* One class of links, for peal_profile_write. */
typedef struct peal_profile_cost {
    size_t size;
    peal_link_class link;
    double alpha_us; /* 0: not stated */
    double beta_gbs; /* 0: not stated */
} peal_profile_cost;
/* What a series says of its class of links: that of info->link, else of the network where there
 * are several nodes. nics: of a node, that share what crosses (0: one). Errors: ARG (neither class
 * nor numbers of ranks are known). */
PEAL_API PEAL_CHECK peal_status peal_fit_cost(const peal_fit *fit, const peal_series_info *info,
                                              uint32_t nics, peal_diag *diag,
                                              peal_profile_cost *cost);
/* Writes a topology with these costs, which peal_fabric_load reads (docs/topology-xml.md): hosts of
 * the given file (NULL: of `ranks` ranks without accelerators). Errors: ARG, MEMORY, and the
 * writer's. */
PEAL_API PEAL_CHECK peal_status peal_profile_write(peal_ctx *ctx, const char *host_path,
                                                   uint32_t hosts, uint32_t ranks,
                                                   const peal_profile_cost *costs, uint32_t count,
                                                   peal_write_fn write, void *user,
                                                   peal_diag *diag);

/* How fast a rank copies in a message of so many bytes, of ranks that share one memory. */
typedef enum peal_memory_use {
    PEAL_MEMORY_LOAD = 0,     /* out of callers' buffers */
    PEAL_MEMORY_STORE = 1,    /* into callers' buffers too */
    PEAL_MEMORY_EXCHANGE = 2, /* by way of memory that ranks write for each other */
    PEAL_MEMORY_DOUBLING = 3, /* the same, of one algorithm */
    PEAL_MEMORY_HALVING = 4,
    PEAL_MEMORY_RING = 5,
    PEAL_MEMORY_SWING = 6,
    PEAL_MEMORY_STAR = 7,
    PEAL_MEMORY_TREE = 8
} peal_memory_use;
#define PEAL_MEMORY_USE_COUNT 9
typedef struct peal_memory_rate {
    size_t size;
    peal_memory_use use;
    uint64_t bytes; /* rising, for each use */
    double gbs;
} peal_memory_rate;
/* What calls of one schedule took, by the bytes of their messages. */
typedef struct peal_memory_call {
    size_t size;
    peal_collective collective;
    const char *algorithm;
    const char *detail;       /* as in peal_row_info; NULL: any of the algorithm's schedules */
    uint64_t tile_bytes;      /* 0: whole chunks */
    int private_buffers;      /* 1: buffers were private to processes (peal_request) */
    const peal_point *points; /* sizes rise */
    uint32_t count;           /* 1 to 32 */
} peal_memory_call;
typedef struct peal_memory_costs {
    size_t size;
    uint32_t ranks;                /* measured with so many */
    double alpha_us;               /* start-up of a step */
    double entry_us;               /* what a call takes besides */
    const peal_memory_rate *rates; /* at most 32 of each use, at least one of the first three */
    uint32_t nrates;
    const peal_memory_call *calls; /* schedules that are then known to take that; NULL: none */
    uint32_t ncalls;
} peal_memory_costs;
/* Writes a topology of ranks that share one memory. Errors: ARG, MEMORY, and the writer's. */
PEAL_API PEAL_CHECK peal_status peal_memory_write(peal_ctx *ctx, const peal_memory_costs *costs,
                                                  peal_write_fn write, void *user, peal_diag *diag);

/* ---- running ------------------------------------------------------------ */

typedef struct peal_world peal_world;
typedef struct peal_comm peal_comm;

/* The shared memory in which ranks of one host meet. Threads of one process and
 * processes forked after peal_world_create use the same world; unrelated
 * processes attach by the name of a shared-memory object. */
typedef struct peal_world_params {
    size_t size;
    uint32_t ranks;
    uint64_t heap_bytes;  /* registered memory a rank may take; 0 means 256 MiB (virtual) */
    uint32_t timeout_ms;  /* deadline of every wait; 0 means 30 000 */
    const char *shm_name; /* NULL: private to this process and its children; else the name
                             of a POSIX shared-memory object ("/job1") made by rank 0, which tells
                             processes of its user and pid namespace where the memory is */
    int attach;           /* 1: open shm_name, which another process makes */
    int private_buffers;  /* 1: ranks are processes, so that callers' own buffers are not
                             visible to peers and are staged through registered memory; without
                             it, such a buffer is ARG where ranks are processes */
    uint64_t chaos_seed;  /* not 0: asynchronous engines delay, split and reorder within
                             what they promise, from this seed (for tests) */
    /* Private buffers of messages from this size on are not staged: the kernel copies between
     * processes (cross-memory attach), where it lets them. 0 means 32 MiB, of reductions more than
     * 64 MiB, and 1 MiB where staging would take more than half of the heap; UINT64_MAX never. */
    uint64_t attach_bytes;
} peal_world_params;
/* clang-format off */
#define PEAL_WORLD_PARAMS_INIT {sizeof(peal_world_params), 0, 0, 0, NULL, 0, 0, 0, 0}
/* clang-format on */

/* A world with memory for this table, whose rows are compiled. With shm_name and attach it waits
 * for the maker up to the deadline. Errors: ARG, RANGE (more memory than one segment has), MISMATCH
 * (it was made for another table), TIMEOUT, UNSUPPORTED (its memory cannot be seen from here: join
 * instead), IO, MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_world_create(peal_ctx *ctx, const peal_world_params *params,
                                                  const peal_table *table, peal_diag *diag,
                                                  peal_world **world_out);
PEAL_API void peal_world_destroy(peal_world *world);

/* ---- worlds of several processes and hosts */

/* Where rank 0 listens, and the job's key: whoever has it may take part, so it travels by private
 * means. As with ncclUniqueId, one rank makes it and gives it to the others. */
typedef struct peal_id {
    unsigned char bytes[128];
} peal_id;
/* Rank 0's end of it: a socket that listens. */
typedef struct peal_meeting peal_meeting;
/* Listens on an address or interface of this host (NULL: 127.0.0.1, for ranks of this host only),
 * port 0: any, and draws a key. The meeting goes into rank 0's peal_join_params, or is closed. An
 * id serves one join. Errors: ARG, IO, MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_meeting_open(peal_ctx *ctx, const char *address, uint32_t port,
                                                  peal_diag *diag, peal_meeting **meeting_out,
                                                  peal_id *id_out);
PEAL_API void peal_meeting_close(peal_meeting *meeting);

/* How one rank joins. Either with an id, or by an address and port of rank 0's host that all
 * know, with a key that all have (any bytes). Without a key only ranks of rank 0's host get in. */
typedef struct peal_join_params {
    size_t size;
    uint32_t rank;
    uint32_t ranks;
    const peal_id *id;
    peal_meeting *meeting; /* rank 0 with an id; taken over, also on errors */
    const char *address;   /* instead of an id: IPv4, IPv6 or a name, */
    uint32_t port;
    const void *key;
    size_t key_bytes;
    int insecure;          /* 1: other hosts may join without a key */
    const char *interface; /* where ranks of other hosts reach this one: a name ("eth0") or an own
                              address; NULL: as it reaches rank 0. Rank 0 is met where the id or the
                              address says all the same */
    const char *host;      /* ranks with equal texts share memory; NULL: those under one kernel
                              that see one /dev/shm */
    uint32_t sockets;      /* between two ranks, at most 8; 0 means 2. Rank 0's holds */
    uint32_t timeout_ms;   /* deadline of the meeting and of every wait; 0 means 30 000 */
    uint64_t heap_bytes;   /* as in peal_world_params; the same on all ranks */
    uint64_t chaos_seed;
    const char *rdma; /* which device, where the plan asks for RDMA: "device", "device:port" or
                         "device:port:gid index"; "off": none; NULL: the plan's, else the closest.
                         There are as many queue pairs between two ranks as sockets */
} peal_join_params;
/* clang-format off */
#define PEAL_JOIN_PARAMS_INIT {sizeof(peal_join_params), 0, 0, NULL, NULL, NULL, 0, NULL, 0, 0, NULL, NULL, 0, 0, 0, 0, NULL}
/* clang-format on */

/* Blocks until all ranks are there, know that they have the same table, version and number of
 * ranks, and are connected, or until the deadline. Every rank gets the same answer. The world is
 * for one comm of this rank. Errors: ARG, TIMEOUT, MISMATCH (names the rank and the difference),
 * UNSUPPORTED (the plans reach over hosts in a way that no network can), PEER, IO, MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_world_join(peal_ctx *ctx, const peal_join_params *params,
                                                const peal_table *table, peal_diag *diag,
                                                peal_world **world_out);
/* The same without blocking: what params and table refer to stays as it is until the end of it.
 * peal_join_test gives AGAIN until there is an answer, then that one, once; wait_ms: so long it
 * may block. With AGAIN diag->text says who has not come yet, on rank 0, and on the others whether
 * they have found rank 0. peal_join_end calls off what is not done. One thread at a time. */
typedef struct peal_join peal_join;
PEAL_API PEAL_CHECK peal_status peal_join_start(peal_ctx *ctx, const peal_join_params *params,
                                                const peal_table *table, peal_diag *diag,
                                                peal_join **join_out);
PEAL_API PEAL_CHECK peal_status peal_join_test(peal_join *join, uint32_t wait_ms, peal_diag *diag,
                                               peal_world **world_out);
PEAL_API void peal_join_end(peal_join *join);

/* Rank 0's table to all ranks of a job, before they join: what was chosen by a policy, or by a
 * script, is chosen once. Every rank calls, with the parameters that it will join with (rank 0's
 * meeting stays open for that). table: rank 0's, compiled and whole; NULL on the others, which get
 * theirs in *table_out, as rank 0 has it, proven; the caller destroys it. Rank 0 gets no table, and
 * *table_out is not touched there. Rank 0 with NULL has none, and tells everybody diag->text as it
 * is when it calls. All ranks get the same answer: the plans that a rank has read are compared
 * with rank 0's by their ids. Deadline: timeout_ms for the meeting, and again for the table.
 * Errors: ARG, TIMEOUT, MISMATCH, PEER, UNPROVEN, LIMIT (more than PEAL_SHARE_BYTES), IO, MEMORY.
 */
#define PEAL_SHARE_BYTES (1ull << 30)
PEAL_API PEAL_CHECK peal_status peal_table_share(peal_ctx *ctx, const peal_join_params *params,
                                                 const peal_table *table, peal_diag *diag,
                                                 peal_table **table_out);
/* A new world of some ranks of a joined one, for split and shrink: every listed rank calls, with
 * the same list and table; ranks[i] becomes rank i. All ranks may be listed: a world for another
 * comm. The old world may have failed, and may lack the ranks that are not listed. Errors: as
 * peal_world_join. */
PEAL_API PEAL_CHECK peal_status peal_world_split(peal_world *world, const uint32_t *ranks,
                                                 uint32_t count, const peal_table *table,
                                                 peal_diag *diag, peal_world **world_out);
/* What the ranks of a joined world tell each other beside their plans: `bytes` (at most 65 536) of
 * each, in rank order, in `all`. Every rank calls, with as many. Errors: PEER, TIMEOUT, MISMATCH,
 * behind which the ranks are no more in step: further exchanges are ABORTED, and the text says why.
 */
PEAL_API PEAL_CHECK peal_status peal_world_exchange(peal_world *world, const void *mine,
                                                    size_t bytes, void *all, peal_diag *diag);
/* The name of a rank's host; NULL where the world was not joined. Lives with the world. */
PEAL_API const char *peal_world_host(const peal_world *world, uint32_t rank);

/* How this rank reaches another one of a joined world, and what it has sent there. The texts live
 * with the world. */
typedef struct peal_link_state {
    size_t size;
    const char *transport; /* "memory" (one host), "tcp", "rdma" */
    const char *device;    /* rdma: this rank's, with the port: "mlx5_0:1"; else "" */
    const char *why; /* a clause: why not all links are rdma, where the plan asks for it; or "" */
    uint32_t links_rdma; /* of all ranks, each counted from both ends */
    uint32_t links_tcp;
    uint64_t puts; /* by tcp or rdma: transfers, their bytes, and signals, so far */
    uint64_t bytes;
    uint64_t signals;
    uint64_t writes; /* by tcp: how often some of these were handed to the sockets together */
} peal_link_state;
/* Any thread, at any time. Errors: ARG. */
PEAL_API PEAL_CHECK peal_status peal_world_link(const peal_world *world, uint32_t rank,
                                                peal_link_state *state);

/* Joins the world as `rank`. Blocks until every rank has joined or the deadline
 * passes; compares plan ids. The table must be verified, or is verified here; of slices, which are
 * the rank's own, capability and bounds are checked, and all ranks have slices.
 * Keeps its own copy of what it needs of the table. Errors: ARG, UNPROVEN, MISMATCH (names the
 * rank; or the table needs more memory than the one that the world was made for), TIMEOUT, ABORTED,
 * PEER (one has ended meanwhile), MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_comm_create(peal_world *world, peal_table *table,
                                                 uint32_t rank, peal_diag *diag,
                                                 peal_comm **comm_out);
PEAL_API void peal_comm_destroy(peal_comm *comm);

/* Registered memory: every rank of the world reaches it without a copy.
 * 4096-byte aligned; NULL when the heap is spent. Freed with the world. */
PEAL_API void *peal_mem_alloc(peal_comm *comm, size_t bytes);

/* The collectives. Each blocks; every rank must make the same calls in the same order, with
 * equal arguments but for its buffers; a rank that differs gives MISMATCH. On an error *diag
 * names the rank and the step, and the comm is unusable. Errors: ARG, RANGE (no row of the table
 * serves this collective, root and size), MISMATCH, TIMEOUT, ABORTED, PEER.
 *
 * count is the number of elements of one block: of the whole buffer for allreduce, reduce,
 * broadcast and sendrecv; of what one rank gives or gets for reduce-scatter, allgather, scatter
 * and gather, whose larger buffer holds N blocks in rank order; of what goes from one rank to
 * another for alltoall, and at most so for alltoallv, whose buffers both hold N.
 *
 * In place: out == in for allreduce, reduce and broadcast; in == out + rank * count for allgather
 * and, at the root, gather; out == in + rank * count for reduce-scatter and, at the root, scatter.
 * Any other overlap is ERR_ARG. Buffers that a rank's part has no use for (out of reduce away
 * from the root, in of broadcast there) may be NULL. */
PEAL_API PEAL_CHECK peal_status peal_allreduce(peal_comm *comm, const void *in, void *out,
                                               size_t count, peal_dtype dtype, peal_op op,
                                               peal_diag *diag);
PEAL_API PEAL_CHECK peal_status peal_reduce_scatter(peal_comm *comm, const void *in, void *out,
                                                    size_t count, peal_dtype dtype, peal_op op,
                                                    peal_diag *diag);
PEAL_API PEAL_CHECK peal_status peal_allgather(peal_comm *comm, const void *in, void *out,
                                               size_t count, peal_dtype dtype, peal_diag *diag);
PEAL_API PEAL_CHECK peal_status peal_broadcast(peal_comm *comm, const void *in, void *out,
                                               size_t count, peal_dtype dtype, uint32_t root,
                                               peal_diag *diag);
PEAL_API PEAL_CHECK peal_status peal_reduce(peal_comm *comm, const void *in, void *out,
                                            size_t count, peal_dtype dtype, peal_op op,
                                            uint32_t root, peal_diag *diag);
PEAL_API PEAL_CHECK peal_status peal_scatter(peal_comm *comm, const void *in, void *out,
                                             size_t count, peal_dtype dtype, uint32_t root,
                                             peal_diag *diag);
PEAL_API PEAL_CHECK peal_status peal_gather(peal_comm *comm, const void *in, void *out,
                                            size_t count, peal_dtype dtype, uint32_t root,
                                            peal_diag *diag);
PEAL_API PEAL_CHECK peal_status peal_alltoall(peal_comm *comm, const void *in, void *out,
                                              size_t count, peal_dtype dtype, peal_diag *diag);
/* Block j of in goes to rank j, as far as it is filled: its first send_counts[j] elements, at most
 * `count`, which all ranks give alike. Blocks lie `count` elements apart in both buffers, whatever
 * their lengths. Block i of out gets what rank i sent, the rest of it stays as it was, and
 * recv_counts[i] (NULL: not wanted) says how much it is. Both lists have an entry for each rank.
 * A rank that gives a count beyond `count` sends nothing, and the call ends with ERR_ARG on all
 * ranks, which name it; the comm is as good as after any call, out is undefined. */
PEAL_API PEAL_CHECK peal_status peal_alltoallv(peal_comm *comm, const void *in,
                                               const size_t *send_counts, void *out,
                                               size_t *recv_counts, size_t count, peal_dtype dtype,
                                               peal_diag *diag);
/* From rank `from` to rank `to`; in is used by the former, out by the latter. With from == to: by
 * the list of pairs of this number (`root` and `peer` of its request), where in holds a block for
 * each pair the rank sends in, in the list's order, and out one for each it receives in. All ranks
 * call, also those that neither send nor receive: calls of a comm are numbered. */
PEAL_API PEAL_CHECK peal_status peal_sendrecv(peal_comm *comm, const void *in, void *out,
                                              size_t count, peal_dtype dtype, uint32_t from,
                                              uint32_t to, peal_diag *diag);
/* The table's custom collective: in holds the blocks that the rank gives, out those that it gets,
 * each of count elements, in the order in which they are listed. Not in place; not PEAL_AVG. */
PEAL_API PEAL_CHECK peal_status peal_custom(peal_comm *comm, const void *in, void *out,
                                            size_t count, peal_dtype dtype, peal_op op,
                                            peal_diag *diag);
PEAL_API PEAL_CHECK peal_status peal_barrier(peal_comm *comm, peal_diag *diag);
/* Calls that are started and come to their end while the caller does other things. Any number may
 * be outstanding on a comm; they are made in the order in which they were started, one behind the
 * other, and blocking calls behind those. All ranks start the same calls in the same order. Their
 * buffers and counts belong to peal from the start to the end. A handle is made once and started
 * any number of times: nothing is allocated after its creation.
 *
 * They go on when a thread of the caller is in peal_start, peal_test, peal_wait, peal_comm_poll or
 * a blocking call of the comm; or all the time, by a thread of the comm (peal_comm_thread).
 *
 * Threads: a comm and its handles are used by one thread at a time, as ever; the comm's own thread
 * comes on top of that one. docs/embedding.md says more. */
typedef struct peal_pending peal_pending;

/* The arguments of a collective, as the blocking calls have them. */
typedef struct peal_call {
    size_t size;
    peal_collective collective;
    const void *in;
    void *out;
    size_t count;
    peal_dtype dtype;
    peal_op op;                /* where the collective reduces */
    uint32_t root;             /* sendrecv: who sends */
    uint32_t peer;             /* sendrecv: who receives */
    const size_t *send_counts; /* alltoallv; else not looked at */
    size_t *recv_counts;       /* the same; NULL: not wanted */
} peal_call;
/* clang-format off */
#define PEAL_CALL_INIT {sizeof(peal_call), PEAL_ALLREDUCE, NULL, NULL, 0, PEAL_FLOAT32, PEAL_SUM, 0, 0, NULL, NULL}
/* clang-format on */

/* A handle for a call, which is not started yet. Errors: ARG, RANGE (no row serves it), MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_pending_create(peal_comm *comm, const peal_call *call,
                                                    peal_diag *diag, peal_pending **pending_out);
/* Waits for its end, if it is outstanding. After the comm's end nothing is but to be destroyed. */
PEAL_API void peal_pending_destroy(peal_pending *pending);
/* Puts the call in line. Errors: ARG (outstanding, or the comm is gone); all others are told at the
 * end of the call. */
PEAL_API PEAL_CHECK peal_status peal_start(peal_pending *pending, peal_diag *diag);
/* Does not wait. *done: 1 at its end, and then the result is that of the call. Errors: as the
 * blocking calls, ARG (not started). */
PEAL_API PEAL_CHECK peal_status peal_test(peal_pending *pending, int *done, peal_diag *diag);
/* The same at its end. */
PEAL_API PEAL_CHECK peal_status peal_wait(peal_pending *pending, peal_diag *diag);
/* Goes on with what is outstanding as far as it goes now. */
PEAL_API void peal_comm_poll(peal_comm *comm);
/* 1: starts a thread that goes on with what is outstanding, and sleeps when nothing is; 0: ends it,
 * when nothing is outstanding any more. Errors: ARG, MEMORY (no thread to be had). */
PEAL_API PEAL_CHECK peal_status peal_comm_thread(peal_comm *comm, int on, peal_diag *diag);

/* Ends every operation of the world with ERR_ABORTED. Any thread. */
PEAL_API void peal_comm_abort(peal_comm *comm);
/* The asynchronous error: what has ended the comm, also while a call blocks in another thread.
 * PEAL_OK as long as nothing has. Any thread. */
PEAL_API PEAL_CHECK peal_status peal_comm_error(const peal_comm *comm, peal_diag *diag);
/* After an error: lost[r] is 1 for each rank that is known to have ended, to be stopped or to be
 * out of reach, else 0; an entry for each rank. For peal_world_split. */
PEAL_API PEAL_CHECK peal_status peal_comm_lost(peal_comm *comm, unsigned char *lost);

/* Another table in the place of the comm's, between two calls: all ranks ask for it behind the same
 * call, with equal tables, which must need no more memory than the one that the world was made for.
 * All take it, or all keep the old one. Handles of pending calls stay good, counters begin anew.
 * Errors: ARG (calls are outstanding, or a thread sees to them), RANGE (too large), UNSUPPORTED (a
 * plan does not fit the hosts that the ranks are on), UNPROVEN, MEMORY: of this rank, whereupon the
 * others get MISMATCH, as they do for unequal tables; TIMEOUT, PEER: the comm is unusable. */
PEAL_API PEAL_CHECK peal_status peal_comm_replace(peal_comm *comm, peal_table *table,
                                                  peal_diag *diag);

/* What carries bytes between ranks. */
typedef enum peal_transport {
    PEAL_TRANSPORT_SHM,  /* memory that ranks of a host share, staged buffers' too */
    PEAL_TRANSPORT_CMA,  /* cross-memory attach: the kernel copies between processes */
    PEAL_TRANSPORT_TCP,  /* sockets */
    PEAL_TRANSPORT_RDMA, /* verbs */
    PEAL_TRANSPORT_COUNT
} peal_transport;
/* "shm", "cma", "tcp", "rdma"; NULL for what is none. */
PEAL_API const char *peal_transport_name(peal_transport transport);

/* Of one row and transport. */
typedef struct peal_carried {
    uint64_t calls; /* in which this rank moved anything by it */
    uint64_t bytes; /* that this rank moved: got from others' memory or put into it */
    double time_us; /* of those calls, from entry to return, while the comm measured */
} peal_carried;

/* What a comm has done by one row of its table. */
typedef struct peal_counter {
    size_t size;
    peal_collective collective;
    uint32_t root;
    uint32_t peer;
    uint64_t max_bytes; /* of the row */
    char algorithm[64];
    uint32_t engines;        /* bit 1 << engine of those that move, on any rank */
    uint64_t calls;          /* that have ended well */
    uint64_t bytes;          /* of their messages, as sizes are counted */
    uint64_t staged;         /* calls whose private buffers were staged on this rank, */
    uint64_t attached;       /* and those in which others attached to them */
    double time_us;          /* from entry to return, of calls made while the comm measured */
    peal_carried carried[4]; /* by transport: PEAL_TRANSPORT_COUNT of them */
} peal_counter;
/* Of row `index`. Errors: ARG (past the last). */
PEAL_API PEAL_CHECK peal_status peal_comm_counter(const peal_comm *comm, uint32_t index,
                                                  peal_counter *counter);
/* 1: calls are timed from now on, which costs two looks at the clock each; 0: they are not. */
PEAL_API PEAL_CHECK peal_status peal_comm_measure(peal_comm *comm, int on);

/* One step of a lane, as it was made. */
typedef struct peal_trace_event {
    size_t size;
    uint64_t call; /* number, from 1 */
    uint32_t row;  /* of the table */
    uint32_t rank;
    uint32_t lane;
    uint32_t step; /* of the lane, as peal_table_step counts */
    uint32_t trip;
    int waits;         /* 1: a wait, from the first look to the last */
    uint64_t bytes;    /* of the tile; of other engines than sm what was handed over to them */
    uint64_t start_ns; /* monotonic clock of the host */
    uint64_t end_ns;
} peal_trace_event;
/* Records the next `events` steps of this rank; 0: no more, and forgets those. When it does not
 * record, it costs nothing. Errors: ARG (calls are outstanding, or a thread of the comm's sees to
 * them), MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_comm_trace(peal_comm *comm, uint32_t events, peal_diag *diag);
/* What was recorded, in the order in which it ended. Errors: ARG (past the last). */
PEAL_API PEAL_CHECK peal_status peal_comm_traced(const peal_comm *comm, uint32_t index,
                                                 peal_trace_event *event);
/* Writes recorded steps, of any ranks of one host and in any order, as the timeline that
 * peal_sim_write predicts ("trace"). The table is the comm's. Errors: ARG, MEMORY, and the
 * writer's. */
PEAL_API PEAL_CHECK peal_status peal_trace_write(const peal_table *table,
                                                 const peal_trace_event *events, uint32_t count,
                                                 peal_write_fn write, void *user, peal_diag *diag);

/* Where a rank stands, as it has told the others. */
typedef struct peal_rank_state {
    size_t size;
    int joined;
    uint32_t pid;      /* 0: of a rank of another host */
    uint32_t entered;  /* number of the last call it has entered, modulo 2^32; 0: none */
    uint32_t returned; /* and of the last it has returned from */
    int waits;         /* 1: in it, it has waited for some milliseconds, */
    uint32_t lane;     /* there, */
    uint32_t step;
    uint32_t awaited; /* for this rank; UINT32_MAX: none */
} peal_rank_state;
/* Any thread, at any time: what to look at when nothing moves. A rank of another host is asked, and
 * what it last answered is given. Errors: ARG. */
PEAL_API PEAL_CHECK peal_status peal_world_rank(const peal_world *world, uint32_t rank,
                                                peal_rank_state *state);

typedef struct peal_comm_info {
    size_t size;
    uint32_t rank;
    uint32_t ranks;
    uint64_t calls;
    uint32_t engines;   /* bit 1 << engine for each engine the table uses */
    uint32_t stand_ins; /* bit 1 << engine for each that runs as a host memory mover here */
} peal_comm_info;
PEAL_API PEAL_CHECK peal_status peal_comm_get(const peal_comm *comm, peal_comm_info *info);
/* The row that serves a collective, its root and peer (0 where it has none), and a message of
 * `bytes`; ERR_RANGE when none does. Under 100 ns. */
PEAL_API PEAL_CHECK peal_status peal_table_lookup(const peal_table *table,
                                                  peal_collective collective, uint32_t root,
                                                  uint32_t peer, uint64_t bytes, uint32_t *row_out);
/* Moves all rows of `from`, compiled for the same ranks, into `table`, so that one table serves
 * several collectives; `from` is left empty, to be destroyed. Rows of one collective, root and
 * peer must come from one of the two. Errors: ARG, MEMORY (then both are as before). */
PEAL_API PEAL_CHECK peal_status peal_table_join(peal_table *table, peal_table *from,
                                                peal_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
