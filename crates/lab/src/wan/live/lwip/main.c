/*
 * lwIP at an end of the link of `cargo lab wan`: each packet of descriptor 0 is a frame.
 *
 *   send ADDRESS REMOTE PORT WINDOW      one flow without end
 *   receive ADDRESS PORT FLOWS WINDOW    a flow from each port, counted
 *
 * The window was compiled in. It writes the bytes that each flow has received to its output, in a line each tenth of a second, and ends with its link.
 * Compiled at run time with the sources of lwIP (see programs.rs).
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "lwip/etharp.h"
#include "lwip/init.h"
#include "lwip/tcp.h"
#include "lwip/timeouts.h"
#include "netif/ethernet.h"

#define FLOWS_MAX 16
#define FRAME_MAX 2048
/* Frames between two looks at the timers. */
#define BURST 64
#define REPORT_MS 100

static struct netif wan;
static uint64_t received[FLOWS_MAX];
static char data[1 << 16];

u32_t sys_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (u32_t)(t.tv_sec * 1000 + t.tv_nsec / 1000000);
}

static err_t transmit(struct netif *netif, struct pbuf *p)
{
    char frame[FRAME_MAX];
    u16_t n = pbuf_copy_partial(p, frame, sizeof frame, 0);
    (void)netif;
    return send(0, frame, n, MSG_NOSIGNAL) == n ? ERR_OK : ERR_IF;
}

static err_t set_up(struct netif *netif)
{
    netif->name[0] = 'w';
    netif->name[1] = 'n';
    netif->mtu = 1500;
    netif->hwaddr_len = ETH_HWADDR_LEN;
    netif->hwaddr[0] = 2;
    memcpy(&netif->hwaddr[2], netif_ip4_addr(netif), 4);
    netif->output = etharp_output;
    netif->linkoutput = transmit;
    netif->flags |= NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET | NETIF_FLAG_LINK_UP;
    return ERR_OK;
}

static err_t fill(void *arg, struct tcp_pcb *pcb, u16_t acknowledged)
{
    (void)arg;
    (void)acknowledged;
    for (;;) {
        u32_t n = LWIP_MIN(tcp_sndbuf(pcb), 32 * TCP_MSS);
        if (n == 0 || tcp_write(pcb, data, (u16_t)n, 0) != ERR_OK)
            return tcp_output(pcb);
    }
}

static err_t connected(void *arg, struct tcp_pcb *pcb, err_t error)
{
    (void)error;
    tcp_sent(pcb, fill);
    return fill(arg, pcb, 0);
}

static err_t take(void *arg, struct tcp_pcb *pcb, struct pbuf *p, err_t error)
{
    (void)error;
    if (p == NULL)
        return ERR_OK;
    *(uint64_t *)arg += p->tot_len;
    tcp_recved(pcb, p->tot_len);
    pbuf_free(p);
    return ERR_OK;
}

static err_t accepted(void *arg, struct tcp_pcb *pcb, err_t error)
{
    (void)error;
    tcp_arg(pcb, arg);
    tcp_recv(pcb, take);
    return ERR_OK;
}

static void listen_at(u16_t port, uint64_t *count)
{
    struct tcp_pcb *pcb = tcp_new();
    if (pcb == NULL || tcp_bind(pcb, IP_ADDR_ANY, port) != ERR_OK || (pcb = tcp_listen(pcb)) == NULL)
        exit(1);
    tcp_arg(pcb, count);
    tcp_accept(pcb, accepted);
}

/* Takes in the frames that wait; false once the link has ended. */
static int input(void)
{
    static char frame[FRAME_MAX];
    for (int i = 0; i < BURST; i++) {
        ssize_t n = recv(0, frame, sizeof frame, MSG_DONTWAIT);
        if (n <= 0)
            return n < 0;
        struct pbuf *p = pbuf_alloc(PBUF_RAW, (u16_t)n, PBUF_RAM);
        if (p == NULL)
            continue;
        pbuf_take(p, frame, (u16_t)n);
        if (wan.input(p, &wan) != ERR_OK)
            pbuf_free(p);
    }
    return 1;
}

static void report(int flows)
{
    static u32_t last;
    if (sys_now() - last < REPORT_MS)
        return;
    last = sys_now();
    for (int flow = 0; flow < flows; flow++)
        printf("%llu ", (unsigned long long)received[flow]);
    printf("\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    ip4_addr_t own, mask;
    if (argc != 6 || !ip4addr_aton(argv[2], &own))
        return 2;
    int sends = strcmp(argv[1], "send") == 0, flows = sends ? 0 : atoi(argv[4]);
    if (flows > FLOWS_MAX)
        return 2;
    srandom((unsigned)(sys_now() ^ (u32_t)getpid()));
    lwip_init();
    IP4_ADDR(&mask, 255, 255, 255, 0);
    netif_add(&wan, &own, &mask, IP4_ADDR_ANY4, NULL, set_up, ethernet_input);
    netif_set_default(&wan);
    netif_set_up(&wan);
    for (int flow = 0; flow < flows; flow++)
        listen_at((u16_t)(atoi(argv[3]) + flow), &received[flow]);
    if (sends) {
        ip_addr_t remote;
        struct tcp_pcb *pcb = tcp_new();
        if (pcb == NULL || !ipaddr_aton(argv[3], &remote) || tcp_connect(pcb, &remote, (u16_t)atoi(argv[4]), connected) != ERR_OK)
            return 1;
    }
    while (input()) {
        sys_check_timeouts();
        report(flows);
        struct pollfd in = { 0, POLLIN, 0 };
        poll(&in, 1, (int)LWIP_MIN(sys_timeouts_sleeptime(), REPORT_MS));
    }
    return 0;
}
