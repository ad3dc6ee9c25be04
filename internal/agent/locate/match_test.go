package locate_test

import (
	"strings"
	"testing"

	"drover/internal/agent/locate"
	"drover/internal/agent/procfs"
)

func TestMatchName(t *testing.T) {
	proc := func(comm, exe string, args ...string) procfs.Info {
		return procfs.Info{Stat: procfs.Stat{Comm: comm, State: 'S', Threads: 1}, Exe: exe, Args: args, Leader: true}
	}
	kernel := proc("kworker", "")
	kernel.Kernel = true
	for _, tc := range []struct {
		what  string
		info  procfs.Info
		yes   []string
		never []string
	}{
		{
			"a plain program", proc("nginx", "/usr/sbin/nginx", "/usr/sbin/nginx", "-g", "daemon off;"),
			[]string{"nginx"},
			[]string{"", "ngin", "nginx2", "sbin", "/usr/sbin/nginx", "-g", "NGINX", "daemon off;"},
		},
		{
			"a gate, which has the arguments of a program",
			proc("server", "/memfd:drover-gate (deleted)", "./server", "--port", "1"),
			nil,
			[]string{"server", "./server", "drover-gate"},
		},
		{
			"with a title",
			proc("nginx", "/usr/sbin/nginx", "nginx: master process /usr/sbin/nginx -c /etc/nginx/nginx.conf"),
			[]string{"nginx"},
			[]string{"master", "nginx.conf"},
		},
		{
			"with a title of another name",
			proc("php-fpm8.2", "/usr/sbin/php-fpm8.2", "php-fpm: master process (/etc/php/8.2/fpm/php-fpm.conf)"),
			[]string{"php-fpm8.2", "php-fpm"},
			[]string{"php", "php-fpm8"},
		},
		{
			"started through a link", proc("redis-server", "/usr/bin/redis-check-rdb",
				"/usr/bin/redis-server 127.0.0.1:6379"),
			[]string{"redis-server", "redis-check-rdb"},
			[]string{"redis", "127.0.0.1:6379", "redis-server 127.0.0.1:6379x"},
		},
		{
			"replaced by an upgrade", proc("appd", "/opt/app/bin/appd (deleted)", "appd"),
			[]string{"appd"},
			[]string{"appd (deleted)", "(deleted)"},
		},
		{
			"in one file with others", proc("httpd", "/bin/busybox", "httpd", "-f"),
			[]string{"httpd", "busybox"},
			[]string{"sh"},
		},
		{"a login shell", proc("bash", "/usr/bin/bash", "-bash"), []string{"bash"}, []string{"sh"}},
		{"a name with blanks", proc("My App", "/opt/My App", "/opt/My App", "x"), []string{"My App"}, []string{"App"}},
		{
			"a shell script", proc("run.sh", "/usr/bin/dash", "/bin/sh", "-e", "/opt/app/run.sh", "start"),
			[]string{"run.sh", "dash", "sh"},
			[]string{"start", "run", "-e"},
		},
		{
			"a shell script with options", proc("bash", "/usr/bin/bash", "bash", "-o", "pipefail", "--", "x.sh"),
			[]string{"x.sh"},
			[]string{"pipefail"},
		},
		{
			"a shell command", proc("sh", "/usr/bin/dash", "sh", "-c", "nginx", "redis"),
			[]string{"sh", "dash"},
			[]string{"nginx", "redis", "-c"},
		},
		{
			"python", proc("python3", "/usr/bin/python3.11", "/opt/venv/bin/python", "-u", "-W", "ignore",
				"/opt/app/worker.py", "-c", "x"),
			[]string{"worker.py", "python3.11", "python", "python3"},
			[]string{"ignore", "worker", "x"},
		},
		{
			"a python module", proc("python3", "/usr/bin/python3.11", "python3", "-m", "http.server", "80"),
			[]string{"http.server"},
			[]string{"80"},
		},
		{
			"a python command", proc("python3", "/usr/bin/python3", "python3", "-c", "import nginx", "nginx"), nil,
			[]string{"nginx"},
		},
		{
			"perl", proc("mon.pl", "/usr/bin/perl", "/usr/bin/perl", "-w", "/opt/mon.pl"),
			[]string{"mon.pl", "perl"},
			nil,
		},
		{"ruby", proc("ruby", "/usr/bin/ruby3.1", "ruby", "-I", "lib", "srv.rb"), []string{"srv.rb"}, []string{"lib"}},
		{
			"node", proc("node", "/usr/bin/node", "node", "-r", "dotenv", "/srv/app/server.js"),
			[]string{"server.js", "node"},
			[]string{"dotenv"},
		},
		{
			"java", proc("java", "/opt/jdk/bin/java", "java", "-Xmx1g", "-Dx=y", "-cp", "lib.jar", "-jar",
				"/opt/app/app.jar", "run"),
			[]string{"app.jar", "java"},
			[]string{"lib.jar", "run"},
		},
		{
			"a java class", proc("java", "/opt/jdk/bin/java", "java", "-cp", "a.jar", "org.example.Main", "x"),
			[]string{"org.example.Main"},
			[]string{"a.jar", "x"},
		},
		{
			"env", proc("env", "/usr/bin/env", "env", "-u", "X", "A=b", "/opt/run.sh"),
			[]string{"run.sh"},
			[]string{"A=b", "X"},
		},
		{
			"an interpreter's name and more", proc("pythonista", "/usr/bin/pythonista", "pythonista", "nginx"),
			[]string{"pythonista"},
			[]string{"nginx"},
		},
		{"an unfinished command line", proc("java", "/bin/java", "java", "-jar"), []string{"java"}, []string{"-jar"}},
		{
			"one that has renamed itself", proc("worker-main", "/opt/bin/supervisord", "/opt/bin/supervisord"),
			[]string{"worker-main", "supervisord"},
			[]string{"worker"},
		},
		{
			"a long name", proc("a-rather-long-n", "/opt/a-rather-long-name-one", "a-rather-long-name-one"),
			[]string{"a-rather-long-name-one"},
			[]string{"a-rather-long-name-two", "a-rather-long-n", "a-rather-long-n-"},
		},
		{
			"a long name that only the kernel tells", proc("a-rather-long-n", ""),
			[]string{"a-rather-long-n", "a-rather-long-name-one", "a-rather-long-name-two"},
			[]string{"a-rather-long", "a-rather-long-m"},
		},
		{
			"a long name in another program", proc("a-rather-long-n", "/usr/bin/python3", "python3", "/opt/main.py"),
			[]string{"a-rather-long-name-one"},
			nil,
		},
		{
			"a long script", proc("a-rather-long-n", "/usr/bin/dash", "/bin/sh", "/opt/a-rather-long-name-one.sh"),
			[]string{"a-rather-long-name-one.sh"},
			[]string{"a-rather-long-name-two.sh", "a-rather-long-n"},
		},
		{"hidden by the kernel", proc("sshd", ""), []string{"sshd"}, []string{"ssh"}},
		{"a thread of the kernel", kernel, nil, []string{"kworker"}},
		{"without anything", proc("", "", ""), nil, []string{"", "."}},
	} {
		t.Run(strings.ReplaceAll(tc.what, " ", "_"), func(t *testing.T) {
			for _, name := range tc.yes {
				if !locate.MatchName(tc.info, name) {
					t.Errorf("does not go by %q", name)
				}
			}
			for _, name := range tc.never {
				if locate.MatchName(tc.info, name) {
					t.Errorf("goes by %q", name)
				}
			}
		})
	}
}

func FuzzMatchName(f *testing.F) {
	f.Add("nginx", "/usr/sbin/nginx", "nginx: master\x00-g", "nginx")
	f.Add("python3", "/usr/bin/python3", "python3\x00-m", "x")
	f.Fuzz(func(t *testing.T, comm, exe, args, name string) {
		info := procfs.Info{Stat: procfs.Stat{Comm: comm}, Exe: exe, Args: strings.Split(args, "\x00")}
		if locate.MatchName(info, name) && !strings.Contains(comm+exe+args, name) && !strings.HasPrefix(name, comm) {
			t.Errorf("goes by %q, which is nowhere in it", name)
		}
	})
}
