/* Wrappers of C library calls that change the content of files: first record, then call.

   An unsupported call that changes a file is recorded (`note_unsupported_call`); a power loss can then not be simulated. */

#include "shim.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

/* Return the file of the descriptor, with the lock held; NULL if outside of the directory. */
static struct file *file_behind(int fd, struct stat *status)
{
    if (!is_owner_already() || fstat(fd, status) || !S_ISREG(status->st_mode) || status->st_dev != root_device)
        return NULL;
    take_lock();
    struct file *file = file_of(status->st_ino);
    if (file == NULL || fstat(fd, status)) { /* read its size again, now under the lock */
        release_lock();
        return NULL;
    }
    return file;
}

/* On a full disk only allocated space can be written. */
static int has_room(int fd, off_t from, off_t to, off_t size)
{
    if (!atomic_load(&control->is_full))
        return 1;
    off_t end = to < size ? to : size, was = lseek(fd, 0, SEEK_CUR), hole = end;
    if (from < end) {
        hole = lseek(fd, from, SEEK_HOLE);
        lseek(fd, was, SEEK_SET);
    }
    if (hole >= end && to <= (size + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES)
        return 1;
    atomic_fetch_add(&control->refused, 1);
    errno = ENOSPC;
    return 0;
}

/* Record the bytes that a write will change; returns false, with the lock released, if there is no room. */
static int may_write(struct file *file, int fd, off_t from, size_t count, off_t size)
{
    if (!has_room(fd, from, from + count, size)) {
        release_lock();
        return 0;
    }
    record_range(file, fd, from, from + count, size);
    if (from + (off_t)count > size)
        record_size(file, size);
    return 1;
}

static size_t length_of(const struct iovec *parts, int count)
{
    size_t length = 0;
    for (int part = 0; part < count; part++)
        length += parts[part].iov_len;
    return length;
}

static off_t position_of(int fd, off_t size)
{
    return fcntl(fd, F_GETFL) & O_APPEND ? size : lseek(fd, 0, SEEK_CUR);
}

#define WRITING(fd, from, count, call)                                   \
    struct stat status;                                                  \
    struct file *file = file_behind(fd, &status);                        \
    if (file == NULL)                                                    \
        return call;                                                     \
    if (!may_write(file, fd, from, count, status.st_size))               \
        return -1;                                                       \
    ssize_t written = call;                                              \
    release_lock();                                                            \
    return written

ssize_t write(int fd, const void *bytes, size_t count)
{
    WRITING(fd, position_of(fd, status.st_size), count, REAL(write)(fd, bytes, count));
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    WRITING(fd, position_of(fd, status.st_size), length_of(parts, count), REAL(writev)(fd, parts, count));
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t from)
{
    WRITING(fd, from, count, REAL(pwrite)(fd, bytes, count, from));
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t from)
{
    return pwrite(fd, bytes, count, from);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t from)
{
    WRITING(fd, from, length_of(parts, count), REAL(pwritev)(fd, parts, count, from));
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t from)
{
    return pwritev(fd, parts, count, from);
}

ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t from, int flags)
{
    if (flags & (RWF_DSYNC | RWF_SYNC))
        note_unsupported_call("pwritev2 with RWF_DSYNC");
    WRITING(fd, from < 0 ? position_of(fd, status.st_size) : from, length_of(parts, count),
            REAL(pwritev2)(fd, parts, count, from, flags));
}

ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t from, int flags)
{
    return pwritev2(fd, parts, count, from, flags);
}

/* Truncated holes need no slot: they read as zeros again if the file grows. */
static int resize(struct file *file, int fd, off_t to, off_t size)
{
    off_t was = lseek(fd, 0, SEEK_CUR);
    for (off_t from = to, end; from < size; from = end) {
        from = lseek(fd, from, SEEK_DATA);
        if (from < 0)
            break;
        end = lseek(fd, from, SEEK_HOLE);
        record_range(file, fd, from, end < size ? end : size, size);
    }
    lseek(fd, was, SEEK_SET);
    if (to != size)
        record_size(file, size);
    if (to > size && mapping_of(file) >= 0)
        record_range(file, fd, size, to, size);
    return REAL(ftruncate)(fd, to);
}

