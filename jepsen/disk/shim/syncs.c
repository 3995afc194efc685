/* Syncs, which may be delayed, fail or be omitted, and the wait for events, which may stall. */

#include "shim.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLICE_NS 10000000

static int real_sync(int (*real)(int), int fd)
{
    if (real != NULL)
        return real(fd);
    REAL(sync)();
    return 0;
}

/* Length of one sleep: short, so that a delay is counted while it lasts and ends soon on request. */
static int64_t sleep_a_while(int64_t ns, _Atomic int64_t *counter)
{
    int64_t now_ns = ns < SLICE_NS ? ns : SLICE_NS;
    sleep_ns(now_ns);
    atomic_fetch_add(counter, now_ns);
    return now_ns;
}

static void delay(void)
{
    int64_t delay_ns, slept_ns = 0;
    if (atomic_load(&control->sync_delay_ns) > 0)
        atomic_fetch_add(&control->delayed, 1);
    while ((delay_ns = atomic_load(&control->sync_delay_ns)) > slept_ns)
        slept_ns += sleep_a_while(delay_ns - slept_ns, &control->delayed_ns);
}

/* `real` is NULL for a sync of all file systems. */
static int sync_scope(const struct scope *scope, int (*real)(int), int fd)
{
    atomic_fetch_add(&control->syncs, 1);
    if (removes_syncs)
        return 0;
    take_lock();
    struct covered covered = begin_sync(scope);
    release_lock();
    delay();
    int result;
    if (sync_is_to_fail()) {
        atomic_fetch_add(&control->failed, 1);
        errno = EIO;
        result = -1;
    } else
        result = real_sync(real, fd);
    take_lock();
    end_sync(scope, &covered, result == 0);
    release_lock();
    return result;
}

static int sync_descriptor(int (*real)(int), int fd)
{
    struct stat status;
    struct scope scope = {NULL, 0, 0};
    if (control == NULL || fstat(fd, &status) || status.st_dev != root_device || !descriptor_is_below_root(fd) || !is_owner())
        return real(fd);
    if (S_ISDIR(status.st_mode))
        scope.directory = status.st_ino;
    else {
        take_lock();
        scope.file = track_file(status.st_ino);
        release_lock();
    }
    return sync_scope(&scope, real, fd);
}

int fsync(int fd)
{
    return sync_descriptor(REAL(fsync), fd);
}

int fdatasync(int fd)
{
    return sync_descriptor(REAL(fdatasync), fd);
}

int syncfs(int fd)
{
    struct stat status;
    struct scope scope = {NULL, 0, 1};
    if (!is_owner_already() || fstat(fd, &status) || status.st_dev != root_device)
        return REAL(syncfs)(fd);
    return sync_scope(&scope, REAL(syncfs), fd);
}

void sync(void)
{
    struct scope scope = {NULL, 0, 1};
    if (is_owner_already())
        sync_scope(&scope, NULL, 0);
    else
        REAL(sync)();
}

static uint64_t inode_mapped_at(const void *address)
{
    char line[PATH_MAX + 128];
    uint64_t begin, end, inode = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && inode == 0 && fgets(line, sizeof line, maps) != NULL)
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s", &begin, &end) == 2)
            if (begin <= (uintptr_t)address && (uintptr_t)address < end)
                sscanf(line, "%*s %*s %*s %*s %" SCNu64, &inode);
    if (maps != NULL)
        fclose(maps);
    return inode;
}

/* Syncs the whole file, by the descriptor kept for its mapping. */
int msync(void *address, size_t length, int flags)
{
    struct scope scope = {NULL, 0, 0};
    int fd = -1;
    if (is_owner_already() && flags & MS_SYNC) {
        take_lock();
        scope.file = file_of(inode_mapped_at(address));
        fd = scope.file == NULL ? -1 : mapping_of(scope.file);
        release_lock();
    }
    return fd < 0 ? REAL(msync)(address, length, flags) : sync_scope(&scope, REAL(fdatasync), fd);
}

static void stall(void)
{
    if (!is_owner_already() || atomic_load(&control->stall_ns) == 0 || syscall(SYS_gettid) != getpid())
        return;
    int64_t ns = atomic_exchange(&control->stall_ns, 0);
    if (ns > 0)
        atomic_fetch_add(&control->stalls, 1);
    while (ns > 0)
        ns -= sleep_a_while(ns, &control->stalled_ns);
}

int epoll_wait(int fd, struct epoll_event *events, int count, int timeout)
{
    stall();
    return REAL(epoll_wait)(fd, events, count, timeout);
}

int epoll_pwait(int fd, struct epoll_event *events, int count, int timeout, const sigset_t *signals)
{
    stall();
    return REAL(epoll_pwait)(fd, events, count, timeout, signals);
}
