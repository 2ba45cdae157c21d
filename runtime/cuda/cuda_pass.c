/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File descriptors of memory, from every process to every other on the host: by datagrams over
 * sockets with abstract names that the kernel picks. A datagram is believed when the kernel says
 * that it is from the process of the rank that it names.
 */
#define _GNU_SOURCE 1 /* struct ucred */
#include "clock.h"
#include "cuda_comm.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PAUSE_US 200u

/* Control data of one datagram: a descriptor, and who sent it. */
union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

peal_status cuda_pass_open(struct cuda_pass *pass, peal_diag *diag)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t bytes = sizeof name.sun_family; /* no name: the kernel picks one */
    int on = 1;
    pass->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (pass->socket < 0)
        return peal_fail(diag, PEAL_ERR_IO, "a socket for descriptors: %s", strerror(errno));
    int bad = setsockopt(pass->socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
              bind(pass->socket, (struct sockaddr *)&name, bytes) != 0;
    bytes = sizeof name;
    bad = bad || getsockname(pass->socket, (struct sockaddr *)&name, &bytes) != 0;
    size_t length = bytes - offsetof(struct sockaddr_un, sun_path);
    if (bad || length < 2 || length > sizeof pass->name) {
        int why = errno;
        cuda_pass_close(pass);
        return peal_fail(diag, PEAL_ERR_IO, "a socket for descriptors: %s", strerror(why));
    }
    memset(pass->name, 0, sizeof pass->name);
    memcpy(pass->name, name.sun_path + 1, length - 1); /* behind the zero byte */
    return PEAL_OK;
}

void cuda_pass_close(struct cuda_pass *pass)
{
    if (pass->socket >= 0)
        (void)close(pass->socket);
    pass->socket = -1;
}

/* 1: sent; 0: there is no room now; -1: it failed. */
static int send_one(const struct cuda_pass *pass, const char *name, uint32_t rank, int fd)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    union control control;
    struct iovec data = {&rank, sizeof rank};
    size_t length = strnlen(name, 23);
    memcpy(to.sun_path + 1, name, length);
    memset(&control, 0, sizeof control);
    struct msghdr message = {.msg_name = &to,
                             .msg_namelen =
                                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length),
                             .msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(sizeof fd)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    if (sendmsg(pass->socket, &message, MSG_NOSIGNAL) == (ssize_t)sizeof rank)
        return 1;
    return errno == EAGAIN || errno == ENOBUFS || errno == EINTR ? 0 : -1;
}

static void close_all(const struct cmsghdr *head)
{
    size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
        (void)close(fd);
    }
}

/* Takes a message apart; gives the descriptor, -1 for none or several, and the sender's pid. */
static int take_apart(struct msghdr *message, uint32_t *pid)
{
    int fd = -1;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
        struct ucred who;
        if (head->cmsg_level != SOL_SOCKET)
            continue;
        if (head->cmsg_type == SCM_CREDENTIALS && head->cmsg_len == CMSG_LEN(sizeof who)) {
            memcpy(&who, CMSG_DATA(head), sizeof who);
            *pid = (uint32_t)who.pid;
        }
        if (head->cmsg_type != SCM_RIGHTS)
            continue;
        if (head->cmsg_len == CMSG_LEN(sizeof fd) && fd < 0)
            memcpy(&fd, CMSG_DATA(head), sizeof fd);
        else
            close_all(head);
    }
    return fd;
}

/* 1: a descriptor came; 0: nothing has come, or what nobody asked for. */
static int receive_one(const struct peal_cuda_comm *comm, const struct cuda_pass *pass,
                       const struct cuda_card *cards, const struct cuda_parcel *parcel)
{
    union control control;
    uint32_t rank = 0, pid = 0;
    struct iovec data = {&rank, sizeof rank};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t got = recvmsg(pass->socket, &message, MSG_CMSG_CLOEXEC);
    if (got < 0)
        return 0;
    int fd = take_apart(&message, &pid);
    int known = got == (ssize_t)sizeof rank && rank < comm->nranks && parcel->wants[rank] &&
                cards[rank].pid == pid && parcel->fds[rank] < 0;
    if (known && fd >= 0) {
        parcel->fds[rank] = fd;
        return 1;
    }
    if (fd >= 0)
        (void)close(fd);
    return 0;
}

/* Where none is, the one that takes nothing. */
static uint32_t first_missing(const struct peal_cuda_comm *comm, const struct cuda_parcel *parcel,
                              uint32_t to)
{
    for (uint32_t r = 0; r < comm->nranks; r++)
        if (parcel->wants[r] && parcel->fds[r] < 0)
            return r;
    return to;
}

peal_status cuda_pass_all(struct peal_cuda_comm *comm, const struct cuda_pass *pass,
                          const struct cuda_card *cards, const struct cuda_parcel *parcel,
                          peal_diag *diag)
{
    uint32_t to = 0, missing = 0;
    struct rt_vigil vigil = rt_vigil_begin(comm->host, 1);
    for (uint32_t r = 0; r < comm->nranks; r++)
        missing += parcel->wants[r];
    while (missing || to < comm->nranks) {
        int moved = receive_one(comm, pass, cards, parcel);
        missing -= (uint32_t)moved;
        if (to < comm->nranks) {
            int sent =
                parcel->sends[to] ? send_one(pass, cards[to].socket, comm->rank, parcel->fd) : 1;
            if (sent < 0)
                return peal_fail(diag, PEAL_ERR_PEER, "memory could not be shown to rank %u: %s",
                                 to, strerror(errno));
            to += (uint32_t)sent;
            moved |= sent;
        }
        if (moved)
            continue;
        uint32_t missed = first_missing(comm, parcel, to);
        peal_status status = rt_vigil_look(comm->host, &vigil, missed, diag);
        if (status == PEAL_ERR_TIMEOUT)
            return peal_fail(
                diag, status,
                "rank %u did not show its memory, or look at this rank's, within %u ms", missed,
                comm->host->timeout_ms);
        PEAL_TRY(status);
        rt_sleep_us(PAUSE_US);
    }
    return PEAL_OK;
}