int ftruncate(int fd, off_t to)
{
    struct stat status;
    struct file *file = file_behind(fd, &status);
    if (file == NULL)
        return REAL(ftruncate)(fd, to);
    int result = resize(file, fd, to, status.st_size);
    release_lock();
    return result;
}

int ftruncate64(int fd, off64_t to)
{
    return ftruncate(fd, to);
}

int truncate(const char *path, off_t to)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int result = ftruncate(fd, to), kept = errno;
    close(fd);
    errno = kept;
    return result;
}

int truncate64(const char *path, off64_t to)
{
    return truncate(path, to);
}

int fallocate(int fd, int mode, off_t from, off_t length)
{
    struct stat status;
    struct file *file = file_behind(fd, &status);
    if (file == NULL)
        return REAL(fallocate)(fd, mode, from, length);
    if (mode != 0)
        note_unsupported_call("fallocate with a mode");
    int result = -1;
    if (has_room(fd, from, from + length, status.st_size)) {
        if (from + length > status.st_size)
            record_size(file, status.st_size);
        result = REAL(fallocate)(fd, mode, from, length);
    }
    release_lock();
    return result;
}

int fallocate64(int fd, int mode, off64_t from, off64_t length)
{
    return fallocate(fd, mode, from, length);
}

int posix_fallocate(int fd, off_t from, off_t length)
{
    int kept = errno, error = fallocate(fd, 0, from, length) ? errno : 0;
    errno = kept;
    return error;
}

int posix_fallocate64(int fd, off64_t from, off64_t length)
{
    return posix_fallocate(fd, from, length);
}

/* A mapped file may change at any time from now on. */
void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t from)
{
    struct stat status;
    int may_change = fd >= 0 && (flags & MAP_TYPE) != MAP_PRIVATE && (protection & PROT_WRITE);
    struct file *file = may_change ? file_behind(fd, &status) : NULL;
    if (file != NULL) {
        note_mapped(file, fd, status.st_size);
        release_lock();
    }
    return REAL(mmap)(address, length, protection, flags, fd, from);
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t from)
{
    return mmap(address, length, protection, flags, fd, from);
}

#define BEYOND(out, name, call)                    \
    struct stat status;                            \
    if (file_behind(out, &status) != NULL) {       \
        note_unsupported_call(name);                     \
        release_lock();                                  \
    }                                              \
    return call

ssize_t sendfile(int out, int in, off_t *from, size_t count)
{
    BEYOND(out, "sendfile", REAL(sendfile)(out, in, from, count));
}

ssize_t sendfile64(int out, int in, off64_t *from, size_t count)
{
    return sendfile(out, in, from, count);
}

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t count, unsigned flags)
{
    BEYOND(out, "copy_file_range", REAL(copy_file_range)(in, from, out, to, count, flags));
}

ssize_t splice(int in, off64_t *from, int out, off64_t *to, size_t count, unsigned flags)
{
    BEYOND(out, "splice", REAL(splice)(in, from, out, to, count, flags));
}

static int report_full(int result, struct statvfs *told)
{
    if (result == 0 && control != NULL && atomic_load(&control->is_full) == FULL) {
        told->f_bfree = told->f_bavail = 0;
        atomic_fetch_add(&control->reported_full, 1);
    }
    return result;
}

int statvfs(const char *path, struct statvfs *told)
{
    return report_full(REAL(statvfs)(path, told), told);
}

int statvfs64(const char *path, struct statvfs64 *told)
{
    return statvfs(path, (struct statvfs *)told);
}

int fstatvfs(int fd, struct statvfs *told)
{
    return report_full(REAL(fstatvfs)(fd, told), told);
}

int fstatvfs64(int fd, struct statvfs64 *told)
{
    return fstatvfs(fd, (struct statvfs *)told);
}
