/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream sockets of ranks that meet: never blocking, so that every wait has a deadline and can be
 * called off. Deadlines are in rt_now_ns's time.
 */
#ifndef PEAL_RUNTIME_SOCK_H
#define PEAL_RUNTIME_SOCK_H

#include "base.h"

#include <stdatomic.h>

/* An address in the form in which ranks tell it each other. */
struct sock_addr {
    uint8_t family; /* 4, 6; 0: none */
    uint8_t ip[16]; /* of IPv4 the first four */
    uint16_t port;
    uint32_t scope; /* IPv6: the link of a link-local address, as this host counts them */
};

/* How long a wait may last, and what ends it before. */
struct sock_wait {
    uint64_t deadline;
    const _Atomic uint32_t *cancel; /* NULL, or a word that is not 0 once nobody waits any more */
};

/* Names and numbers, with or without the brackets of IPv6; at most *count of them, then as many as
 * there are. PEAL_AGAIN, with the reason in *diag: a name that is not known, which may change.
 * TIMEOUT, ABORTED: whom it asks for a name has not answered. */
peal_status sock_resolve(const char *name, uint16_t port, struct sock_wait wait,
                         struct sock_addr *list, uint32_t *count, peal_diag *diag);
/* resolve.c: getaddrinfo, with an end. *failed is its result, *found to be freed if that is 0. */
#define SOCK_NAME 256u
struct addrinfo;
peal_status sock_ask(const char *name, struct sock_wait wait, struct addrinfo **found, int *failed);
/* The address of an interface of this host by its name, or an address of this host; family 0:
 * any. */
peal_status sock_interface(const char *name, uint8_t family, struct sock_wait wait,
                           struct sock_addr *addr, peal_diag *diag);
int sock_is_here(const struct sock_addr *addr); /* an address of this host */
int sock_is_any(const struct sock_addr *addr);  /* all interfaces */
int sock_is_loopback(const struct sock_addr *addr);
int sock_same_host(const struct sock_addr *a, const struct sock_addr *b); /* but for the port */
#define SOCK_TEXT 64
const char *sock_text(const struct sock_addr *addr, char *text); /* "10.0.0.1:29500" */

/* port 0: any; *addr then holds the one it got. */
peal_status sock_listen(struct sock_addr *addr, int *fd, peal_diag *diag);
/* -1: nobody has come; SOCK_NO_MORE: somebody has, and this process may open no more files. */
#define SOCK_NO_MORE (-2)
int sock_accept(int listener);
/* From an own address (NULL: any). PEAL_AGAIN: nobody listens there (yet). */
peal_status sock_dial(const struct sock_addr *to, const struct sock_addr *from,
                      struct sock_wait wait, int *fd, peal_diag *diag);
/* This end's address, and the other end's. */
peal_status sock_own(int fd, struct sock_addr *addr, peal_diag *diag);
peal_status sock_other(int fd, struct sock_addr *addr);
int sock_share(int fd);     /* the same socket once more; -1: no */
void sock_close(int *fd);   /* and makes it -1 */
int sock_has_ended(int fd); /* the other end is gone, and has left nothing to be read */
void sock_end(int fd);      /* nothing more is sent; what was still arrives */

/* All of it. PEAL_ERR_PEER: the other end is gone; TIMEOUT, ABORTED. */
peal_status sock_send(int fd, const void *data, size_t bytes, struct sock_wait wait);
peal_status sock_recv(int fd, void *data, size_t bytes, struct sock_wait wait);
/* Until `events` (of poll) come, a slice of time passes, or the wait is over: then its status. */
peal_status sock_poll(int fd, short events, struct sock_wait wait);

#endif
