/* SPDX-License-Identifier: Apache-2.0 */
/* Files and directories of sysfs and proc, below a root that tests choose. */
#include "detect.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_ROOM 4096

static int full(const struct machine *m, const char *path, char *text)
{
    int length = snprintf(text, PATH_ROOM, "%s%s", m->root, path);
    return length > 0 && length < PATH_ROOM;
}

int detect_text(const struct machine *m, const char *path, char *text, size_t size)
{
    char name[PATH_ROOM];
    text[0] = '\0';
    FILE *file = full(m, path, name) ? fopen(name, "r") : NULL;
    if (!file)
        return 0;
    if (!fgets(text, (int)size, file))
        text[0] = '\0';
    (void)fclose(file);
    text[strcspn(text, "\n")] = '\0';
    return text[0] != '\0';
}

int detect_number(const struct machine *m, const char *path, long *number)
{
    char text[64], *end;
    if (!detect_text(m, path, text, sizeof text))
        return 0;
    long value = strtol(text, &end, 0);
    if (end == text)
        return 0;
    *number = value;
    return 1;
}

int detect_target(const struct machine *m, const char *path, char *text, size_t size)
{
    char name[PATH_ROOM], whole[PATH_ROOM];
    text[0] = '\0';
    if (!full(m, path, name))
        return 0;
    ssize_t got = readlink(name, whole, sizeof whole - 1);
    if (got <= 0)
        return 0;
    whole[got] = '\0';
    const char *slash = strrchr(whole, '/');
    (void)snprintf(text, size, "%s", slash ? slash + 1 : whole);
    return 1;
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

void detect_each(struct machine *m, const char *directory, detect_name_fn each)
{
    char name[PATH_ROOM];
    struct dirent **list = NULL;
    int count = full(m, directory, name) ? scandir(name, &list, visible, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        each(m, directory, list[i]->d_name);
        free(list[i]);
    }
    free(list);
}

uint32_t detect_device(const struct machine *m, const char *busid)
{
    for (uint32_t i = 0; i < m->devices; i++)
        if (strcmp(m->device[i].busid, busid) == 0)
            return i;
    return DETECT_NONE;
}
