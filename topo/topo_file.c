/* SPDX-License-Identifier: Apache-2.0 */
/* Reading by file descriptor: no stream, no buffer but the caller's. */
#define _POSIX_C_SOURCE 200809L
#include "topo_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *reason(int error)
{
    switch (error) {
    case ENOENT:
        return "no such file";
    case EACCES:
    case EPERM:
        return "permission denied";
    case EISDIR:
        return "it is a directory";
    case ENOTDIR:
        return "a part of the path is not a directory";
    default:
        return "reading failed";
    }
}

static peal_status read_all(int fd, const char *path, struct peal_buf *buf, peal_diag *diag)
{
    char piece[16384];

    for (;;) {
        ssize_t got = read(fd, piece, sizeof piece);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return peal_fail_at(diag, PEAL_ERR_IO, path, 0, 0, "cannot read: %s", reason(errno));
        if (got == 0)
            return PEAL_OK;
        peal_buf_put(buf, piece, (size_t)got);
        if (buf->status == PEAL_ERR_LIMIT)
            return peal_fail_at(diag, PEAL_ERR_LIMIT, path, 0, 0,
                                "larger than %u MiB, the limit of a topology file",
                                (unsigned)(buf->limit >> 20));
        if (buf->status != PEAL_OK)
            return peal_fail(diag, buf->status, "out of memory while reading %s", path);
    }
}

peal_status peal_topo_file_read(const char *path, int regular, struct peal_buf *buf,
                                peal_diag *diag)
{
    struct stat about;
    peal_status status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (regular ? O_NONBLOCK : 0));

    if (fd < 0)
        return peal_fail_at(diag, PEAL_ERR_IO, path, 0, 0, "cannot open: %s", reason(errno));
    if (fstat(fd, &about) != 0)
        status = peal_fail_at(diag, PEAL_ERR_IO, path, 0, 0, "cannot read: %s", reason(errno));
    else if (S_ISDIR(about.st_mode))
        status = peal_fail_at(diag, PEAL_ERR_IO, path, 0, 0, "cannot read: it is a directory");
    else if (regular && !S_ISREG(about.st_mode))
        status = peal_fail_at(diag, PEAL_ERR_IO, path, 0, 0, "cannot read: not a plain file");
    else
        status = read_all(fd, path, buf, diag);
    (void)close(fd);
    return status;
}
