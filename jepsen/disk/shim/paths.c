/* Wrappers of C library calls that change names or open files: first record, then call. */

#include "shim.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Resolved path: the canonical directory, the last name, and both together. */
struct place {
    char directory[PATH_MAX], name[NAME_BYTES], path[PATH_MAX + NAME_BYTES];
    uint64_t inode; /* of the file with this name; 0: none */
    uint64_t directory_inode;
    struct stat status;
};

/* Return whether the path is below the directory and this process owns the memory. */
static int find(int at, const char *path, struct place *place)
{
    char whole[2 * PATH_MAX], link[64];
    ssize_t length = 0;
    if (control == NULL || path == NULL || *path == 0)
        return 0;
    if (*path != '/') {
        if (at == AT_FDCWD)
            strcpy(link, "/proc/self/cwd");
        else
            snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        if ((length = readlink(link, whole, PATH_MAX - 1)) < 0)
            return 0;
        whole[length++] = '/';
    }
    snprintf(whole + length, sizeof whole - length, "%s", path);
    for (length = strlen(whole); length > 1 && whole[length - 1] == '/';)
        whole[--length] = 0;
    char *slash = strrchr(whole, '/');
    if (slash == NULL || strlen(slash + 1) >= NAME_BYTES)
        return 0;
    strcpy(place->name, slash + 1);
    slash[slash == whole] = 0;
    int kept = errno;
    int is_ours = realpath(whole, place->directory) != NULL && is_below_root(place->directory) && is_owner();
    errno = kept;
    if (!is_ours)
        return 0;
    snprintf(place->path, sizeof place->path, "%s/%s", place->directory, place->name);
    return 1;
}

/* Look up the present inode, with the lock held. */
static void look_up(struct place *place)
{
    struct stat status;
    int kept = errno;
    place->directory_inode = stat(place->directory, &status) ? 0 : status.st_ino;
    place->inode = lstat(place->path, &place->status) ? 0 : place->status.st_ino;
    errno = kept;
}

static void fill_change(struct change *change, const struct place *place)
{
    change->directory = place->directory_inode;
    change->before = place->inode;
    strcpy(change->name, place->name);
}

/* Record the creation of a name that was free. */
static struct op *enter_creation(const struct place *place)
{
    struct op *op = begin_op();
    op->changes = 1;
    fill_change(&op->change[0], place);
    enter_op(op);
    return op;
}


static int open_at(int at, const char *path, int flags, mode_t mode)
{
    struct place place;
    struct stat status;
    if (!(flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) || !find(at, path, &place))
        return REAL(openat)(at, path, flags, mode);
    if (flags & O_DSYNC || (flags & O_TMPFILE) == O_TMPFILE)
        note_unsupported_call("open with O_DSYNC, O_SYNC or O_TMPFILE");
    take_lock();
    look_up(&place);
    struct op *op = place.inode == 0 && (flags & O_CREAT) ? enter_creation(&place) : NULL;
    int fd = REAL(openat)(at, path, flags & ~O_TRUNC, mode);
    if (fd < 0 && op != NULL)
        withdraw_op(op);
    int is_file = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    if (is_file && status.st_dev != root_device) /* a mount or layered file system: inodes do not identify files */
        note_unsupported_call("open of a file on another device");
    if (is_file && op != NULL)
        forget_file(status.st_ino); /* an earlier file had this inode number */
    if (is_file)
        track_file(status.st_ino);
    release_lock();
    if (is_file && flags & O_TRUNC && ftruncate(fd, 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

static mode_t mode_in(int flags, va_list more)
{
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, mode_t) : 0;
}

#define OPEN(at, path, flags)           \
    va_list more;                       \
    va_start(more, flags);              \
    mode_t mode = mode_in(flags, more); \
    va_end(more);                       \
    return open_at(at, path, flags, mode)

int open(const char *path, int flags, ...)
{
    OPEN(AT_FDCWD, path, flags);
}

int open64(const char *path, int flags, ...)
{
    OPEN(AT_FDCWD, path, flags);
}

int openat(int at, const char *path, int flags, ...)
{
    OPEN(at, path, flags);
}

int openat64(int at, const char *path, int flags, ...)
{
    OPEN(at, path, flags);
}

int creat(const char *path, mode_t mode)
{
    return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int creat64(const char *path, mode_t mode)
{
    return creat(path, mode);
}

int mkdirat(int at, const char *path, mode_t mode)
{
    struct place place;
    if (!find(at, path, &place))
        return REAL(mkdirat)(at, path, mode);
    take_lock();
    look_up(&place);
    struct op *op = place.inode == 0 ? enter_creation(&place) : NULL;
    int result = REAL(mkdirat)(at, path, mode);
    if (result && op != NULL)
        withdraw_op(op);
    release_lock();
    return result;
}

int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}

int linkat(int from_at, const char *from, int at, const char *path, int flags)
{
    struct place place;
    if (!find(at, path, &place))
        return REAL(linkat)(from_at, from, at, path, flags);
    take_lock();
    look_up(&place);
    struct op *op = place.inode == 0 ? enter_creation(&place) : NULL;
    int result = REAL(linkat)(from_at, from, at, path, flags);
    if (result && op != NULL)
        withdraw_op(op);
    release_lock();
    return result;
}

int link(const char *from, const char *path)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, path, 0);
}

