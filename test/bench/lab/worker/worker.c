/* The supervised program: it notes when it began to run, and then does nothing.
 *
 *   worker [-d PIDFILE] [-t] STAMPS ID
 *
 * It appends a line "NANOSECONDS PID ID" to STAMPS (the clock is CLOCK_MONOTONIC) as the first thing it does. With -d it is a
 * daemon: the first process ends once the second has written PIDFILE. With -t it writes a line to its output five times a
 * second and appends "- PID ID" to STAMPS with each that was taken. */
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

int main(int argc, char **argv)
{
	const char *pidfile = NULL;
	int talking = 0, c;
	while ((c = getopt(argc, argv, "d:t")) != -1) {
		if (c == 'd')
			pidfile = optarg;
		else if (c == 't')
			talking = 1;
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
	for (;;)
		pause();
}
