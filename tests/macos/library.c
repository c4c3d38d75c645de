/* A stand-in for the sandbox calls of macOS: built as a shared library, which Python loads instead of libSystem. It
 * checks and logs its arguments, and then confines the process with Landlock and seccomp, as far as the tests need.
 *
 * Files next to the library make calls fail: `refuse` has the error of sandbox_init_with_parameters, and `hole` the name
 * of one layer that stays open. `log` gets a line for each call. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

/* All file rights of Landlock's ABI 3 (Linux 6.2). */
#define ALL_FILE_RIGHTS ((1ULL << 15) - 1)
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif
#define READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE                                                                                                          \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                  \
     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_SYM |                         \
     LANDLOCK_ACCESS_FS_REFER | LANDLOCK_ACCESS_FS_TRUNCATE)
/* glibc's loader sets this flag. Python's mmap does not. */
#define OF_LOADER 0x800

static int has_entered;
static char hole[64];

static void beside(const char *name, char *path, size_t size) {
    Dl_info about;
    if (!dladdr((void *)&has_entered, &about)) abort();
    const char *end = strrchr(about.dli_fname, '/');
    snprintf(path, size, "%.*s/%s", (int)(end - about.dli_fname), about.dli_fname, name);
}

static int read_beside(const char *name, char *text, size_t size) {
    char path[4096];
    beside(name, path, sizeof path);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, text, size - 1);
    close(file);
    text[length < 0 ? 0 : length] = 0;
    return 1;
}

static void write_beside(const char *name, const char *text, int flags) {
    char path[4096];
    beside(name, path, sizeof path);
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
    if (file < 0 || write(file, text, strlen(text)) < 0) abort();
    close(file);
}

static int leaves_open(const char *name) { return strcmp(hole, name) == 0; }

static void allow(int rules, const char *path, uint64_t rights) {
    int file = open(path, O_PATH | O_CLOEXEC);
    /* As on macOS, a rule about a missing file is allowed. */
    if (file < 0) return;
    struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = file};
    if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
        /* The path is a file. */
        rule.allowed_access &= LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;
        if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) abort();
    }
    close(file);
}

static void hold_files(const char *const parameters[]) {
    struct landlock_ruleset_attr attributes = {.handled_access_fs = ALL_FILE_RIGHTS};
    int rules = syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0);
    if (rules < 0) abort();
    for (int i = 0; parameters[i]; i += 2) {
        if (parameters[i][0] == 'R') allow(rules, parameters[i + 1], READ);
        if (strcmp(parameters[i], "SCRATCH") == 0) {
            allow(rules, parameters[i + 1], READ | WRITE | (leaves_open("pipes") ? LANDLOCK_ACCESS_FS_MAKE_FIFO : 0));
        }
    }
    allow(rules, "/dev/null", READ | LANDLOCK_ACCESS_FS_WRITE_FILE);
    allow(rules, "/dev/zero", READ);
    allow(rules, "/dev/urandom", READ);
    if (leaves_open("read")) allow(rules, "/", READ);
    if (leaves_open("write")) allow(rules, "/", WRITE);
    if (leaves_open("exec")) allow(rules, "/", READ | LANDLOCK_ACCESS_FS_EXECUTE);
    if (syscall(SYS_landlock_restrict_self, rules, 0) != 0) abort();
    close(rules);
}

#define ARGUMENT(n) (offsetof(struct seccomp_data, args) + 8 * (n))
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define DENIED (SECCOMP_RET_ERRNO | EPERM)
/* Continues with the next instruction if the system call has this number, otherwise skips `skip` instructions. */
#define IF_CALL(number, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, (skip))

static struct sock_filter filter[256];
static unsigned short length;

static void add(struct sock_filter instruction) { filter[length++] = instruction; }

static void deny(int number) {
    add((struct sock_filter)IF_CALL(number, 1));
    add((struct sock_filter)RETURN(DENIED));
}

