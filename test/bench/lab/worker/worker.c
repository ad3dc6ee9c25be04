/* The supervised program: it notes when it began to run, and then does nothing.
 *
 *   worker [-d PIDFILE] [-t | -w BYTES] STAMPS ID
 *
 * It appends a line "NANOSECONDS PID ID" to STAMPS (the clock is CLOCK_MONOTONIC) as the first thing it does. With -d it is a
 * daemon: the first process ends once the second has written PIDFILE. With -t it writes a line to its output five times a
 * second and appends "- PID ID" to STAMPS with each that was taken. With -w it writes BYTES to its output at once, and then 10 kB
 * a second: ten lines of 100 bytes, ten times a second. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int append(const char *path, const char *line)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd < 0 || write(fd, line, strlen(line)) < 0)
		return -1;
	return close(fd);
}

static void stamp(const char *path, const char *id)
{
	char line[200];
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(line, sizeof line, "%lld %d %s\n", now.tv_sec * 1000000000LL + now.tv_nsec, getpid(), id);
	if (append(path, line) < 0)
		_exit(3);
}

static void daemonize(const char *pidfile, const char *stamps, const char *id)
{
	char text[32], byte = 0;
	int ready[2];
	if (pipe(ready) < 0)
		_exit(3);
	pid_t pid = fork();
	if (pid < 0)
		_exit(3);
	if (pid > 0) {
		close(ready[1]);
		_exit(read(ready[0], &byte, 1) == 1 ? 0 : 3);
	}
	close(ready[0]);
	setsid();
	stamp(stamps, id);
	snprintf(text, sizeof text, "%d\n", getpid());
	int fd = open(pidfile, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, text, strlen(text)) < 0 || close(fd) < 0 || write(ready[1], &byte, 1) != 1)
		_exit(3);
	close(ready[1]);
}

static void talk(const char *stamps, const char *id)
{
	char line[200];
	struct timespec fifth = {0, 200000000};
	snprintf(line, sizeof line, "- %d %s\n", getpid(), id);
	for (;;) {
		if (write(1, "I am talking\n", 13) == 13)
			append(stamps, line);
		nanosleep(&fifth, NULL);
	}
}

/* lines writes ten lines as services log them: most of a line is the line before it, and a part is random. */
static void lines(void)
{
	static unsigned long long random, count;
	char text[1001];
	int n = 0;
	if (!random)
		random = 88172645463325252ULL + getpid();
	while (n < 1000) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		n += snprintf(text + n, 101, "2026-11-22T06:00:00.%06lluZ INFO request=%016llx path=/items/%06llu status=200 "
			"bytes=%05llu\n", count++ % 1000000, random, random % 1000000, random % 100000);
	}
	if (write(1, text, n) != n)
		_exit(3);
}

static void keep_writing(long bytes)
{
	struct timespec next;
	for (; bytes > 0; bytes -= 1000)
		lines();
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (;;) {
		next.tv_nsec += 100000000;
		next.tv_sec += next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) != 0)
			;
		lines();
	}
}

int main(int argc, char **argv)
{
	const char *pidfile = NULL;
	int talking = 0, c;
	long bytes = -1;
	while ((c = getopt(argc, argv, "d:tw:")) != -1) {
		if (c == 'd')
			pidfile = optarg;
		else if (c == 't')
			talking = 1;
		else if (c == 'w')
			bytes = atol(optarg);
		else
			return 2;
	}
	if (argc - optind != 2)
		return 2;
	if (pidfile)
		daemonize(pidfile, argv[optind], argv[optind + 1]);
	else
		stamp(argv[optind], argv[optind + 1]);
	if (talking)
		talk(argv[optind], argv[optind + 1]);
	if (bytes >= 0)
		keep_writing(bytes);
	for (;;)
		pause();
}
