/*
 * UCX behind functions of plain integers and pointers, so that Rust needs none of its structures, which
 * differ by version. `sys.rs` has the declarations and says what each caller must see to.
 *
 * A worker is used by one thread at a time; callbacks run within its calls. Memory that verbs read or
 * write belongs to a dh_batch, which is freed when its last verb has completed or the worker is gone,
 * whichever its owner does.
 */
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>

/* ---- both sides ---- */

/* Over these devices only, or over all that UCX chooses. */
static ucs_status_t open_worker(uint64_t features, const char *devices, ucp_context_h *context,
                                ucp_worker_h *worker)
{
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return status;
    if (devices && (status = ucp_config_modify(config, "NET_DEVICES", devices)) != UCS_OK) {
        ucp_config_release(config);
        return status;
    }
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_RMA | UCP_FEATURE_AMO64 | features,
        .name = "durahash",
    };
    status = ucp_init(&params, config, context);
    ucp_config_release(config);
    if (status != UCS_OK)
        return status;
    ucp_worker_params_t worker_params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
    };
    status = ucp_worker_create(*context, &worker_params, worker);
    if (status != UCS_OK)
        ucp_cleanup(*context);
    return status;
}

const char *dh_status_text(int status)
{
    return ucs_status_string((ucs_status_t)status);
}

/* Only messages about the end of the process. */
int dh_quiet(void)
{
    return ucs_global_opts_set_value("LOG_LEVEL", "fatal");
}

/* The version of the UCX that is loaded. */
unsigned dh_version(void)
{
    unsigned major, minor, release;
    ucp_get_version(&major, &minor, &release);
    return 1000 * major + minor;
}

/* ---- a node ---- */

struct dh_node {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_mem_h memory;
    uint8_t *base;
    size_t bytes;
    int loopback;
    void *rkey;
    size_t rkey_bytes;
    ucp_address_t *address;
    size_t address_bytes;
    int event_fd;
};

void dh_node_stop(struct dh_node *node)
{
    if (node->address)
        ucp_worker_release_address(node->worker, node->address);
    if (node->rkey)
        ucp_rkey_buffer_release(node->rkey);
    if (node->worker)
        ucp_worker_destroy(node->worker);
    if (node->memory)
        ucp_mem_unmap(node->context, node->memory);
    if (node->context)
        ucp_cleanup(node->context);
    free(node);
}

/* In memory of the caller's, or without any in memory that UCX allocates. */
static ucs_status_t open_node(struct dh_node *node, void *memory)
{
    ucs_status_t status = open_worker(UCP_FEATURE_WAKEUP, node->loopback ? "lo" : NULL, &node->context, &node->worker);
    if (status != UCS_OK) {
        node->context = NULL;
        node->worker = NULL;
        return status;
    }
    /* What UCX allocates, processes of the same host can map. */
    ucp_mem_map_params_t map = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      (memory ? UCP_MEM_MAP_PARAM_FIELD_ADDRESS : UCP_MEM_MAP_PARAM_FIELD_FLAGS),
        .address = memory,
        .length = node->bytes,
        .flags = memory ? 0 : UCP_MEM_MAP_ALLOCATE,
    };
    status = ucp_mem_map(node->context, &map, &node->memory);
    if (status != UCS_OK)
        return status;
    ucp_mem_attr_t attr = {
        .field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH,
    };
    status = ucp_mem_query(node->memory, &attr);
    if (status != UCS_OK)
        return status;
    node->base = attr.address;
    if ((memory && node->base != memory) || (uintptr_t)node->base % 8 != 0 || attr.length < node->bytes)
        return UCS_ERR_INVALID_ADDR;
    /* Not all ways to allocate give zeros. */
    if (!memory)
        memset(node->base, 0, node->bytes);
    status = ucp_rkey_pack(node->context, node->memory, &node->rkey, &node->rkey_bytes);
    if (status != UCS_OK)
        return status;
    status = ucp_worker_get_address(node->worker, &node->address, &node->address_bytes);
    if (status != UCS_OK)
        return status;
    return ucp_worker_get_efd(node->worker, &node->event_fd);
}