static void hold_calls(void) {
    add((struct sock_filter)LOAD(offsetof(struct seccomp_data, arch)));
    add((struct sock_filter)IF_CALL(ARCHITECTURE, 1));
    add((struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 1));
    add((struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS));
    add((struct sock_filter)LOAD(offsetof(struct seccomp_data, nr)));
    if (!leaves_open("fork")) {
        add((struct sock_filter)IF_CALL(SYS_clone3, 1));
        add((struct sock_filter)RETURN(SECCOMP_RET_ERRNO | ENOSYS));
        add((struct sock_filter)IF_CALL(SYS_clone, 4));
        add((struct sock_filter)LOAD(ARGUMENT(0)));
        add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0));
        add((struct sock_filter)RETURN(DENIED));
        add((struct sock_filter)LOAD(offsetof(struct seccomp_data, nr)));
#ifdef SYS_vfork
        deny(SYS_vfork);
        deny(SYS_fork);
#endif
    }
    if (!leaves_open("exec")) {
        deny(SYS_execve);
        deny(SYS_execveat);
    }
    if (!leaves_open("network")) deny(SYS_socket);
#ifdef SYS_chmod
    deny(SYS_chmod);
    deny(SYS_mknod);
#endif
    deny(SYS_fchmodat);
    if (!leaves_open("signal")) {
        add((struct sock_filter)IF_CALL(SYS_kill, 4));
        add((struct sock_filter)LOAD(ARGUMENT(0)));
        add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)getpid(), 1, 0));
        add((struct sock_filter)RETURN(DENIED));
        add((struct sock_filter)LOAD(offsetof(struct seccomp_data, nr)));
    }
    if (!leaves_open("map")) {
        /* mmap of a file as code, except by the loader. */
        add((struct sock_filter)IF_CALL(SYS_mmap, 8));
        add((struct sock_filter)LOAD(ARGUMENT(2)));
        add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 5));
        add((struct sock_filter)LOAD(ARGUMENT(4)));
        add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xffffffffU, 3, 0));
        add((struct sock_filter)LOAD(ARGUMENT(3)));
        add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, OF_LOADER, 1, 0));
        add((struct sock_filter)RETURN(DENIED));
        add((struct sock_filter)LOAD(offsetof(struct seccomp_data, nr)));
    }
    add((struct sock_filter)RETURN(SECCOMP_RET_ALLOW));
    struct sock_fprog program = {.len = length, .filter = filter};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) abort();
}

int sandbox_init_with_parameters(const char *profile, uint64_t flags, const char *const parameters[], char **error) {
    char text[4096];
    if (read_beside("refuse", text, sizeof text)) {
        *error = strdup(text);
        return -1;
    }
    /* A sandboxed process cannot enter another sandbox. */
    if (has_entered) {
        *error = strdup("sandbox_apply: Operation not permitted");
        return -1;
    }
    if (flags != 0 || strstr(profile, "\n(version 1)\n(deny default)\n") == NULL) {
        *error = strdup("no profile");
        return -1;
    }
    write_beside("profile", profile, O_TRUNC);
    write_beside("parameters", "", O_TRUNC);
    for (int i = 0; parameters[i]; i += 2) {
        snprintf(text, sizeof text, "(param \"%s\")", parameters[i]);
        if (strstr(profile, text) == NULL || parameters[i + 1] == NULL || parameters[i + 1][0] != '/') {
            *error = strdup("a parameter that is not used, or no path");
            return -1;
        }
        snprintf(text, sizeof text, "%s=%s\n", parameters[i], parameters[i + 1]);
        write_beside("parameters", text, O_APPEND);
    }
    read_beside("hole", hole, sizeof hole);
    snprintf(text, sizeof text, "sandbox %d\n", getpid());
    write_beside("log", text, O_APPEND);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) abort();
    hold_files(parameters);
    hold_calls();
    has_entered = 1;
    return 0;
}

int sandbox_check(int pid, const char *operation, int type) {
    if (pid != getpid() || operation != NULL || type != 0) abort();
    return has_entered && !leaves_open("lie");
}

/* For the canary, which tries to reach other processes and system services on macOS. */
unsigned bootstrap_port = 1;

int bootstrap_look_up(unsigned port, const char *name, unsigned *service) {
    *service = port;
    return leaves_open("services") && strcmp(name, "com.apple.pasteboard.1") == 0 ? 0 : 1100;
}

int sysctl(int *name, unsigned count, void *value, size_t *size, void *new, size_t new_size) {
    (void)value, (void)size, (void)new, (void)new_size;
    return leaves_open("arguments") && count == 3 && name[0] == 1 && name[1] == 49 ? 0 : -1;
}
