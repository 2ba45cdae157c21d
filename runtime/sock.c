/* SPDX-License-Identifier: Apache-2.0 */
#include "sock.h"
#include "clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024
#define SLICE_MS 50 /* between looks whether a wait has been called off */

/* ---- addresses */

union any_addr {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage room;
};

static int to_own(const struct sockaddr *from, struct sock_addr *to)
{
    memset(to, 0, sizeof *to);
    if (from->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, from, sizeof v4);
        to->family = 4;
        to->port = ntohs(v4.sin_port);
        memcpy(to->ip, &v4.sin_addr, 4);
    } else if (from->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, from, sizeof v6);
        to->family = 6;
        to->port = ntohs(v6.sin6_port);
        to->scope = v6.sin6_scope_id;
        memcpy(to->ip, &v6.sin6_addr, 16);
    }
    return to->family != 0;
}

static socklen_t from_own(const struct sock_addr *from, union any_addr *to)
{
    memset(to, 0, sizeof *to);
    if (from->family == 4) {
        to->v4.sin_family = AF_INET;
        to->v4.sin_port = htons(from->port);
        memcpy(&to->v4.sin_addr, from->ip, 4);
        return sizeof to->v4;
    }
    to->v6.sin6_family = AF_INET6;
    to->v6.sin6_port = htons(from->port);
    to->v6.sin6_scope_id = from->scope;
    memcpy(&to->v6.sin6_addr, from->ip, 16);
    return sizeof to->v6;
}

const char *sock_text(const struct sock_addr *addr, char *text)
{
    char ip[INET6_ADDRSTRLEN] = "?";
    (void)inet_ntop(addr->family == 4 ? AF_INET : AF_INET6, addr->ip, ip, sizeof ip);
    (void)snprintf(text, SOCK_TEXT, addr->family == 4 ? "%s:%u" : "[%s]:%u", ip,
                   (unsigned)addr->port);
    return text;
}

/* A number is one without asking anybody. */
static peal_status find(const char *bare, struct sock_wait wait, struct addrinfo **found,
                        peal_diag *diag)
{
    const struct addrinfo number = {
        .ai_flags = AI_NUMERICHOST, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int failed = getaddrinfo(bare, NULL, &number, found);
    peal_status status = failed == EAI_NONAME ? sock_ask(bare, wait, found, &failed) : PEAL_OK;
    if (status == PEAL_OK && failed == 0)
        return PEAL_OK;
    if (status == PEAL_OK)
        status = failed == EAI_AGAIN || failed == EAI_NONAME ? PEAL_AGAIN : PEAL_ERR_IO;
    else if (status == PEAL_ERR_MEMORY)
        return peal_fail(diag, status, "no memory or no thread to ask for the address of '%s'",
                         bare);
    else
        return peal_fail(diag, status, "finding the address of '%s': nobody has answered", bare);
    return peal_fail(diag, status, "finding the address of '%s': %s", bare, gai_strerror(failed));
}

peal_status sock_resolve(const char *name, uint16_t port, struct sock_wait wait,
                         struct sock_addr *list, uint32_t *count, peal_diag *diag)
{
    struct addrinfo *found = NULL;
    char bare[SOCK_NAME];
    uint32_t room = *count, got = 0;
    size_t length = strlen(name);
    int brackets = length > 2 && name[0] == '[' && name[length - 1] == ']';
    if (length == 0 || length >= sizeof bare)
        return peal_fail(diag, PEAL_ERR_ARG, "an address has 1 to %zu characters", sizeof bare - 1);
    peal_copy_text(bare, sizeof bare, name + brackets);
    if (brackets)
        bare[length - 2] = '\0';
    PEAL_TRY(find(bare, wait, &found, diag));
    for (struct addrinfo *at = found; at && got < room; at = at->ai_next) {
        if (!to_own(at->ai_addr, &list[got]))
            continue;
        list[got++].port = port;
    }
    freeaddrinfo(found);
    *count = got;
    return got ? PEAL_OK : peal_fail(diag, PEAL_ERR_IO, "'%s' has no address", bare);
}

/* A usable address of an interface: global before link-local. */
static int find_interface(const char *name, uint8_t family, struct sock_addr *addr)
{
    struct ifaddrs *all = NULL;
    int found = 0;
    if (getifaddrs(&all) != 0)
        return 0;
    for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
        struct sock_addr one;
        if (!at->ifa_addr || strcmp(at->ifa_name, name) != 0 || !to_own(at->ifa_addr, &one))
            continue;
        if (family && one.family != family)
            continue;
        int local = one.family == 6 && one.ip[0] == 0xfe && (one.ip[1] & 0xc0) == 0x80;
        if (found && local)
            continue;
        *addr = one;
        found = 1;
        if (!local)
            break;
    }
    freeifaddrs(all);
    return found;
}