int dh_node_start(void *memory, size_t bytes, int loopback, struct dh_node **out)
{
    struct dh_node *node = calloc(1, sizeof(*node));
    if (!node)
        return UCS_ERR_NO_MEMORY;
    node->bytes = bytes;
    node->loopback = loopback;
    ucs_status_t status = open_node(node, memory);
    if (status != UCS_OK) {
        dh_node_stop(node);
        return status;
    }
    *out = node;
    return UCS_OK;
}

uint64_t dh_node_base(const struct dh_node *node)
{
    return (uint64_t)(uintptr_t)node->base;
}

const uint8_t *dh_node_address(const struct dh_node *node, size_t *bytes)
{
    *bytes = node->address_bytes;
    return (const uint8_t *)node->address;
}

const uint8_t *dh_node_rkey(const struct dh_node *node, size_t *bytes)
{
    *bytes = node->rkey_bytes;
    return node->rkey;
}

void dh_node_set_word(struct dh_node *node, size_t off, uint64_t word)
{
    atomic_store((_Atomic uint64_t *)(node->base + off), word);
}

/* Progresses verbs; without any, waits at most so long. */
int dh_node_serve(struct dh_node *node, int spins, int wait_ms)
{
    for (int i = 0; i < spins; i++) {
        if (ucp_worker_progress(node->worker))
            return UCS_OK;
        sched_yield();
    }
    ucs_status_t status = ucp_worker_arm(node->worker);
    if (status == UCS_ERR_BUSY)
        return UCS_OK;
    if (status != UCS_OK)
        return status;
    struct pollfd fd = {.fd = node->event_fd, .events = POLLIN};
    poll(&fd, 1, wait_ms);
    return UCS_OK;
}

/* ---- a client ---- */

struct dh_remote {
    ucp_ep_h ep;
    ucp_rkey_h rkey;
    uint64_t base;
    int error;
    /* Verbs under way, of all batches. */
    uint32_t pending;
    /* A close that is under way. */
    ucs_status_ptr_t closing;
    /* UCX reports the node's end. */
    int tells;
};

struct dh_batch;

struct dh_client {
    ucp_context_h context;
    ucp_worker_h worker;
    /* The newest; `next` links the others. */
    struct dh_batch *batches;
    struct dh_batch *oldest;
    size_t nodes;
    struct dh_remote remotes[256];
};

/* The part of a batch for one node. */
struct dh_wait {
    struct dh_batch *batch;
    uint32_t pending;
    int error;
};

struct dh_batch {
    struct dh_client *client;
    struct dh_batch *prev, *next;
    /* When its first verb was posted, by the caller's clock. */
    uint64_t posted_ns;
    uint32_t pending;
    int released;
    uint8_t *data;
    struct dh_wait waits[];
};

int dh_client_open(struct dh_client **out)
{
    struct dh_client *client = calloc(1, sizeof(*client));
    if (!client)
        return UCS_ERR_NO_MEMORY;
    ucs_status_t status = open_worker(0, NULL, &client->context, &client->worker);
    if (status != UCS_OK) {
        free(client);
        return status;
    }
    *out = client;
    return UCS_OK;
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    ((struct dh_remote *)arg)->error = status;
}

int dh_client_connect(struct dh_client *client, const uint8_t *address, const uint8_t *rkey,
                      uint64_t base)
{
    struct dh_remote *remote = &client->remotes[client->nodes];
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_error, .arg = remote},
    };
    ucs_status_t status = ucp_ep_create(client->worker, &params, &remote->ep);
    remote->tells = status == UCS_OK;
    if (status == UCS_ERR_UNREACHABLE) {
        /* Shared memory does not report it. */
        params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
        status = ucp_ep_create(client->worker, &params, &remote->ep);
    }
    if (status != UCS_OK) {
        remote->ep = NULL;
        return status;
    }
    /* From here on it is closed with the client. */
    client->nodes++;
    remote->base = base;
    return ucp_ep_rkey_unpack(remote->ep, rkey, &remote->rkey);
}

