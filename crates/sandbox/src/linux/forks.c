// The main loop of a fork server. Forks a child for each request of the server, and reports the end of each child.
// Another process, the init maker, creates the first process (init) of each child's PID namespace.
//
// All children must begin with the same memory, so that an object has the same address in each child. A loop in Python
// would allocate and free objects for each child. This loop changes only the stack and one table.
//
// The fork server loads this library with `dlopen`. The library works with any C library. It calls the functions that
// Python's C API has for a fork (https://docs.python.org/3/c-api/sys.html).

#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

#define NAME_BYTES 16
// The number of descriptors in a request: a child's standard output and error, its socket to the server, the lifeline
// of its init (see `be_init`), and its side channel (see `passing.rs`).
#define DESCRIPTORS 5
#define LIFELINE 3
// The maximum number of live children, more than the concurrent runs of a server. A further child is reported as
// killed.
#define CHILDREN_MAX 4096
// More capabilities than a kernel has. Ends the loop over capabilities if a container's seccomp filter lets every call
// succeed.
#define CAPABILITIES_MAX 64
// System calls that older headers do not have. Their numbers are the same on all architectures.
#define PIDFD_OPEN 434
#define CLOSE_RANGE 436
#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif
// _LINUX_CAPABILITY_VERSION_3 (capget(2)).
#define CAPABILITY_VERSION 0x20080522

void PyOS_BeforeFork(void) __attribute__((weak));
void PyOS_AfterFork_Child(void) __attribute__((weak));

struct child {
    pid_t pid;
    char name[NAME_BYTES];
};

// The first `count` entries are the children that have not ended. A test reads the table.
PUBLIC struct child fork_server_children[CHILDREN_MAX];
static size_t count;
// The socket to the server.
static int requests;

static void fail(const char *text) {
    ssize_t written = write(2, text, strlen(text));
    (void)written;
    _exit(1);
}

// Prints `text` and the reason in errno, and ends the process.
static void fail_with_reason(const char *text) {
    perror(text);
    _exit(1);
}

static void send_all(int socket, const char *bytes, size_t length) {
    while (length) {
        ssize_t sent = send(socket, bytes, length, MSG_NOSIGNAL);
        // The server has ended, so end too.
        if (sent < 0 && errno != EINTR) _exit(0);
        if (sent > 0) bytes += sent, length -= (size_t)sent;
    }
}

// Reports a child's exit code, or minus the number of the signal that ended it.
static void report(const char *name, int code) {
    char line[NAME_BYTES + 16], digits[8];
    size_t at = NAME_BYTES, length = 0;
    memcpy(line, name, NAME_BYTES);
    line[at++] = ' ';
    if (code < 0) line[at++] = '-', code = -code;
    do digits[length++] = (char)('0' + code % 10);
    while (code /= 10);
    while (length) line[at++] = digits[--length];
    line[at++] = '\n';
    send_all(requests, line, at);
}

// Reports the children that have ended. `maker` is the PID of the init maker.
static void reap(pid_t maker) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == maker) fail("the process that makes inits has ended\n");
        size_t at = 0;
        while (at < count && fork_server_children[at].pid != pid) at++;
        if (at == count) continue;
        report(fork_server_children[at].name, WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
        fork_server_children[at] = fork_server_children[--count];
        memset(&fork_server_children[count], 0, sizeof fork_server_children[count]);
    }
}

// Receives a message of `size` bytes with up to DESCRIPTORS descriptors. Returns the number of descriptors.
static size_t receive(int socket, char *message, size_t size, int *descriptors) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = message, .iov_len = size};
    struct msghdr parts = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t received;
    do received = recvmsg(socket, &parts, MSG_CMSG_CLOEXEC);
    while (received < 0 && errno == EINTR);
    struct cmsghdr *rights = received > 0 ? CMSG_FIRSTHDR(&parts) : NULL;
    if (!rights || rights->cmsg_type != SCM_RIGHTS) return 0;
    size_t bytes = rights->cmsg_len - CMSG_LEN(0);
    memcpy(descriptors, CMSG_DATA(rights), bytes);
    return bytes / sizeof(int);
}

static void send_descriptor(int socket, int descriptor) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
    char message = '+';
    struct iovec part = {.iov_base = &message, .iov_len = 1};
    struct msghdr parts = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (sendmsg(socket, &parts, MSG_NOSIGNAL) != 1) fail_with_reason("a process of the fork server cannot be reached");
}

// Forks the child `name` in a PID namespace of its own. Returns 0 in the child.
static pid_t fork_child(const char *name, int init_maker, int lifeline) {
    char answer;
    int init[DESCRIPTORS];
    send_descriptor(init_maker, lifeline);
    if (receive(init_maker, &answer, 1, init) != 1) fail("no init was made\n");
    // setns fails if the server has already closed the lifeline, because the init has then ended.
    pid_t pid = count < CHILDREN_MAX && setns(init[0], CLONE_NEWPID) == 0 ? fork() : -1;
    if (pid != 0) close(init[0]);
    if (pid < 0) report(name, -SIGKILL);
    if (pid > 0) {
        fork_server_children[count].pid = pid;
        memcpy(fork_server_children[count++].name, name, NAME_BYTES);
    }
    return pid;
}

static void ignore(int signal) { (void)signal; }

