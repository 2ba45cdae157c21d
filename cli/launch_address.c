/* SPDX-License-Identifier: Apache-2.0 */
/* The address by which other hosts reach this one, where nobody has said it. */
#include "launch.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The address that this host has towards far-off ones: what its default route says. Nothing is
 * sent. An own one of the container networks that many a host has leads nowhere from outside. */
static int routed(const char *far, struct sockaddr_storage *own)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_DGRAM};
    struct addrinfo *to = NULL;
    socklen_t length = sizeof *own;
    if (getaddrinfo(far, "9", &hints, &to) != 0)
        return 0;
    int fd = socket(to->ai_family, SOCK_DGRAM, 0);
    int found = fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
                getsockname(fd, (struct sockaddr *)own, &length) == 0;
    if (fd >= 0)
        (void)close(fd);
    freeaddrinfo(to);
    return found;
}

/* Without such a route: the first that is not the host's own loopback, nor of one link only. */
static int first_of(int family, struct sockaddr_storage *own)
{
    struct ifaddrs *all = NULL;
    int found = 0;
    if (getifaddrs(&all) != 0)
        return 0;
    for (const struct ifaddrs *at = all; at && !found; at = at->ifa_next) {
        unsigned want = IFF_UP | IFF_RUNNING;
        if (!at->ifa_addr || at->ifa_addr->sa_family != family || (at->ifa_flags & want) != want ||
            at->ifa_flags & IFF_LOOPBACK)
            continue;
        size_t bytes = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        memcpy(own, at->ifa_addr, bytes);
        found =
            family == AF_INET ||
            !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)own)->sin6_addr);
    }
    freeifaddrs(all);
    return found;
}

/* Where other hosts reach this one. NULL: it has no network. */
const char *launch_outward(char *text, size_t size)
{
    struct sockaddr_storage own = {0};
    if (!routed("192.0.2.1", &own) && !first_of(AF_INET, &own) && !routed("2001:db8::1", &own) &&
        !first_of(AF_INET6, &own))
        return NULL;
    socklen_t length =
        own.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    int failed = getnameinfo((const struct sockaddr *)&own, length, text, (socklen_t)size, NULL, 0,
                             NI_NUMERICHOST);
    return failed ? NULL : text;
}