peal_status sock_interface(const char *name, uint8_t family, struct sock_wait wait,
                           struct sock_addr *addr, peal_diag *diag)
{
    uint32_t count = 1;
    if (find_interface(name, family, addr))
        return PEAL_OK;
    if (if_nametoindex(name) != 0)
        return peal_fail(diag, PEAL_ERR_ARG, "interface %s has no address of that kind", name);
    peal_status status = sock_resolve(name, 0, wait, addr, &count, diag);
    if (status == PEAL_AGAIN)
        return peal_fail(diag, PEAL_ERR_ARG, "%s is no interface of this host, nor an address",
                         name);
    return status;
}

int sock_is_any(const struct sock_addr *addr)
{
    static const uint8_t none[sizeof addr->ip];
    return memcmp(addr->ip, none, sizeof none) == 0;
}

int sock_same_host(const struct sock_addr *a, const struct sock_addr *b)
{
    return a->family == b->family && memcmp(a->ip, b->ip, sizeof a->ip) == 0;
}

int sock_is_loopback(const struct sock_addr *addr)
{
    static const uint8_t six[sizeof addr->ip] = {[15] = 1};
    return addr->family == 4 ? addr->ip[0] == 127 : memcmp(addr->ip, six, sizeof six) == 0;
}

int sock_is_here(const struct sock_addr *addr)
{
    struct sock_addr own = *addr;
    union any_addr at;
    own.port = 0;
    socklen_t length = from_own(&own, &at);
    int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    int here = bind(fd, &at.any, length) == 0;
    (void)close(fd);
    return here;
}

/* ---- sockets */

void sock_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

void sock_end(int fd)
{
    (void)shutdown(fd, SHUT_WR);
}

