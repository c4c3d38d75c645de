/* A stand-in for macOS' taskpolicy: checks and logs its arguments, and executes the program.
 *
 * `run` enforces the limit instead of the kernel: it reads the log, and kills processes that exceed their limit. If a
 * file `refuse-limit` exists next to this program, it fails like a version without -m. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

int main(int count, char **arguments) {
    char path[4096], line[65536];
    const char *end = strrchr(arguments[0], '/');
    if (count < 4 || end == NULL || strcmp(arguments[1], "-m") != 0) return 64;
    char *rest;
    long mebibytes = strtol(arguments[2], &rest, 10);
    if (*rest != 0 || mebibytes <= 0) return 64;
    snprintf(path, sizeof path, "%.*s/refuse-limit", (int)(end - arguments[0]), arguments[0]);
    if (access(path, F_OK) == 0) {
        fprintf(stderr, "usage: taskpolicy [-d <policy>] <program> [<pargs> [...]]\n");
        return 64;
    }
    size_t used = snprintf(line, sizeof line, "taskpolicy %d %ld %s", getpid(), mebibytes, arguments[3]);
    for (char **variable = environ; *variable && used < sizeof line; variable++) {
        used += snprintf(line + used, sizeof line - used, " %.*s", (int)strcspn(*variable, "="), *variable);
    }
    snprintf(line + used, sizeof line - used, "\n");
    snprintf(path, sizeof path, "%.*s/log", (int)(end - arguments[0]), arguments[0]);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0 || write(log, line, strlen(line)) < 0) return 71;
    close(log);
    execv(arguments[3], arguments + 3);
    return errno == ENOENT ? 127 : 126;
}
