/*
 * The part of DPDK's mempool that exists only as inline functions in its headers, made callable; and the loops of the
 * two one-thread cases, so that those functions are inlined there as in a DPDK program. Compiled at run time with
 * `cc -O3 -march=native` where the headers are installed (see dpdk.rs).
 */
#include <stdint.h>
#include <stdlib.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#define BATCH 64
#define MANY 2048
#define HEADER_BYTES 32

static inline void mark(void *item, uint64_t value)
{
    *(volatile uint64_t *)((char *)item + HEADER_BYTES) = value;
}

/* With huge pages that no file system need be mounted for, or with ordinary ones. */
int lab_init(int huge)
{
    char *plain[] = { "lab", "--no-huge", "--no-pci", "--no-telemetry", "--no-shconf",
                      "--log-level=1", "-m", "1024", "-l", "0", NULL };
    char *in_huge[] = { "lab", "--in-memory", "--no-pci", "--no-telemetry", "--no-shconf",
                        "--log-level=1", "-l", "0", NULL };
    int done = huge ? rte_eal_init(8, in_huge) : rte_eal_init(10, plain);
    return done < 0 ? rte_errno : 0;
}

struct rte_mempool *lab_create(const char *name, unsigned items, unsigned size)
{
    return rte_mempool_create(name, items, size, 512, 0, NULL, NULL, NULL, NULL, SOCKET_ID_ANY, 0);
}

void lab_destroy(struct rte_mempool *pool)
{
    rte_mempool_free(pool);
}

/* A thread that is not registered has no cache. */
int lab_enter(void)
{
    return rte_lcore_id() == LCORE_ID_ANY ? rte_thread_register() : 0;
}

void lab_leave(void)
{
    rte_thread_unregister();
}

void *lab_get(struct rte_mempool *pool)
{
    void *item = NULL;
    return rte_mempool_get(pool, &item) == 0 ? item : NULL;
}

void lab_put(struct rte_mempool *pool, void *item)
{
    rte_mempool_put(pool, item);
}

unsigned lab_free_count(struct rte_mempool *pool)
{
    return rte_mempool_avail_count(pool);
}

/* Keeps the compiler from knowing what becomes of an item. */
#define SEEN(item) __asm__ volatile("" : "+r"(item) : : "memory")

int lab_gets(struct rte_mempool *pool, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        void *item;
        if (rte_mempool_get(pool, &item) != 0)
            return -1;
        SEEN(item);
        rte_mempool_put(pool, item);
    }
    return 0;
}

int lab_pairs(struct rte_mempool *pool, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        void *item;
        if (rte_mempool_get(pool, &item) != 0)
            return -1;
        mark(item, i);
        rte_mempool_put(pool, item);
    }
    return 0;
}

/* Gets and puts 64 at once, as drivers and programs do. Inlined for each number of live items, which is a constant then. */
static inline __attribute__((always_inline)) int batches(struct rte_mempool *pool, uint64_t n,
                                                         const unsigned live)
{
    void *items[MANY];
    for (uint64_t i = 0; i < (n + live - 1) / live; i++) {
        for (unsigned at = 0; at < live; at += BATCH) {
            if (rte_mempool_get_bulk(pool, items + at, BATCH) != 0)
                return -1;
            for (unsigned j = at; j < at + BATCH; j++)
                mark(items[j], i);
        }
        for (unsigned at = 0; at < live; at += BATCH)
            rte_mempool_put_bulk(pool, items + at, BATCH);
    }
    return 0;
}

int lab_batches(struct rte_mempool *pool, uint64_t n, unsigned live)
{
    return live == BATCH ? batches(pool, n, BATCH) : batches(pool, n, MANY);
}

/* DPDK's network buffers: a header of 128 bytes, headroom of 128, and so much room for data. */
struct rte_mempool *lab_pkt_create(const char *name, unsigned items, unsigned size)
{
    return rte_pktmbuf_pool_create(name, items, 512, 0, RTE_PKTMBUF_HEADROOM + size, SOCKET_ID_ANY);
}

void *lab_pkt_get(struct rte_mempool *pool)
{
    return rte_pktmbuf_alloc(pool);
}

void lab_pkt_put(void *packet)
{
    rte_pktmbuf_free(packet);
}

void *lab_pkt_data(void *packet)
{
    return rte_pktmbuf_mtod((struct rte_mbuf *)packet, void *);
}

int lab_pkt_gets(struct rte_mempool *pool, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        struct rte_mbuf *packet = rte_pktmbuf_alloc(pool);
        if (packet == NULL)
            return -1;
        SEEN(packet);
        rte_pktmbuf_free(packet);
    }
    return 0;
}

int lab_pkt_pairs(struct rte_mempool *pool, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        struct rte_mbuf *packet = rte_pktmbuf_alloc(pool);
        if (packet == NULL)
            return -1;
        mark(rte_pktmbuf_mtod(packet, void *), i);
        rte_pktmbuf_free(packet);
    }
    return 0;
}

static inline __attribute__((always_inline)) int pkt_batches(struct rte_mempool *pool, uint64_t n, unsigned live)
{
    struct rte_mbuf *packets[MANY];
    for (uint64_t i = 0; i < (n + live - 1) / live; i++) {
        for (unsigned at = 0; at < live; at += BATCH) {
            if (rte_pktmbuf_alloc_bulk(pool, packets + at, BATCH) != 0)
                return -1;
            for (unsigned j = at; j < at + BATCH; j++)
                mark(rte_pktmbuf_mtod(packets[j], void *), i);
        }
        for (unsigned at = 0; at < live; at += BATCH)
            rte_pktmbuf_free_bulk(packets + at, BATCH);
    }
    return 0;
}

int lab_pkt_batches(struct rte_mempool *pool, uint64_t n, unsigned live)
{
    return live == BATCH ? pkt_batches(pool, n, BATCH) : pkt_batches(pool, n, MANY);
}
