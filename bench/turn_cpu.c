/* CPU time of each turn of a program's main event loop: from the end of one wait for events to the next wait.
   Loaded by LD_PRELOAD; keeps the longest turn in a file of the directory TURN_CPU, which is named by the process id. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct turns {
    uint64_t count, over_5_ms, longest_ns;
};

static struct turns *turns; /* in the file; NULL without one */
static uint64_t began;      /* CPU time of the main thread at the end of the last wait */

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

__attribute__((constructor)) static void open_file(void)
{
    const char *directory = getenv("TURN_CPU");
    char path[4096];
    if (directory == NULL || snprintf(path, sizeof path, "%s/%d", directory, (int)getpid()) >= (int)sizeof path)
        return;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (ftruncate(fd, sizeof *turns) == 0) {
        void *mapped = mmap(NULL, sizeof *turns, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        turns = mapped == MAP_FAILED ? NULL : mapped;
    }
    close(fd);
}

static int counts(void)
{
    return turns != NULL && gettid() == getpid();
}

static void end_turn(void)
{
    uint64_t used = cpu_ns() - began;
    if (began == 0)
        return;
    turns->count++;
    if (used > turns->longest_ns)
        turns->longest_ns = used;
    if (used > 5000000)
        turns->over_5_ms++;
}

int epoll_pwait(int fd, struct epoll_event *events, int count, int timeout, const sigset_t *signals)
{
    static int (*real)(int, struct epoll_event *, int, int, const sigset_t *);
    int counted = counts();
    if (real == NULL)
        real = (int (*)(int, struct epoll_event *, int, int, const sigset_t *))dlsym(RTLD_NEXT, "epoll_pwait");
    if (counted)
        end_turn();
    int ready = real(fd, events, count, timeout, signals);
    if (counted)
        began = cpu_ns();
    return ready;
}

int epoll_wait(int fd, struct epoll_event *events, int count, int timeout)
{
    return epoll_pwait(fd, events, count, timeout, NULL);
}
