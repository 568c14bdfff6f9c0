// The kernel's own price of one environment: namespaces, overlay on a tmpfs, pivot_root, bash -c 'echo ok'; nothing that
// protects anything. Usage: floor LOWER SCRATCH AT_ONCE LIVES; prints microseconds, ready and gone, one life per line.
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void must(int result, const char *what) {
    if (result < 0) {
        perror(what);
        _exit(1);
    }
}

static const char *lower, *scratch;

static int inside(void *out) {
    char options[4096], path[1024];
    dup2(*(int *)out, 1);
    must(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), "private");
    must(mount("tmpfs", scratch, "tmpfs", 0, "size=64m"), "tmpfs");
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", scratch, (const char *[]){"up", "work", "root"}[i]);
        must(mkdir(path, 0755), path);
    }
    snprintf(options, sizeof options, "lowerdir=%s,upperdir=%s/up,workdir=%s/work", lower, scratch, scratch);
    must(mount("overlay", path, "overlay", 0, options), "overlay");
    must(chdir(path), "chdir");
    must(syscall(SYS_pivot_root, ".", "."), "pivot_root");
    must(umount2(".", MNT_DETACH), "umount");
    must(mount("proc", "/proc", "proc", 0, NULL), "proc");
    execl("/bin/bash", "bash", "--norc", "--noprofile", "-c", "echo ok; read line", NULL);
    must(-1, "bash");
    return 1;
}

static void life(double *ready, double *gone) {
    static char stack[1 << 16] __attribute__((aligned(16)));
    int out[2], in[2];
    char answer[8];
    must(pipe(out), "pipe");
    must(pipe(in), "pipe");
    dup2(in[0], 0);
    double began = now();
    int flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | SIGCHLD;
    int pid = clone(inside, stack + sizeof stack, flags, &out[1]);
    must(pid, "clone");
    must(read(out[0], answer, sizeof answer) == 3 ? 0 : -1, "answer");
    *ready = now() - began;
    began = now();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    *gone = now() - began;
    for (int i = 0; i < 2; i++) close(out[i]), close(in[i]);
}

int main(int count, char **words) {
    if (count != 5) return 2;
    lower = words[1], scratch = words[2];
    int lanes = atoi(words[3]), lives = atoi(words[4]);
    for (int lane = 0; lane < lanes; lane++)
        if (fork() == 0) {
            for (int i = lane; i < lives; i += lanes) {
                double ready, gone;
                life(&ready, &gone);
                dprintf(3, "%.0f %.0f\n", ready, gone);
            }
            _exit(0);
        }
    int failed = 0, status;
    while (wait(&status) > 0) failed |= status;
    return failed != 0;
}
