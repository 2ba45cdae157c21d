/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes share memory, and how those of one user and host agree on a key of their own
 * when nobody has given them one. */
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* One kernel, told by its boot id, and one /dev/shm, told by its device: containers of one host
 * may each have their own, and hosts of one name are several. */
static void find_host(char *id, size_t bytes)
{
    char boot[64] = "";
    struct stat about = {0};
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, boot, sizeof boot - 1);
    if (fd >= 0)
        (void)close(fd);
    boot[got > 0 ? got : 0] = '\0';
    boot[strcspn(boot, "\n")] = '\0';
    (void)stat("/dev/shm", &about);
    (void)snprintf(id, bytes, "%s/%llx:%llx", boot, (unsigned long long)about.st_dev,
                   (unsigned long long)about.st_ino);
}

peal_status rt_host_name(const char *given, char *id, size_t id_bytes, char *name,
                         size_t name_bytes)
{
    if (given && strlen(given) >= name_bytes)
        return PEAL_ERR_ARG;
    if (given) {
        /* Names do not collide with what find_host makes. */
        (void)snprintf(id, id_bytes, "=%s", given);
        peal_copy_text(name, name_bytes, given);
        return PEAL_OK;
    }
    find_host(id, id_bytes);
    if (gethostname(name, name_bytes) != 0)
        peal_copy_text(name, name_bytes, "unnamed");
    name[name_bytes - 1] = '\0';
    return PEAL_OK;
}

/* ---- the key of a host */

static peal_status no_key(const char *name, const char *why, peal_diag *diag)
{
    return peal_fail(diag, PEAL_ERR_IO,
                     "there is no key for the job, and this host's own cannot be kept as "
                     "/dev/shm%s: %s; give all ranks the same secret (peal run: PEAL_JOB_KEY or "
                     "PEAL_JOB_KEY_FILE)",
                     name, why);
}

peal_status rt_key_put(const char *name, struct auth_key *key, peal_diag *diag)
{
    PEAL_TRY(auth_random(key->bytes, sizeof key->bytes, diag));
    (void)shm_unlink(name); /* of a job that ended badly */
    int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0)
        return no_key(name, strerror(errno), diag);
    ssize_t put = write(fd, key->bytes, sizeof key->bytes);
    (void)close(fd);
    if (put == (ssize_t)sizeof key->bytes)
        return PEAL_OK;
    (void)shm_unlink(name);
    return no_key(name, "no room", diag);
}

/* Others may have put something of that name: only what this user alone can write is taken. */
peal_status rt_key_get(const char *name, struct auth_key *key)
{
    struct stat about;
    uint8_t bytes[AUTH_BYTES];
    int fd = shm_open(name, O_RDONLY, 0);
    if (fd < 0)
        return PEAL_AGAIN;
    int own = fstat(fd, &about) == 0 && about.st_uid == geteuid() && !(about.st_mode & 077);
    ssize_t got = own ? read(fd, bytes, sizeof bytes) : -1;
    (void)close(fd);
    if (got != (ssize_t)sizeof bytes)
        return PEAL_AGAIN;
    memcpy(key->bytes, bytes, sizeof bytes);
    return PEAL_OK;
}

void rt_key_remove(const char *name)
{
    if (name[0])
        (void)shm_unlink(name);
}
