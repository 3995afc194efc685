/* Disk for an unmodified program; on request it loses unsynced writes or fails.

   Loaded by LD_PRELOAD. For files below one directory it records everything that a power loss would undo, in a mapped
   file beside the directory that survives SIGKILL:

     slot   former content of a page of 4 KiB, or former size of a file
     op     former file of a name in a changed directory; removed files are kept in the graveyard

   A successful sync releases the records of changes before its begin. A simulated power loss
   (jepsen/disk/power_loss.py) reverts a random part of the other changes. One process owns the memory: the first one
   that writes or syncs below the directory.

   One lock protects the memory. It is held during each write, so that no sync counts a write that it may not cover. The
   layout of the mapped files is read by jepsen/disk/volatile.py and jepsen/disk/control.py. */

#ifndef JEPSEN_DISK_SHIM_H
#define JEPSEN_DISK_SHIM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define PAGE_BYTES 4096
#define NAME_BYTES 256

/* The wrapped function, which the program calls without the shim. */
#define REAL(name)                                          \
    ({                                                      \
        static __typeof__(&name) real_;                     \
        if (real_ == 0)                                     \
            real_ = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
        real_;                                              \
    })
#define HIDDEN __attribute__((visibility("hidden")))

/* control: written by the harness, counted by the shim; shared by all processes of the node */

enum { FULL = 1, SECRETLY_FULL = 2 };

struct control {
    char magic[8];
    _Atomic int64_t sync_delay_ns;
    _Atomic int64_t syncs_to_fail; /* -1: all */
    _Atomic int64_t is_full; /* FULL: statvfs reports it; SECRETLY_FULL: only writes fail */
    _Atomic int64_t stall_ns; /* duration before the next wait for events */
    _Atomic int64_t syncs, delayed, delayed_ns, failed, refused, stalls, stalled_ns;
    _Atomic int64_t written_back; /* slots released because none was free */
    _Atomic int64_t strangers;    /* processes that wrote below the directory and do not own the memory */
    _Atomic int64_t reported_full;    /* queries of the free space that returned none */
    char beyond[64];              /* a call that the shim does not follow, if there was one */
};

extern HIDDEN struct control *control; /* NULL: the shim is inactive in this process */
extern HIDDEN int removes_syncs;       /* syncs return success and are not made */

HIDDEN int sync_is_to_fail(void);
HIDDEN void sleep_ns(int64_t ns);
HIDDEN void note_unsupported_call(const char *call);

/* the directory, and the owner of the memory */

extern HIDDEN char root[PATH_MAX];  /* canonical */
extern HIDDEN char unlinked[PATH_MAX];
extern HIDDEN dev_t root_device;

HIDDEN int is_owner(void);          /* the first caller becomes owner; false in other processes */
HIDDEN int is_owner_already(void);
HIDDEN int is_below_root(const char *canonical);
HIDDEN int descriptor_is_below_root(int fd);
HIDDEN void take_lock(void);             /* take the lock */
HIDDEN void release_lock(void);           /* release the lock; keeps errno */

/* pages and sizes */

enum { FREE, DIRTY, LOST };         /* LOST: its sync failed; later syncs skip it until it is written again */
enum { WHOLE_SIZE = -1 };           /* page number in a slot for a size */
#define STILL_CHANGING UINT64_MAX   /* mapped into memory: may change at any time */

struct slot {
    uint64_t inode;
    int64_t page;
    uint64_t first, last; /* generations of the first and the last write after the kept content */
    int64_t size;         /* only in a slot for a size */
    uint32_t state;
    uint32_t is_zero; /* the page was beyond the end, or a hole: no content is kept */
};

struct file;
HIDDEN struct file *file_of(uint64_t inode); /* NULL: outside of the directory */
HIDDEN struct file *track_file(uint64_t inode);
HIDDEN void forget_file(uint64_t inode); /* the file is deleted */
HIDDEN void record_range(struct file *file, int fd, off_t from, off_t to, off_t size);
HIDDEN void record_size(struct file *file, off_t size);
HIDDEN void note_mapped(struct file *file, int fd, off_t size);
HIDDEN int mapping_of(const struct file *file); /* a descriptor; -1: not mapped */

struct scope { /* scope of a sync: a file, a directory's names, or everything */
    struct file *file;
    uint64_t directory;
    int is_everything;
};
struct covered { /* state that a sync makes durable */
    uint64_t generation, sequence;
    char *mapped; /* content of a mapped file when the sync began */
    int64_t mapped_pages;
};
HIDDEN struct covered begin_sync(const struct scope *scope);
HIDDEN void end_sync(const struct scope *scope, struct covered *covered, int is_good);

/* names */

struct change {
    uint64_t directory, before; /* former inode of the name; 0: none */
    char name[NAME_BYTES];
};
struct op {
    uint64_t sequence; /* from 1; 0: free */
    uint32_t changes;  /* 1, or 2 of a rename */
    uint32_t unsynced; /* a bit for each change whose directory was not synced */
    uint64_t is_grave; /* the former file of the (last) name is in the graveyard */
    struct change change[2];
};

HIDDEN uint64_t last_sequence(void);
HIDDEN struct op *begin_op(void);        /* a free op; fill it, then call `enter_op` */
HIDDEN void enter_op(struct op *op);
HIDDEN void withdraw_op(struct op *op);  /* the call failed */
HIDDEN void grave_of(const struct op *op, char *path);
HIDDEN void settle_names(uint64_t directory, int is_everything, uint64_t sequence);

struct memory { /* the first page of the mapped file */
    char magic[8];
    uint64_t slots, ops, slots_at, ops_at, images_at;
    uint64_t slots_used;  /* slots beyond were never used */
    uint64_t generation, sequence;
};
extern HIDDEN struct memory *memory;
extern HIDDEN struct slot *slots;
extern HIDDEN struct op *ops;
extern HIDDEN char *images;

HIDDEN int open_pages(void); /* call it after the memory is mapped */

#endif
