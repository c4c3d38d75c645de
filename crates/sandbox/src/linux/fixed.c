// Replaces the clocks and the random bits of a process by fixed values, so that two runs of a program are the same.
//
// The dynamic loader loads this library first (LD_PRELOAD, ld.so(8)). So Python and native code call its functions
// instead of the functions of the C library. The library works with glibc and musl.
//
// The environment variable FIXED_VALUES contains the start of the clock in nanoseconds since 1970 and the seed, both as
// decimal numbers, separated by a colon.
//
// Time. Each reading of a clock advances all clocks by a step. The steps grow with the number of readings, so that a
// loop that waits for a certain time soon ends. A wait that reaches its timeout advances all clocks except for CPU time
// by the requested duration. A wait that a signal interrupts advances them by its real duration, any other wait not at
// all. Waits still take real time, because other threads may need it. Deadlines are converted to the kernel's clock.
//
// Random bits. They come from SplitMix64 with the seed. They are not for secrets, because they are as predictable as
// the seed.
//
// OBSERVED is the ID of a pseudo clock. Its "time" is the number of threads and processes that the program has started.
// The bootstrap of a script reads this clock, which fails if the library is not loaded.
//
// Not covered: instructions (rdtsc, rdrand), system calls without libc, times of files, and functions that are not
// defined below.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define SECOND 1000000000ull

// The step by which one reading advances the clock, in nanoseconds. The step is STEP_MIN for the first STEADY
// nanoseconds, then the sum of all steps so far divided by STEP_SHARE, but at most STEP_MAX.
#define STEP_MIN 1000ull
#define STEP_MAX 10000000ull
#define STEP_SHARE 256
#define STEADY 10000000ull
// The start of the monotonic clocks, in seconds. Only deadlines of the real-time clock reach REALTIME_MIN seconds.
#define UPTIME 1000
#define REALTIME_MIN 100000000
// The size of a file with random bits, in bytes.
#define FILE_BYTES (1 << 20)

// The ID of the pseudo clock. `python/determinism.py` contains the same number.
#define OBSERVED 29047

static _Atomic uint64_t started;
// The sum of the steps by which readings have advanced the clock.
static _Atomic uint64_t worked;
// The sum of the durations by which waits have advanced the clock.
static _Atomic uint64_t waited;
static _Atomic uint64_t drawn;
static uint64_t start, seed, forks;

// Declares `next`, the function `name` of the library that this library precedes (RTLD_NEXT, dlsym(3)).
#define NEXT(name)                                                                                                     \
    static __typeof__(name) *next;                                                                                     \
    if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

// Only glibc defines dlvsym. On x86_64, glibc's dlsym may return an old pthread_cond_timedwait, which expects another
// structure.
extern void *dlvsym(void *, const char *, const char *) __attribute__((weak));

// Reads and removes the environment variables, once. The constructor may run before the C library has set up the
// environment. So most functions below call this function too, and Python calls one of them before it reads the
// environment.
static __attribute__((constructor)) void begin(void) {
    if (start) return;
    const char *values = getenv("FIXED_VALUES"), *library = getenv("LD_PRELOAD");
    if (!values || !library) return;
    // Remove the file of the library, because a script must not find it in its scratch folder.
    unlink(library);
    uint64_t numbers[2] = {0};
    for (int which = 0; *values; values++) {
        if (*values == ':') which = 1;
        else numbers[which] = numbers[which] * 10 + (uint64_t)(*values - '0');
    }
    start = numbers[0], seed = numbers[1];
    unsetenv("FIXED_VALUES");
    unsetenv("LD_PRELOAD");
}

// Restarts the clocks and random bits with new values, in a process that was forked before these values were known. The
// process continues like a program that has just started.
PUBLIC void fixed_restart(uint64_t at_ns, uint64_t new_seed) {
    start = at_ns, seed = new_seed, forks = 0;
    started = worked = waited = drawn = 0;
}

// Time.

static uint64_t elapsed(void) {
    begin();
    return worked + waited;
}