unsigned dh_client_progress(struct dh_client *client)
{
    return ucp_worker_progress(client->worker);
}

int dh_client_tells(const struct dh_client *client, size_t node)
{
    return client->remotes[node].tells;
}

int dh_client_error(const struct dh_client *client, size_t node)
{
    return client->remotes[node].error;
}

static void free_batch(struct dh_batch *batch)
{
    if (batch->prev)
        batch->prev->next = batch->next;
    else
        batch->client->batches = batch->next;
    if (batch->next)
        batch->next->prev = batch->prev;
    else
        batch->client->oldest = batch->prev;
    free(batch->data);
    free(batch);
}

struct dh_batch *dh_batch_new(struct dh_client *client, size_t bytes, uint64_t now_ns)
{
    struct dh_batch *batch = calloc(1, sizeof(*batch) + client->nodes * sizeof(struct dh_wait));
    uint8_t *data = calloc(1, bytes ? bytes : 1);
    if (!batch || !data) {
        free(batch);
        free(data);
        return NULL;
    }
    batch->client = client;
    batch->data = data;
    batch->posted_ns = now_ns;
    for (size_t i = 0; i < client->nodes; i++)
        batch->waits[i].batch = batch;
    batch->next = client->batches;
    if (batch->next)
        batch->next->prev = batch;
    else
        client->oldest = batch;
    client->batches = batch;
    return batch;
}

uint8_t *dh_batch_data(struct dh_batch *batch)
{
    return batch->data;
}

uint32_t dh_batch_pending(const struct dh_batch *batch)
{
    return batch->pending;
}

uint32_t dh_batch_pending_at(const struct dh_batch *batch, size_t node)
{
    return batch->waits[node].pending;
}

int dh_batch_error_at(const struct dh_batch *batch, size_t node)
{
    return batch->waits[node].error;
}

void dh_batch_release(struct dh_batch *batch)
{
    if (batch->pending == 0)
        free_batch(batch);
    else
        batch->released = 1;
}

/* The batch may have been released, so the failure is recorded at the node, too. */
static void failed(struct dh_wait *wait, ucs_status_t status)
{
    struct dh_client *client = wait->batch->client;
    wait->error = status;
    client->remotes[wait - wait->batch->waits].error = status;
}

static void on_done(void *request, ucs_status_t status, void *arg)
{
    struct dh_wait *wait = arg;
    struct dh_batch *batch = wait->batch;
    if (status != UCS_OK)
        failed(wait, status);
    wait->pending--;
    batch->pending--;
    batch->client->remotes[wait - batch->waits].pending--;
    ucp_request_free(request);
    if (batch->pending == 0 && batch->released)
        free_batch(batch);
}

static ucp_request_param_t parameters(struct dh_wait *wait)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = on_done,
        .user_data = wait,
    };
    return param;
}

/* The callback runs only for requests that are still pending. */
static void posted(struct dh_wait *wait, ucs_status_ptr_t request)
{
    if (UCS_PTR_IS_ERR(request)) {
        failed(wait, UCS_PTR_STATUS(request));
    } else if (request != NULL) {
        wait->pending++;
        wait->batch->pending++;
        wait->batch->client->remotes[wait - wait->batch->waits].pending++;
    }
}

void dh_put(struct dh_batch *batch, size_t node, size_t from, size_t bytes, uint64_t off)
{
    struct dh_remote *remote = &batch->client->remotes[node];
    ucp_request_param_t param = parameters(&batch->waits[node]);
    posted(&batch->waits[node], ucp_put_nbx(remote->ep, batch->data + from, bytes,
                                            remote->base + off, remote->rkey, &param));
}