int sock_has_ended(int fd)
{
    char byte;
    ssize_t got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

int sock_share(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static int make(const union any_addr *at)
{
    return socket(at->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static void tune(int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

peal_status sock_own(int fd, struct sock_addr *addr, peal_diag *diag)
{
    union any_addr at;
    socklen_t length = sizeof at;
    memset(&at, 0, sizeof at);
    if (getsockname(fd, &at.any, &length) != 0 || !to_own(&at.any, addr))
        return peal_fail(diag, PEAL_ERR_IO, "asking for a socket's address: %s", strerror(errno));
    return PEAL_OK;
}

peal_status sock_other(int fd, struct sock_addr *addr)
{
    union any_addr at;
    socklen_t length = sizeof at;
    memset(&at, 0, sizeof at);
    return getpeername(fd, &at.any, &length) == 0 && to_own(&at.any, addr) ? PEAL_OK : PEAL_ERR_IO;
}

peal_status sock_listen(struct sock_addr *addr, int *fd, peal_diag *diag)
{
    char text[SOCK_TEXT];
    union any_addr at;
    int on = 1;
    socklen_t length = from_own(addr, &at);
    int made = make(&at);
    if (made < 0)
        return peal_fail(diag, PEAL_ERR_IO, "making a socket: %s", strerror(errno));
    (void)setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(made, &at.any, length) != 0 || listen(made, BACKLOG) != 0) {
        int why = errno;
        sock_close(&made);
        return peal_fail(
            diag, PEAL_ERR_IO, "listening on %s: %s%s", sock_text(addr, text), strerror(why),
            why == EADDRINUSE ? "; give all ranks another port (peal run: MASTER_PORT or PEAL_PORT)"
                              : "");
    }
    peal_status status = sock_own(made, addr, diag);
    if (status != PEAL_OK) {
        sock_close(&made);
        return status;
    }
    *fd = made;
    return PEAL_OK;
}

int sock_accept(int listener)
{
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE ? SOCK_NO_MORE : -1;
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    tune(fd);
    return fd;
}

/* Refused, or not reachable at present: the other end may still come. */
static int may_come(int why)
{
    return why == ECONNREFUSED || why == ECONNRESET || why == ETIMEDOUT || why == EHOSTUNREACH ||
           why == ENETUNREACH || why == EAGAIN || why == ECONNABORTED;
}

static peal_status dialled(int fd, int why, const struct sock_addr *to, peal_diag *diag)
{
    char text[SOCK_TEXT];
    sock_close(&fd);
    if (may_come(why))
        return PEAL_AGAIN;
    return peal_fail(diag, PEAL_ERR_IO, "connecting to %s: %s", sock_text(to, text), strerror(why));
}

/* Where nobody listens on a port of this host, a socket that was given that very port to call from
 * meets itself; and while it is there nobody can listen. */
static int meets_itself(int fd, const struct sock_addr *to)
{
    struct sock_addr own;
    return sock_own(fd, &own, NULL) == PEAL_OK && own.family == to->family &&
           own.port == to->port && memcmp(own.ip, to->ip, sizeof own.ip) == 0;
}

peal_status sock_dial(const struct sock_addr *to, const struct sock_addr *from,
                      struct sock_wait wait, int *fd, peal_diag *diag)
{
    union any_addr at;
    union any_addr own;
    int why = 0;
    socklen_t length = from_own(to, &at);
    int made = make(&at);
    if (made < 0)
        return peal_fail(diag, PEAL_ERR_IO, "making a socket: %s", strerror(errno));
    if (from && from->family == to->family) {
        struct sock_addr any = *from;
        any.port = 0;
        socklen_t own_length = from_own(&any, &own);
        if (bind(made, &own.any, own_length) != 0)
            return dialled(made, errno, to, diag);
    }
    if (connect(made, &at.any, length) != 0) {
        if (errno != EINPROGRESS)
            return dialled(made, errno, to, diag);
        peal_status status = sock_poll(made, POLLOUT, wait);
        socklen_t size = sizeof why;
        if (status != PEAL_OK) {
            sock_close(&made);
            return status;
        }
        if (getsockopt(made, SOL_SOCKET, SO_ERROR, &why, &size) != 0 || why != 0)
            return dialled(made, why, to, diag);
    }
    if (meets_itself(made, to)) {
        const struct linger none = {.l_onoff = 1};
        (void)setsockopt(made, SOL_SOCKET, SO_LINGER, &none, sizeof none);
        return dialled(made, ECONNREFUSED, to, diag);
    }
    tune(made);
    *fd = made;
    return PEAL_OK;
}

/* ---- waiting */

peal_status sock_poll(int fd, short events, struct sock_wait wait)
{
    for (;;) {
        struct pollfd one = {.fd = fd, .events = events};
        if (wait.cancel && atomic_load_explicit(wait.cancel, memory_order_acquire))
            return PEAL_ERR_ABORTED;
        int ready = poll(&one, 1, SLICE_MS);
        if (ready > 0)
            return PEAL_OK;
        if (ready < 0 && errno != EINTR)
            return PEAL_ERR_IO;
        if (rt_now_ns() > wait.deadline)
            return PEAL_ERR_TIMEOUT;
    }
}

static int would_wait(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

peal_status sock_send(int fd, const void *data, size_t bytes, struct sock_wait wait)
{
    const char *from = data;
    while (bytes > 0) {
        ssize_t sent = send(fd, from, bytes, MSG_NOSIGNAL);
        if (sent > 0) {
            from += sent;
            bytes -= (size_t)sent;
            continue;
        }
        if (sent < 0 && !would_wait())
            return PEAL_ERR_PEER;
        PEAL_TRY(sock_poll(fd, POLLOUT, wait));
    }
    return PEAL_OK;
}

peal_status sock_recv(int fd, void *data, size_t bytes, struct sock_wait wait)
{
    char *to = data;
    while (bytes > 0) {
        ssize_t got = recv(fd, to, bytes, 0);
        if (got > 0) {
            to += got;
            bytes -= (size_t)got;
            continue;
        }
        if (got == 0 || !would_wait())
            return PEAL_ERR_PEER;
        PEAL_TRY(sock_poll(fd, POLLIN, wait));
    }
    return PEAL_OK;
}