// Advances the clock until `elapsed` returns at least `target`.
static void wait_until(uint64_t target) {
    uint64_t before = waited, now;
    do {
        now = worked + before;
        if (now >= target) return;
    } while (!atomic_compare_exchange_weak(&waited, &before, before + (target - now)));
}

static struct timespec of_ns(uint64_t ns) {
    return (struct timespec){.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
}

static struct timespec sum(struct timespec a, struct timespec b) {
    struct timespec all = {.tv_sec = a.tv_sec + b.tv_sec, .tv_nsec = a.tv_nsec + b.tv_nsec};
    if (all.tv_nsec >= (long)SECOND) all.tv_sec++, all.tv_nsec -= (long)SECOND;
    return all;
}

// Returns `a - b`, or 0 if the difference is negative.
static struct timespec difference(struct timespec a, struct timespec b) {
    struct timespec left = {.tv_sec = a.tv_sec - b.tv_sec, .tv_nsec = a.tv_nsec - b.tv_nsec};
    if (left.tv_nsec < 0) left.tv_sec--, left.tv_nsec += (long)SECOND;
    return left.tv_sec < 0 ? (struct timespec){0} : left;
}

// Converts a duration to nanoseconds, at most 100 years.
static uint64_t ns_of(struct timespec time) {
    uint64_t seconds = time.tv_sec < 0 ? 0 : (uint64_t)time.tv_sec;
    return seconds > 3155760000ull ? 3155760000ull * SECOND : seconds * SECOND + (uint64_t)time.tv_nsec;
}

// Stores the current time of a clock, without a step. Returns false if this library does not replace the clock.
static int present(clockid_t clock, struct timespec *now) {
    switch (clock) {
    case CLOCK_REALTIME: case CLOCK_REALTIME_COARSE: case CLOCK_REALTIME_ALARM: case CLOCK_TAI:
        *now = of_ns(start + elapsed());
        return 1;
    case CLOCK_MONOTONIC: case CLOCK_MONOTONIC_RAW: case CLOCK_MONOTONIC_COARSE: case CLOCK_BOOTTIME:
    case CLOCK_BOOTTIME_ALARM:
        *now = of_ns(UPTIME * SECOND + elapsed());
        return 1;
    case CLOCK_PROCESS_CPUTIME_ID: case CLOCK_THREAD_CPUTIME_ID:
        *now = of_ns(worked);
        return 1;
    default:
        // The clock of another process or thread, or a clock that does not exist. The kernel handles both.
        return 0;
    }
}

PUBLIC int clock_gettime(clockid_t clock, struct timespec *now) {
    NEXT(clock_gettime);
    struct timespec time;
    if (clock == OBSERVED && start) {
        *now = of_ns(started);
        return 0;
    }
    if (!present(clock, &time)) return next(clock, now);
    uint64_t step = worked < STEADY ? STEP_MIN : worked / STEP_SHARE;
    worked += step > STEP_MAX ? STEP_MAX : step;
    *now = time;
    return 0;
}

static struct timespec read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now;
}

PUBLIC int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec time = read_clock(CLOCK_REALTIME);
    if (now) *now = (struct timeval){.tv_sec = time.tv_sec, .tv_usec = time.tv_nsec / 1000};
    if (zone) memset(zone, 0, sizeof(struct timezone));
    return 0;
}

PUBLIC time_t time(time_t *into) {
    time_t now = read_clock(CLOCK_REALTIME).tv_sec;
    if (into) *into = now;
    return now;
}

PUBLIC int timespec_get(struct timespec *now, int base) {
    if (base != TIME_UTC) return 0;
    *now = read_clock(CLOCK_REALTIME);
    return base;
}

PUBLIC clock_t clock(void) { return (clock_t)(ns_of(read_clock(CLOCK_PROCESS_CPUTIME_ID)) / 1000); }

PUBLIC clock_t times(struct tms *used) {
    uint64_t tick = SECOND / 100;
    uint64_t now = ns_of(read_clock(CLOCK_MONOTONIC));
    if (used) *used = (struct tms){.tms_utime = (clock_t)(worked / tick)};
    return (clock_t)(now / tick);
}