void dh_get(struct dh_batch *batch, size_t node, size_t to, size_t bytes, uint64_t off)
{
    struct dh_remote *remote = &batch->client->remotes[node];
    ucp_request_param_t param = parameters(&batch->waits[node]);
    posted(&batch->waits[node], ucp_get_nbx(remote->ep, batch->data + to, bytes,
                                            remote->base + off, remote->rkey, &param));
}

/* Two words lie at `at`: the operand, and the new word, which the previous one replaces. */
void dh_atomic(struct dh_batch *batch, size_t node, size_t at, int swap, uint64_t off)
{
    struct dh_remote *remote = &batch->client->remotes[node];
    ucp_request_param_t param = parameters(&batch->waits[node]);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    param.datatype = ucp_dt_make_contig(8);
    param.reply_buffer = batch->data + at + 8;
    posted(&batch->waits[node],
           ucp_atomic_op_nbx(remote->ep, swap ? UCP_ATOMIC_OP_CSWAP : UCP_ATOMIC_OP_ADD,
                             batch->data + at, 1, remote->base + off, remote->rkey, &param));
}

void dh_flush(struct dh_batch *batch, size_t node)
{
    ucp_request_param_t param = parameters(&batch->waits[node]);
    posted(&batch->waits[node], ucp_ep_flush_nbx(batch->client->remotes[node].ep, &param));
}

/*
 * The first node that is not given up and has a verb under way that was posted before then; the number of
 * nodes if there is none.
 */
size_t dh_client_overdue(const struct dh_client *client, uint64_t before_ns)
{
    const struct dh_batch *batch = client->oldest;
    for (; batch && batch->posted_ns < before_ns; batch = batch->prev)
        for (size_t i = 0; batch->pending && i < client->nodes; i++)
            if (batch->waits[i].pending && client->remotes[i].ep)
                return i;
    return client->nodes;
}

/* Not while a verb is under way. */
static void forget_key(struct dh_remote *remote)
{
    if (remote->rkey)
        ucp_rkey_destroy(remote->rkey);
    remote->rkey = NULL;
}

/*
 * Nothing more is sent to the node; verbs under way fail, if UCX allows. Must not run within a callback. Until
 * it is finished, verbs to other nodes make no progress.
 */
void dh_client_hang_up(struct dh_client *client, size_t node)
{
    struct dh_remote *remote = &client->remotes[node];
    if (!remote->ep)
        return;
    if (remote->pending == 0)
        forget_key(remote);
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags = remote->tells ? UCP_EP_CLOSE_FLAG_FORCE : 0,
    };
    ucs_status_ptr_t request = ucp_ep_close_nbx(remote->ep, &param);
    remote->ep = NULL;
    remote->closing = UCS_PTR_IS_ERR(request) ? NULL : request;
}

/* A close needs no answer of the node, but its progress is bounded, too. */
#define CLOSE_ROUNDS 100000

void dh_client_finish(struct dh_client *client)
{
    for (size_t node = 0; node < client->nodes; node++) {
        ucs_status_ptr_t request = client->remotes[node].closing;
        if (!request)
            continue;
        client->remotes[node].closing = NULL;
        for (int i = 0; i < CLOSE_ROUNDS && ucp_request_check_status(request) == UCS_INPROGRESS; i++)
            ucp_worker_progress(client->worker);
        ucp_request_free(request);
    }
}

void dh_client_close(struct dh_client *client)
{
    /* All of them before any progress: verbs under way must not be sent now. */
    for (size_t i = 0; i < client->nodes; i++)
        dh_client_hang_up(client, i);
    dh_client_finish(client);
    /* Those with verbs under way. */
    for (size_t i = 0; i < client->nodes; i++)
        forget_key(&client->remotes[i]);
    ucp_worker_destroy(client->worker);
    ucp_cleanup(client->context);
    /* No verb writes into them any more. */
    while (client->batches)
        free_batch(client->batches);
    free(client);
}
