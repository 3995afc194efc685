/* Pages and sizes that are not durable. All functions here are called with the lock held.

   A page has a slot for each content that a sync under way may still make durable; the slot with the lowest `first`
   holds the content that is certainly durable. */

#include "shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUCKETS 65536
#define NONE -1

struct file {
    uint64_t inode;
    int32_t first_slot;
    int syncs;               /* under way */
    uint64_t syncs_began;    /* generation at which the last one began */
    int mapped;              /* descriptor of a mapped file, or NONE */
    struct file *next;
};

static struct file *files[BUCKETS];
static int32_t buckets[BUCKETS], *next_in_bucket, *next_in_file, *previous_in_file;
static int32_t free_slots;
static int syncs_of_everything;
static uint64_t syncs_of_everything_began;

static uint32_t bucket_of(uint64_t inode, int64_t page)
{
    uint64_t mixed = (inode * 0x9E3779B97F4A7C15u) ^ ((uint64_t)page * 0xC2B2AE3D27D4EB4Fu);
    return (uint32_t)(mixed >> 40) % BUCKETS;
}

struct file *file_of(uint64_t inode)
{
    struct file *file = files[bucket_of(inode, 0)];
    while (file != NULL && file->inode != inode)
        file = file->next;
    return file;
}

struct file *track_file(uint64_t inode)
{
    struct file *file = file_of(inode);
    if (file == NULL) {
        struct file **bucket = &files[bucket_of(inode, 0)];
        file = malloc(sizeof *file);
        if (file == NULL)
            abort();
        *file = (struct file){inode, NONE, 0, 0, NONE, *bucket};
        *bucket = file;
    }
    return file;
}

static void link_slot(struct file *file, int32_t at)
{
    uint32_t bucket = bucket_of(slots[at].inode, slots[at].page);
    next_in_bucket[at] = buckets[bucket];
    buckets[bucket] = at;
    previous_in_file[at] = NONE;
    next_in_file[at] = file->first_slot;
    if (file->first_slot != NONE)
        previous_in_file[file->first_slot] = at;
    file->first_slot = at;
}

static void free_slot(struct file *file, int32_t at)
{
    int32_t *link = &buckets[bucket_of(slots[at].inode, slots[at].page)];
    while (*link != at)
        link = &next_in_bucket[*link];
    *link = next_in_bucket[at];
    if (previous_in_file[at] == NONE)
        file->first_slot = next_in_file[at];
    else
        next_in_file[previous_in_file[at]] = next_in_file[at];
    if (next_in_file[at] != NONE)
        previous_in_file[next_in_file[at]] = previous_in_file[at];
    slots[at].state = FREE;
    next_in_file[at] = free_slots;
    free_slots = at;
}

/* Treat the pages of a file as written back by the kernel, which may do this at any time. */
static void write_back(struct file *file)
{
    for (int32_t at = file->first_slot, next; at != NONE; at = next) {
        next = next_in_file[at];
        if (slots[at].state == DIRTY && slots[at].last != STILL_CHANGING) {
            free_slot(file, at);
            atomic_fetch_add(&control->written_back, 1);
        }
    }
}

static int32_t take_slot(void)
{
    if (free_slots == NONE && memory->slots_used == memory->slots)
        for (uint32_t bucket = 0; bucket < BUCKETS; bucket++)
            for (struct file *file = files[bucket]; file != NULL; file = file->next)
                write_back(file);
    if (free_slots != NONE) {
        int32_t at = free_slots;
        free_slots = next_in_file[at];
        return at;
    }
    if (memory->slots_used == memory->slots) {
        note_unsupported_call("more mapped or lost pages than it remembers");
        return NONE;
    }
    return (int32_t)memory->slots_used++;
}