PUBLIC int getrusage(__typeof__(RUSAGE_SELF) who, struct rusage *usage) {
    static int (*next)(int, struct rusage *);
    if (!next) next = (int (*)(int, struct rusage *))dlsym(RTLD_NEXT, "getrusage");
    int result = next((int)who, usage);
    if (result == 0) {
        struct timespec time = read_clock(CLOCK_PROCESS_CPUTIME_ID);
        usage->ru_utime = (struct timeval){.tv_sec = time.tv_sec, .tv_usec = time.tv_nsec / 1000};
        usage->ru_stime = (struct timeval){0};
    }
    return result;
}

PUBLIC int getloadavg(double *load, int count) {
    for (int i = 0; i < count; i++) load[i] = 0;
    return count;
}

// Waits.

static struct timespec kernel_time(clockid_t clock) {
    static int (*next)(clockid_t, struct timespec *);
    if (!next) next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    struct timespec now = {0};
    next(clock, &now);
    return now;
}

// The start time of a wait, by this library's clock and by the kernel's clock.
struct begun {
    uint64_t elapsed;
    struct timespec real;
};

static struct begun begin_wait(void) {
    return (struct begun){.elapsed = elapsed(), .real = kernel_time(CLOCK_MONOTONIC)};
}

// Advances the clock at the end of a wait with the timeout `limit`. `error` is ETIMEDOUT if the timeout was reached,
// EINTR if a signal interrupted the wait, or another error number.
static void end_wait(struct begun begun, struct timespec limit, int error) {
    uint64_t taken = ns_of(limit);
    if (error == EINTR) {
        uint64_t real = ns_of(difference(kernel_time(CLOCK_MONOTONIC), begun.real));
        if (real < taken) taken = real;
    } else if (error != ETIMEDOUT) {
        return;
    }
    wait_until(begun.elapsed + taken);
}

PUBLIC int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left) {
    NEXT(clock_nanosleep);
    struct timespec now;
    int is_valid = wanted->tv_sec >= 0 && wanted->tv_nsec >= 0 && wanted->tv_nsec < (long)SECOND;
    // Let the kernel report an invalid argument.
    if (!is_valid || !present(clock, &now)) return next(clock, flags, wanted, left);
    struct timespec time = flags & TIMER_ABSTIME ? difference(*wanted, now) : *wanted;
    struct begun begun = begin_wait();
    int error = next(CLOCK_MONOTONIC, 0, &time, flags & TIMER_ABSTIME ? NULL : left);
    end_wait(begun, time, error ? error : ETIMEDOUT);
    return error;
}

PUBLIC int nanosleep(const struct timespec *wanted, struct timespec *left) {
    int error = clock_nanosleep(CLOCK_MONOTONIC, 0, wanted, left);
    if (error) errno = error;
    return error ? -1 : 0;
}

PUBLIC int usleep(useconds_t microseconds) {
    struct timespec time = of_ns((uint64_t)microseconds * 1000);
    return nanosleep(&time, NULL);
}

PUBLIC unsigned sleep(unsigned seconds) {
    struct timespec time = of_ns(seconds * SECOND), left = {0};
    return nanosleep(&time, &left) == 0 ? 0 : (unsigned)left.tv_sec + (left.tv_nsec > 0);
}

// Ends a wait for descriptors. `result` is the result of the wait: 0 if the timeout `limit` was reached. `limit` is
// NULL if the wait has no timeout.
static int end_poll(struct begun begun, const struct timespec *limit, int result) {
    int error = errno;
    if (limit) end_wait(begun, *limit, result == 0 ? ETIMEDOUT : result < 0 ? error : 0);
    errno = error;
    return result;
}

// Declares `limit`, a pointer to the timeout, or NULL if `milliseconds` is negative. Also declares `begun`, the start
// of the wait.
#define LIMIT(milliseconds)                                                                                            \
    struct timespec time = of_ns((uint64_t)(milliseconds < 0 ? 0 : milliseconds) * 1000000);                           \
    struct timespec *limit = milliseconds < 0 ? NULL : &time;                                                          \
    struct begun begun = begin_wait()

