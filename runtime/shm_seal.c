/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealed segments: memory of a file that has no name and that nobody can shrink, not even who has
 * it open. Whoever touches a page that was cut off a file dies of a signal, and so would ranks when
 * another process of their user cut theirs. It takes nothing of /dev/shm, either, which is small in
 * many a container.
 *
 * Without a name, others find it by its maker: as a descriptor of that process, in /proc. Where
 * they do not see that (another pid namespace, a process that may not be looked into), the
 * segment has a name in /dev/shm, until all have it.
 */
#define _GNU_SOURCE
#include "clock.h"
#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#if defined(MFD_ALLOW_SEALING) && defined(F_ADD_SEALS)
#define HAVE_SEALS 1
#endif
#endif

#if defined(HAVE_SEALS)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define MAY_NOT_RUN 8u /* MFD_NOEXEC_SEAL; kernels before 6.3 do not know it */

static int make(uint64_t bytes)
{
    int fd = memfd_create("peal", MFD_CLOEXEC | MFD_ALLOW_SEALING | MAY_NOT_RUN);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("peal", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

/* This process as /proc has it, whose pid namespace may be another one. */
static uint32_t own_number(void)
{
    char text[16] = "";
    ssize_t got = readlink("/proc/self", text, sizeof text - 1);
    unsigned number = 0;
    return got > 0 && sscanf(text, "%u", &number) == 1 ? number : 0;
}

static int is_it(const struct stat *about, const struct rt_card *card)
{
    return S_ISREG(about->st_mode) && (uint64_t)about->st_dev == card->device &&
           (uint64_t)about->st_ino == card->node;
}

/* Looked at before it is opened: a number that another process has now may stand for anything. */
static int open_shown(const struct rt_card *card)
{
    char path[64];
    struct stat about;
    (void)snprintf(path, sizeof path, "/proc/%u/fd/%u", (unsigned)card->process,
                   (unsigned)card->fd);
    if (stat(path, &about) != 0 || !is_it(&about, card))
        return -1;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int seals = fcntl(fd, F_GET_SEALS);
    if (fstat(fd, &about) == 0 && is_it(&about, card) && seals >= 0 && (seals & SEALS) == SEALS)
        return fd;
    (void)close(fd);
    return -1;
}

void rt_card_hide(struct rt_card *card)
{
    struct stat about;
    if (card->mark && fstat((int)card->fd, &about) == 0 && is_it(&about, card))
        (void)close((int)card->fd);
    card->mark = 0;
}

static int show(int fd, struct rt_card *card)
{
    struct stat about;
    uint32_t process = own_number();
    if (process == 0 || prctl(PR_GET_DUMPABLE) != 1 || fstat(fd, &about) != 0)
        return 0;
    *card = (struct rt_card){.mark = RT_CARD,
                             .device = (uint64_t)about.st_dev,
                             .node = (uint64_t)about.st_ino,
                             .process = process,
                             .fd = (uint32_t)fd};
    int seen = open_shown(card);
    if (seen < 0)
        return 0;
    (void)close(seen);
    return 1;
}

int rt_segment_seal(const struct rt_layout *layout, const uint64_t token[2],
                    struct rt_segment *segment)
{
    struct rt_segment made = {.layout = *layout};
    int fd = make(layout->total);
    if (fd < 0)
        return 0;
    if (!show(fd, &made.card) || !rt_segment_begin(&made, fd, token)) {
        (void)close(fd);
        return 0;
    }
    segment->base = made.base;
    segment->layout = made.layout;
    segment->card = made.card;
    return 1;
}

peal_status rt_segment_take(const struct rt_layout *layout, const struct rt_card *card,
                            const uint64_t token[2], struct rt_segment *segment, peal_diag *diag)
{
    struct rt_segment made = {0}; /* named for errors */
    (void)snprintf(made.name, sizeof made.name, "of process %u", (unsigned)card->process);
    int fd = card->mark == RT_CARD ? open_shown(card) : -1;
    if (fd < 0)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "the memory of process %u is not to be seen in /proc (is it in another "
                         "pid namespace?)",
                         card->process);
    peal_status status = rt_segment_accept(layout, fd, &made, diag);
    (void)close(fd);
    if (status != PEAL_OK)
        return status;
    const uint64_t *theirs = rt_head(made.base)->token;
    if (token && (theirs[0] != token[0] || theirs[1] != token[1])) {
        rt_segment_unmap(&made);
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED, "that is the memory of another world");
    }
    segment->base = made.base;
    segment->layout = made.layout;
    return PEAL_OK;
}

#else

void rt_card_hide(struct rt_card *card)
{
    card->mark = 0;
}

int rt_segment_seal(const struct rt_layout *layout, const uint64_t token[2],
                    struct rt_segment *segment)
{
    (void)layout, (void)token, (void)segment;
    return 0;
}

peal_status rt_segment_take(const struct rt_layout *layout, const struct rt_card *card,
                            const uint64_t token[2], struct rt_segment *segment, peal_diag *diag)
{
    (void)layout, (void)card, (void)token, (void)segment;
    return peal_fail(diag, PEAL_ERR_UNSUPPORTED, "no sealed memory on this system");
}
#endif