int open_pages(void)
{
    next_in_bucket = malloc(memory->slots * sizeof *next_in_bucket);
    next_in_file = malloc(memory->slots * sizeof *next_in_file);
    previous_in_file = malloc(memory->slots * sizeof *previous_in_file);
    if (next_in_bucket == NULL || next_in_file == NULL || previous_in_file == NULL)
        return -1;
    memset(buckets, NONE, sizeof buckets);
    free_slots = NONE;
    for (int32_t at = (int32_t)memory->slots_used - 1; at >= 0; at--) {
        if (slots[at].state == FREE) {
            next_in_file[at] = free_slots;
            free_slots = at;
            continue;
        }
        if (slots[at].last == STILL_CHANGING) /* mapped by an earlier process */
            slots[at].last = memory->generation;
        link_slot(track_file(slots[at].inode), at);
    }
    return 0;
}

static int32_t newest_slot(uint64_t inode, int64_t page)
{
    int32_t newest = NONE;
    for (int32_t at = buckets[bucket_of(inode, page)]; at != NONE; at = next_in_bucket[at])
        if (slots[at].inode == inode && slots[at].page == page)
            if (newest == NONE || slots[at].first > slots[newest].first)
                newest = at;
    return newest;
}

/* Return a slot for the present content; NONE if a kept slot suffices. `now` is the generation of the write. */
static int32_t slot_for(struct file *file, int64_t page, uint64_t now)
{
    int32_t at = newest_slot(file->inode, page);
    uint64_t began = file->syncs_began > syncs_of_everything_began ? file->syncs_began : syncs_of_everything_began;
    if (at != NONE && slots[at].last > began) {
        if (slots[at].last != STILL_CHANGING)
            slots[at].last = now;
        slots[at].state = DIRTY;
        return NONE;
    }
    at = take_slot();
    if (at != NONE)
        slots[at] = (struct slot){file->inode, page, now, now, 0, FREE, 1};
    return at;
}

static void enter_slot(struct file *file, int32_t at)
{
    atomic_signal_fence(memory_order_seq_cst); /* a SIGKILL here leaves a free slot */
    slots[at].state = DIRTY;
    link_slot(file, at);
}

static int readable(int fd)
{
    char path[64];
    if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_WRONLY)
        return fd;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return REAL(open)(path, O_RDONLY | O_CLOEXEC);
}

/* Record the content of [from, to) of a file of this size; call this before the content changes. */
void record_range(struct file *file, int fd, off_t from, off_t to, off_t size)
{
    uint64_t now = ++memory->generation;
    int reader = NONE;
    for (int64_t page = from / PAGE_BYTES; page * PAGE_BYTES < to; page++) {
        int32_t at = slot_for(file, page, now);
        if (at == NONE)
            continue;
        if (page * PAGE_BYTES < size) {
            char *image = images + (int64_t)at * PAGE_BYTES;
            if (reader == NONE)
                reader = readable(fd);
            ssize_t got = REAL(pread)(reader, image, PAGE_BYTES, page * PAGE_BYTES);
            if (got < 0)
                note_unsupported_call("a page that cannot be read before it is written");
            memset(image + (got < 0 ? 0 : got), 0, PAGE_BYTES - (got < 0 ? 0 : got));
            slots[at].is_zero = 0;
        }
        enter_slot(file, at);
    }
    if (reader != NONE && reader != fd)
        close(reader);
}

/* A durably truncated file has no content beyond its end, even in slots from before. */
static void cut_images(struct file *file, off_t size)
{
    for (int32_t at = file->first_slot; at != NONE; at = next_in_file[at]) {
        off_t inside = size - slots[at].page * PAGE_BYTES;
        if (inside <= 0)
            slots[at].is_zero = 1;
        else if (inside < PAGE_BYTES && !slots[at].is_zero)
            memset(images + (int64_t)at * PAGE_BYTES + inside, 0, PAGE_BYTES - inside);
    }
}

/* Record the size of a file; call this before the size changes. */
void record_size(struct file *file, off_t size)
{
    if (newest_slot(file->inode, WHOLE_SIZE) == NONE)
        cut_images(file, size);
    int32_t at = slot_for(file, WHOLE_SIZE, ++memory->generation);
    if (at != NONE) {
        slots[at].size = size;
        enter_slot(file, at);
    }
}

int mapping_of(const struct file *file)
{
    return file->mapped;
}

