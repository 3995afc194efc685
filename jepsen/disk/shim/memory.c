/* State of this process: the control block, the directory, the mapped memory and its one lock. */

#include "shim.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 65536
#define OPS 4096

struct control *control;
int removes_syncs;
char root[PATH_MAX], unlinked[PATH_MAX];
dev_t root_device;
struct memory *memory;
struct slot *slots;
struct op *ops;
char *images;

static char memory_path[PATH_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum { UNDECIDED, OWNER, STRANGER } role;

static void *map_file(int fd, size_t bytes)
{
    void *at = REAL(mmap)(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void give_up(const char *what)
{
    dprintf(2, "jepsen disk: %s: %s\n", what, strerror(errno));
    _exit(125);
}

/* A forked child inherits the mapping and the kernel's lock, but is not the owner. */
static void reset_child(void)
{
    pthread_mutex_init(&lock, NULL);
    role = UNDECIDED;
}

__attribute__((constructor)) static void begin(void)
{
    const char *directory = getenv("JEPSEN_DISK_DATA"), *state = getenv("JEPSEN_DISK_STATE");
    if (directory == NULL || state == NULL)
        return;
    struct stat status;
    char path[PATH_MAX];
    if (realpath(directory, root) == NULL || stat(root, &status))
        give_up(directory);
    root_device = status.st_dev;
    snprintf(unlinked, sizeof unlinked, "%s/unlinked", state);
    snprintf(memory_path, sizeof memory_path, "%s/memory", state);
    snprintf(path, sizeof path, "%s/control", state);
    int fd = REAL(open)(path, O_RDWR | O_CLOEXEC);
    struct control *found = fd < 0 ? NULL : map_file(fd, sizeof *found);
    if (found == NULL || memcmp(found->magic, "jdctrl01", 8))
        give_up(path);
    close(fd);
    removes_syncs = getenv("JEPSEN_DISK_NO_SYNC") != NULL;
    pthread_atfork(NULL, NULL, reset_child);
    control = found;
}

/* The kernel holds the lock on the memory's file, and releases it when the owner has ended. */
static void claim_memory(void)
{
    size_t slots_at = PAGE_BYTES, ops_at = slots_at + SLOTS * sizeof(struct slot);
    size_t images_at = (ops_at + OPS * sizeof(struct op) + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    size_t bytes = images_at + (size_t)SLOTS * PAGE_BYTES;
    int fd = REAL(open)(memory_path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        give_up(memory_path);
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        close(fd);
        role = STRANGER;
        atomic_fetch_add(&control->strangers, 1);
        return;
    }
    if (REAL(ftruncate)(fd, bytes) || (memory = map_file(fd, bytes)) == NULL)
        give_up(memory_path);
    slots = (struct slot *)((char *)memory + slots_at);
    ops = (struct op *)((char *)memory + ops_at);
    images = (char *)memory + images_at;
    struct memory fresh = {"jdmemo01", SLOTS, OPS, slots_at, ops_at, images_at, 0, 0, 0};
    if (memory->magic[0] == 0)
        *memory = fresh;
    if (memcmp(memory, &fresh, offsetof(struct memory, slots_used)) || open_pages())
        give_up("the memory is of another version");
    role = OWNER; /* the descriptor stays open and keeps the lock */
}

int is_owner(void)
{
    if (control == NULL)
        return 0;
    if (role == UNDECIDED) {
        take_lock();
        if (role == UNDECIDED)
            claim_memory();
        release_lock();
    }
    return role == OWNER;
}

int is_owner_already(void)
{
    return role == OWNER;
}

void take_lock(void)
{
    pthread_mutex_lock(&lock);
}

void release_lock(void)
{
    int kept = errno;
    pthread_mutex_unlock(&lock);
    errno = kept;
}

int is_below_root(const char *canonical)
{
    size_t length = strlen(root);
    return strncmp(canonical, root, length) == 0 && (canonical[length] == '/' || canonical[length] == 0);
}

int descriptor_is_below_root(int fd)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    /* A file whose name was removed meanwhile is in the graveyard. */
    return is_below_root(path) || strncmp(path, unlinked, strlen(unlinked)) == 0;
}

int sync_is_to_fail(void)
{
    int64_t left = atomic_load(&control->syncs_to_fail);
    while (left > 0 && !atomic_compare_exchange_weak(&control->syncs_to_fail, &left, left - 1))
        ;
    return left != 0;
}

/* By system call, since a preloaded library may change the clocks. */
void sleep_ns(int64_t ns)
{
    struct timespec left = {ns / 1000000000, ns % 1000000000};
    while (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &left, &left) && errno == EINTR)
        ;
}

void note_unsupported_call(const char *call)
{
    if (control->beyond[0] == 0)
        strncpy(control->beyond, call, sizeof control->beyond - 1);
}
