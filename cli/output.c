/* SPDX-License-Identifier: Apache-2.0 */
/* Output files: written beside their place under another name, moved there when complete. */
#include "cli.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file under way, for endings of the program that nobody returns from. */
static char pending[4096 + 16];
static volatile sig_atomic_t is_pending;

static void forget(void)
{
    if (is_pending)
        (void)unlink(pending);
    is_pending = 0;
}

static void on_signal(int number)
{
    forget();
    (void)raise(number); /* the handler is gone: this ends it */
}

static void guard(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
    static int guarded;
    if (guarded)
        return;
    guarded = 1;
    (void)atexit(forget);
    for (size_t i = 0; i < COUNT_OF(signals); i++) {
        struct sigaction action = {.sa_handler = on_signal};
        struct sigaction old;
        action.sa_flags = (int)(SA_RESETHAND | SA_NODEFER);
        (void)sigemptyset(&action.sa_mask);
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            (void)sigaction(signals[i], &action, NULL);
    }
}

static int cannot(const char *path)
{
    say(SAY_ERROR, "cannot write %s: %s", path, strerror(errno));
    return EXIT_RUNTIME;
}

/* With the rights that a new file would have, or those of the file it replaces. */
static void set_mode(int fd, const struct stat *old)
{
    mode_t mask = umask(0);
    (void)umask(mask);
    (void)fchmod(fd, old ? old->st_mode & 0777 : 0666 & ~mask);
}

static int open_beside(struct output *output, const struct stat *old)
{
    int length = snprintf(pending, sizeof pending, "%s.XXXXXX", output->path);
    if (length < 0 || (size_t)length >= sizeof pending) {
        errno = ENAMETOOLONG;
        return cannot(output->path);
    }
    int fd = mkstemp(pending);
    if (fd < 0)
        return cannot(output->path);
    is_pending = 1;
    set_mode(fd, old);
    output->file = fdopen(fd, "wb");
    if (output->file)
        return EXIT_YES;
    (void)close(fd);
    forget();
    return cannot(output->path);
}

static int open_path(struct output *output, const char *path)
{
    struct stat about;
    int there = stat(path, &about) == 0;
    if (there && !S_ISREG(about.st_mode)) { /* a device or a pipe has no other name */
        output->in_place = 1;
        output->file = fopen(path, "wb");
        return output->file ? EXIT_YES : cannot(path);
    }
    char *real = there ? realpath(path, NULL) : NULL; /* a link stays one */
    int length = snprintf(output->path, sizeof output->path, "%s", real ? real : path);
    free(real);
    if (length < 0 || (size_t)length >= sizeof output->path) {
        errno = ENAMETOOLONG;
        return cannot("the output");
    }
    guard();
    return open_beside(output, there ? &about : NULL);
}

int output_open(const struct cli *cli, struct output *output)
{
    const char *path = cli->value[OPT_OUTPUT];
    memset(output, 0, sizeof *output);
    if (path && strcmp(path, "-") != 0)
        return open_path(output, path);
    output->in_place = 1;
    output->file = stdout;
    return EXIT_YES;
}

static int keep(struct output *output)
{
    if (output->in_place)
        return EXIT_YES;
    if (rename(pending, output->path) != 0)
        return cannot(output->path);
    is_pending = 0;
    return EXIT_YES;
}

int output_close(struct output *output, int code)
{
    int failed = fflush(output->file) != 0 || ferror(output->file);
    if (output->file != stdout)
        failed |= fclose(output->file) != 0;
    if (failed)
        code = cannot(output->path[0] ? output->path : "the output");
    if (failed && output->file == stdout)
        clearerr(stdout); /* it has been said */
    if (code == EXIT_YES || code == EXIT_NO) {
        int kept = keep(output);
        code = kept == EXIT_YES ? code : kept;
    }
    if (!output->in_place)
        forget();
    return code;
}

peal_status output_write(void *user, const char *data, size_t bytes)
{
    struct output *output = user;
    return fwrite(data, 1, bytes, output->file) == bytes ? PEAL_OK : PEAL_ERR_IO;
}

int save_table(const struct cli *cli, const peal_table *table)
{
    peal_diag diag = PEAL_DIAG_INIT;
    struct output output;
    CLI_TRY(output_open(cli, &output));
    peal_status status = peal_table_save(table, output_write, &output, &diag);
    return output_close(&output, status == PEAL_OK ? EXIT_YES : say_diag(status, &diag));
}

int output_coloured(const struct output *output)
{
    const char *no = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return output->file == stdout && !(no && *no) && isatty(STDOUT_FILENO) && term &&
           strcmp(term, "dumb") != 0;
}