void note_mapped(struct file *file, int fd, off_t size)
{
    if (file->mapped == NONE)
        file->mapped = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    record_range(file, fd, 0, size, size);
    for (int32_t at = file->first_slot; at != NONE; at = next_in_file[at])
        if (slots[at].page != WHOLE_SIZE)
            slots[at].last = STILL_CHANGING;
}

void forget_file(uint64_t inode)
{
    struct file **link = &files[bucket_of(inode, 0)];
    while (*link != NULL && (*link)->inode != inode)
        link = &(*link)->next;
    struct file *file = *link;
    if (file == NULL)
        return;
    while (file->first_slot != NONE)
        free_slot(file, file->first_slot);
    if (file->syncs > 0)
        return; /* a sync under way uses the file */
    if (file->mapped != NONE)
        close(file->mapped);
    *link = file->next;
    free(file);
}

struct covered begin_sync(const struct scope *scope)
{
    struct covered covered = {memory->generation, last_sequence(), NULL, 0};
    struct stat status;
    if (scope->file != NULL) {
        scope->file->syncs++;
        scope->file->syncs_began = covered.generation;
        if (scope->file->mapped != NONE && fstat(scope->file->mapped, &status) == 0) {
            covered.mapped_pages = (status.st_size + PAGE_BYTES - 1) / PAGE_BYTES;
            covered.mapped = calloc(covered.mapped_pages + 1, PAGE_BYTES);
            if (covered.mapped == NULL || REAL(pread)(scope->file->mapped, covered.mapped, status.st_size, 0) < 0)
                covered.mapped_pages = 0;
        }
    }
    if (scope->is_everything) {
        syncs_of_everything++;
        syncs_of_everything_began = covered.generation;
    }
    return covered;
}

/* A page released for one generation is durable at least since then: older slots are dropped. */
static void settle(struct file *file, uint64_t generation)
{
    for (int32_t at = file->first_slot, next; at != NONE; at = next) {
        next = next_in_file[at];
        if (slots[at].state == DIRTY && slots[at].last <= generation) {
            uint64_t first = slots[at].first;
            int64_t page = slots[at].page;
            free_slot(file, at);
            for (int32_t older = buckets[bucket_of(file->inode, page)], after; older != NONE; older = after) {
                after = next_in_bucket[older];
                if (slots[older].inode == file->inode && slots[older].page == page && slots[older].first < first) {
                    if (older == next)
                        next = next_in_file[older];
                    free_slot(file, older);
                }
            }
        }
    }
}

static void settle_mapped(struct file *file, const struct covered *covered)
{
    for (int64_t page = 0; page < covered->mapped_pages; page++) {
        int32_t at = newest_slot(file->inode, page);
        if (at != NONE && slots[at].last == STILL_CHANGING) {
            memcpy(images + (int64_t)at * PAGE_BYTES, covered->mapped + page * PAGE_BYTES, PAGE_BYTES);
            slots[at].is_zero = 0;
        }
    }
}

/* The kernel marks the pages of a failed sync as clean; the file's size stays dirty. */
static void lose_writeback(struct file *file, uint64_t generation)
{
    for (int32_t at = file->first_slot; at != NONE; at = next_in_file[at])
        if (slots[at].page != WHOLE_SIZE && slots[at].last <= generation)
            slots[at].state = LOST;
}

void end_sync(const struct scope *scope, struct covered *covered, int is_good)
{
    struct file *file = scope->file;
    if (file != NULL) {
        if (--file->syncs == 0)
            file->syncs_began = 0;
        if (is_good) {
            settle(file, covered->generation);
            settle_mapped(file, covered);
        } else
            lose_writeback(file, covered->generation);
        free(covered->mapped);
    }
    if (scope->is_everything) {
        if (--syncs_of_everything == 0)
            syncs_of_everything_began = 0;
        for (uint32_t bucket = 0; bucket < BUCKETS; bucket++)
            for (file = files[bucket]; file != NULL; file = file->next)
                (is_good ? settle : lose_writeback)(file, covered->generation);
    }
    if (is_good && (scope->directory != 0 || scope->is_everything))
        settle_names(scope->directory, scope->is_everything, covered->sequence);
}