static int is_empty(const char *path)
{
    DIR *directory = opendir(path);
    int entries = 0;
    while (directory != NULL && readdir(directory) != NULL)
        entries++;
    if (directory != NULL)
        closedir(directory);
    return directory != NULL && entries == 2;
}

/* Move a file to the graveyard instead of removing it, with the lock held; -1 if impossible: then the real call sets
   errno. */
static int move_to_graveyard(const struct place *place)
{
    char grave[PATH_MAX];
    struct op *op = begin_op();
    op->changes = 1;
    op->is_grave = 1;
    fill_change(&op->change[0], place);
    enter_op(op);
    grave_of(op, grave);
    int result = REAL(rename)(place->path, grave);
    if (result)
        op->sequence = 0;
    return result;
}

int unlinkat(int at, const char *path, int flags)
{
    struct place place;
    if (!find(at, path, &place))
        return REAL(unlinkat)(at, path, flags);
    take_lock();
    look_up(&place);
    int is_directory = place.inode != 0 && S_ISDIR(place.status.st_mode);
    int can_go = place.inode != 0 && (flags & AT_REMOVEDIR ? is_directory && is_empty(place.path) : !is_directory);
    int result = can_go ? move_to_graveyard(&place) : REAL(unlinkat)(at, path, flags);
    release_lock();
    return result;
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags)
{
    struct place old, new;
    char grave[PATH_MAX];
    int is_from = find(from_at, from, &old), is_to = find(to_at, to, &new);
    if (!is_from || !is_to || flags != 0) {
        int result = REAL(renameat2)(from_at, from, to_at, to, flags);
        if (result == 0 && (is_from || is_to))
            note_unsupported_call("rename over the border, or with flags");
        return result;
    }
    take_lock();
    look_up(&old);
    look_up(&new);
    struct op *op = NULL;
    if (old.inode != 0 && old.inode != new.inode) {
        op = begin_op();
        op->changes = 2;
        op->is_grave = new.inode != 0 && !S_ISDIR(new.status.st_mode);
        fill_change(&op->change[0], &old);
        fill_change(&op->change[1], &new);
        enter_op(op);
        grave_of(op, grave);
        if (op->is_grave && REAL(link)(new.path, grave))
            note_unsupported_call("rename over what cannot be linked");
    }
    int result = REAL(renameat2)(from_at, from, to_at, to, flags);
    if (result && op != NULL)
        withdraw_op(op);
    release_lock();
    return result;
}

int renameat(int from_at, const char *from, int to_at, const char *to)
{
    return renameat2(from_at, from, to_at, to, 0);
}

int rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int symlinkat(const char *target, int at, const char *path)
{
    struct place place;
    if (find(at, path, &place))
        note_unsupported_call("symlink");
    return REAL(symlinkat)(target, at, path);
}

int symlink(const char *target, const char *path)
{
    return symlinkat(target, AT_FDCWD, path);
}