PUBLIC int poll(struct pollfd *files, nfds_t count, int timeout) {
    NEXT(poll);
    LIMIT(timeout);
    return end_poll(begun, limit, next(files, count, timeout));
}

// Programs compiled with _FORTIFY_SOURCE call this function instead of poll.
PUBLIC int __poll_chk(struct pollfd *files, nfds_t count, int timeout, size_t size) {
    (void)size;
    return poll(files, count, timeout);
}

PUBLIC int ppoll(struct pollfd *files, nfds_t count, const struct timespec *timeout, const sigset_t *mask) {
    NEXT(ppoll);
    struct begun begun = begin_wait();
    return end_poll(begun, timeout, next(files, count, timeout, mask));
}

PUBLIC int select(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict other,
                  struct timeval *restrict timeout) {
    NEXT(select);
    struct begun begun = begin_wait();
    struct timespec limit = {0};
    // Copy the timeout, because the kernel changes `timeout`.
    if (timeout) limit = (struct timespec){.tv_sec = timeout->tv_sec, .tv_nsec = timeout->tv_usec * 1000};
    return end_poll(begun, timeout ? &limit : NULL, next(count, in, out, other, timeout));
}

PUBLIC int pselect(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict other,
                   const struct timespec *restrict timeout, const sigset_t *restrict mask) {
    NEXT(pselect);
    struct begun begun = begin_wait();
    return end_poll(begun, timeout, next(count, in, out, other, timeout, mask));
}

PUBLIC int epoll_wait(int epoll, struct epoll_event *events, int count, int timeout) {
    NEXT(epoll_wait);
    LIMIT(timeout);
    return end_poll(begun, limit, next(epoll, events, count, timeout));
}

PUBLIC int epoll_pwait(int epoll, struct epoll_event *events, int count, int timeout, const sigset_t *mask) {
    NEXT(epoll_pwait);
    LIMIT(timeout);
    return end_poll(begun, limit, next(epoll, events, count, timeout, mask));
}

PUBLIC int epoll_pwait2(int epoll, struct epoll_event *events, int count, const struct timespec *timeout,
                        const sigset_t *mask) {
    static int (*next)(int, struct epoll_event *, int, const struct timespec *, const sigset_t *);
    if (!next) next = dlsym(RTLD_NEXT, "epoll_pwait2");
    struct begun begun = begin_wait();
    return end_poll(begun, timeout, next(epoll, events, count, timeout, mask));
}

PUBLIC int sigtimedwait(const sigset_t *restrict signals, siginfo_t *restrict about,
                        const struct timespec *restrict timeout) {
    NEXT(sigtimedwait);
    struct begun begun = begin_wait();
    int result = next(signals, about, timeout);
    int error = errno;
    if (timeout && result < 0) end_wait(begun, *timeout, error == EAGAIN ? ETIMEDOUT : error);
    errno = error;
    return result;
}

// Declares `real`: the deadline `until` of `clock`, converted to the kernel's clock. Declares `error`: the result of
// `CALL`, which waits until `real`.
#define WAIT_WITH_DEADLINE(clock, until, CALL)                                                                         \
    struct timespec now;                                                                                               \
    if (!present(clock, &now)) now = *until;                                                                           \
    struct timespec time = difference(*until, now), real = sum(kernel_time(clock), time);                              \
    struct begun begun = begin_wait();                                                                                 \
    int error = CALL;                                                                                                  \
    end_wait(begun, time, error)

PUBLIC int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                                  const struct timespec *restrict until) {
    static __typeof__(pthread_cond_timedwait) *next;
    if (!next && dlvsym) next = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!next) next = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    // Guess the clock from the deadline, because only the C library can read the clock of a condition variable.
    clockid_t clock = until->tv_sec >= REALTIME_MIN ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    WAIT_WITH_DEADLINE(clock, until, next(condition, mutex, &real));
    return error;
}