// Reports to the server that the fork server is ready. Then forks children until the server closes its end of `socket`.
//
// Returns in each child: 1 if a script waits for the child, otherwise 0. Stores the child's descriptors in
// `descriptors`. In the fork server, returns only on failure: -1 if this Python has no functions for a fork.
PUBLIC int fork_children(int socket, int init_maker, pid_t maker, int descriptors[DESCRIPTORS]) {
    int is_awaited;
    if (!PyOS_BeforeFork || !PyOS_AfterFork_Child) return -1;
    requests = socket;
    sigset_t ends, usual;
    struct sigaction interrupt = {.sa_handler = ignore}, before;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ends, &usual);
    sigaction(SIGCHLD, &interrupt, &before);
    // Call this only once for all children, because it runs Python code, which changes the memory.
    PyOS_BeforeFork();
    send_all(requests, "ready\n", 6);
    while (1) {
        // SIGCHLD of a child that has ended interrupts the wait.
        struct pollfd request = {.fd = requests, .events = POLLIN};
        int is_requested = ppoll(&request, 1, NULL, &usual) > 0;
        reap(maker);
        if (!is_requested) continue;
        // The child's name, and a byte that is 1 if a script waits for the child.
        char message[NAME_BYTES + 1];
        if (receive(requests, message, sizeof message, descriptors) != DESCRIPTORS) _exit(0);
        is_awaited = message[NAME_BYTES];
        if (fork_child(message, init_maker, descriptors[LIFELINE]) == 0) break;
        for (size_t at = 0; at < DESCRIPTORS; at++) close(descriptors[at]);
    }
    // Clear the table. A script in the child can read this memory, and must not see data about other children.
    memset(fork_server_children, 0, count * sizeof fork_server_children[0]);
    count = 0;
    sigaction(SIGCHLD, &before, NULL);
    sigprocmask(SIG_SETMASK, &usual, NULL);
    PyOS_AfterFork_Child();
    return is_awaited;
}

// Removes all capabilities from the bounding set of this process (capabilities(7)). Returns 0, or -1 with errno.
PUBLIC int fork_server_empty_bounding_set(void) {
    for (unsigned long capability = 0; capability < CAPABILITIES_MAX; capability++) {
        int is_in = prctl(PR_CAPBSET_READ, capability, 0, 0, 0);
        // The kernel knows no capability with this or a higher number.
        if (is_in < 0) return capability && errno == EINVAL ? 0 : -1;
        if (is_in && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) return -1;
    }
    return 0;
}

// Removes all capabilities of this process (capset(2)). Returns 0, or -1 with errno.
PUBLIC int fork_server_drop_capabilities(void) {
    struct {
        uint32_t version;
        int pid;
    } header = {.version = CAPABILITY_VERSION};
    // The lower 32 bits of the effective, permitted and inheritable set, then the upper 32 bits.
    uint32_t none[6] = {0};
    return (int)syscall(SYS_capset, &header, none);
}

// Pins this process to its current processor. Ignores a failure, because only the order of threads depends on it.
PUBLIC void fork_server_stay_on_processor(void) {
    int processor = sched_getcpu();
    if (processor < 0 || processor >= CPU_SETSIZE) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    sched_setaffinity(0, sizeof one, &one);
}

// Runs as the init of a child: process 1 of the child's PID namespace. Orphans of the run become children of the init.
// The kernel reaps them, because SIGCHLD is ignored. When the server closes the lifeline, the init ends, and the kernel
// kills all remaining processes of the run.
static void be_init(int lifeline) {
    char end;
    if (dup2(lifeline, 0) != 0 || syscall(CLOSE_RANGE, 1, ~0u, 0) != 0 || fork_server_drop_capabilities() != 0) _exit(1);
    if (write(0, "+", 1) != 1 || read(0, &end, 1) < 0) _exit(1);
    _exit(0);
}

// Runs the init maker: creates an init for each lifeline that arrives on `channel`, and sends back the init's pidfd.
// Ends the process when the fork server ends.
PUBLIC void fork_server_make_inits(int channel) {
    char message;
    int lifeline[DESCRIPTORS], init;
    signal(SIGCHLD, SIG_IGN);
    int own = (int)syscall(PIDFD_OPEN, getpid(), 0);
    if (own < 0) fail_with_reason("no pidfd could be opened");
    // Each init inherits the empty bounding set.
    if (fork_server_empty_bounding_set() != 0) fail_with_reason("the bounding set could not be emptied");
    while (receive(channel, &message, 1, lifeline) == 1) {
        // The next child becomes process 1 of the new PID namespace.
        if (unshare(CLONE_NEWPID) != 0) fail_with_reason("no PID namespace could be created");
        // Open the pidfd during the fork, because the init may end at once.
        long pid = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, NULL, &init, NULL, NULL);
        if (pid == 0) be_init(lifeline[0]);
        if (pid < 0) fail_with_reason("no init could be forked");
        if (setns(own, CLONE_NEWPID) != 0) fail_with_reason("the PID namespace could not be left");
        send_descriptor(channel, init);
        close(init);
        close(lifeline[0]);
    }
    _exit(0);
}

// Reads exactly `size` bytes. Returns 0, or -1 if the file ends too early or cannot be read.
PUBLIC int fork_server_read(int file, char *into, size_t size) {
    while (size) {
        ssize_t got = read(file, into, size);
        if (got > 0) into += got, size -= (size_t)got;
        else if (got == 0 || errno != EINTR) return -1;
    }
    return 0;
}