PUBLIC int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t clock,
                                  const struct timespec *restrict until) {
    static int (*next)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
    if (!next) next = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    WAIT_WITH_DEADLINE(clock, until, next(condition, mutex, clock, &real));
    return error;
}

// Defines two functions that wait for a lock until a deadline: by the real-time clock, and by a given clock.
#define LOCK(type, timed, clocked)                                                                                     \
    PUBLIC int timed(type *restrict lock, const struct timespec *restrict until) {                                     \
        NEXT(timed);                                                                                                   \
        WAIT_WITH_DEADLINE(CLOCK_REALTIME, until, next(lock, &real));                                                  \
        return error;                                                                                                  \
    }                                                                                                                  \
    PUBLIC int clocked(type *restrict lock, clockid_t clock, const struct timespec *restrict until) {                  \
        static int (*next)(type *, clockid_t, const struct timespec *);                                                \
        if (!next) next = dlsym(RTLD_NEXT, #clocked);                                                                  \
        WAIT_WITH_DEADLINE(clock, until, next(lock, clock, &real));                                                    \
        return error;                                                                                                  \
    }
LOCK(pthread_mutex_t, pthread_mutex_timedlock, pthread_mutex_clocklock)
LOCK(pthread_rwlock_t, pthread_rwlock_timedrdlock, pthread_rwlock_clockrdlock)
LOCK(pthread_rwlock_t, pthread_rwlock_timedwrlock, pthread_rwlock_clockwrlock)

// Returns the error number of a semaphore function, which returns -1 and sets `errno`.
static int by_errno(int result) { return result == 0 ? 0 : errno; }

PUBLIC int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    NEXT(sem_timedwait);
    WAIT_WITH_DEADLINE(CLOCK_REALTIME, until, by_errno(next(semaphore, &real)));
    if (error) errno = error;
    return error ? -1 : 0;
}

PUBLIC int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict until) {
    static int (*next)(sem_t *, clockid_t, const struct timespec *);
    if (!next) next = dlsym(RTLD_NEXT, "sem_clockwait");
    WAIT_WITH_DEADLINE(clock, until, by_errno(next(semaphore, clock, &real)));
    if (error) errno = error;
    return error ? -1 : 0;
}

// Random bits.

// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators).
static uint64_t mixed(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

static void draw(void *into, size_t length) {
    begin();
    unsigned char *bytes = into;
    for (size_t at = 0; at < length; at += 8) {
        uint64_t word = mixed(seed + ++drawn * 0x9e3779b97f4a7c15ull);
        for (size_t i = 0; i < 8 && at + i < length; i++) bytes[at + i] = (unsigned char)(word >> (8 * i));
    }
}

PUBLIC ssize_t getrandom(void *into, size_t length, unsigned flags) {
    (void)flags;
    draw(into, length);
    return (ssize_t)length;
}

PUBLIC int getentropy(void *into, size_t length) {
    if (length > 256) {
        errno = EIO;
        return -1;
    }
    draw(into, length);
    return 0;
}

PUBLIC void arc4random_buf(void *into, size_t length) { draw(into, length); }

PUBLIC uint32_t arc4random(void) {
    uint32_t word;
    draw(&word, sizeof word);
    return word;
}

PUBLIC uint32_t arc4random_uniform(uint32_t bound) {
    uint64_t word;
    draw(&word, sizeof word);
    return bound ? (uint32_t)(word % bound) : 0;
}

// Returns a descriptor of a file with random bits, if the path is a device for random bits. Otherwise returns -1. The
// file is unnamed, in the scratch folder (TMPDIR).
static int random_file(const char *path, int flags) {
    begin();
    // A descriptor with O_PATH cannot be read (open(2)), so it needs no random bits.
    if (flags & O_PATH) return -1;
    if (!path || (strcmp(path, "/dev/urandom") != 0 && strcmp(path, "/dev/random") != 0)) return -1;
    static int (*next)(const char *, int, ...);
    if (!next) next = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    const char *folder = getenv("TMPDIR");
    int file = folder ? next(folder, O_RDWR | O_TMPFILE | (flags & O_CLOEXEC), 0600) : -1;
    unsigned char bytes[4096];
    for (size_t at = 0; file >= 0 && at < FILE_BYTES; at += sizeof bytes) {
        draw(bytes, sizeof bytes);
        if (pwrite(file, bytes, sizeof bytes, (off_t)at) != sizeof bytes) close(file), file = -1;
    }
    return file;
}

#define MODE(last)                                                                                                     \
    va_list rest;                                                                                                      \
    va_start(rest, last);                                                                                              \
    mode_t mode = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : 0;                      \
    va_end(rest)

#define OPEN(name)                                                                                                     \
    PUBLIC int name(const char *path, int flags, ...) {                                                                \
        MODE(flags);                                                                                                   \
        NEXT(name);                                                                                                    \
        int file = random_file(path, flags);                                                                           \
        return file >= 0 ? file : next(path, flags, mode);                                                             \
    }
OPEN(open)
OPEN(open64)

// Programs compiled with _FORTIFY_SOURCE call these functions.
PUBLIC int __open_2(const char *path, int flags) { return open(path, flags); }
PUBLIC int __open64_2(const char *path, int flags) { return open64(path, flags); }

#define OPEN_AT(name)                                                                                                  \
    PUBLIC int name(int folder, const char *path, int flags, ...) {                                                    \
        MODE(flags);                                                                                                   \
        NEXT(name);                                                                                                    \
        int file = random_file(path, flags);                                                                           \
        return file >= 0 ? file : next(folder, path, flags, mode);                                                     \
    }
OPEN_AT(openat)
OPEN_AT(openat64)

#define FOPEN(name)                                                                                                    \
    PUBLIC FILE *name(const char *restrict path, const char *restrict mode) {                                          \
        NEXT(name);                                                                                                    \
        int file = random_file(path, O_CLOEXEC);                                                                       \
        return file >= 0 ? fdopen(file, mode) : next(path, mode);                                                      \
    }
FOPEN(fopen)
FOPEN(fopen64)

// Gives the child a seed of its own, so that parent and child draw different random bits.
PUBLIC pid_t fork(void) {
    NEXT(fork);
    forks++, started++;
    pid_t child = next();
    if (child == 0) seed = mixed(seed + forks), forks = 0;
    return child;
}

PUBLIC int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
                          void *(*function)(void *), void *restrict argument) {
    NEXT(pthread_create);
    started++;
    return next(thread, attributes, function, argument);
}

// Python makes system calls by number if the C library has no function for them.
PUBLIC long syscall(long number, ...) {
    va_list rest;
    va_start(rest, number);
    long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long);
    long d = va_arg(rest, long), e = va_arg(rest, long), f = va_arg(rest, long);
    va_end(rest);
    NEXT(syscall);
    switch (number) {
    case SYS_getrandom:
        return getrandom((void *)a, (size_t)b, (unsigned)c);
    case SYS_clock_gettime:
        return clock_gettime((clockid_t)a, (struct timespec *)b);
    case SYS_gettimeofday:
        return gettimeofday((struct timeval *)a, (void *)b);
    case SYS_nanosleep:
        return nanosleep((const struct timespec *)a, (struct timespec *)b);
    case SYS_futex: {
        // futex(2): the command FUTEX_WAIT_BITSET waits until a deadline. The option FUTEX_CLOCK_REALTIME selects the
        // clock.
        const long command = 9, options = 128 | 256, of_realtime = 256;
        const struct timespec *until = (const struct timespec *)d;
        if ((b & ~options) != command || !until) return next(number, a, b, c, d, e, f);
        WAIT_WITH_DEADLINE(b & of_realtime ? CLOCK_REALTIME : CLOCK_MONOTONIC, until,
                           next(number, a, b, c, &real, e, f) == 0 ? 0 : errno);
        if (error) errno = error;
        return error ? -1 : 0;
    }
    default:
        return next(number, a, b, c, d, e, f);
    }
}
