package host

import (
	"testing"

	v1 "drover/api/v1"
	"drover/internal/agent/procfs"
	"drover/internal/process"
)

// TestOtherLine: the arguments of a program are compared with its spec, and a title is none of them.
func TestOtherLine(t *testing.T) {
	const redis = "/usr/bin/redis-server --port 7001 --daemonize no"
	for _, c := range []struct {
		what, run string
		args      []string
		differs   bool
	}{
		{"as it should be", redis, []string{"/usr/bin/redis-server", "--port", "7001", "--daemonize", "no"}, false},
		{"no arguments to read", redis, nil, false},
		{"another port", redis, []string{"/usr/bin/redis-server", "--port", "7002", "--daemonize", "no"}, true},
		{"one argument less", redis, []string{"/usr/bin/redis-server", "--port", "7001"}, true},
		{"an empty argument", "/bin/a --log ''", []string{"/bin/a", "--log", ""}, false},
		{"an empty argument in place of a value", "/bin/a --log x", []string{"/bin/a", "--log", ""}, true},
		{"an argument that the file lacks", "/bin/a", []string{"/bin/a", "-v"}, true},
		{"a title in one text", redis, []string{"/usr/bin/redis-server *:7001"}, false},
		{"a title behind which the arguments are empty", redis, []string{"/usr/bin/redis-server *:7001", "", "", ""}, false},
		{"a title of one word", redis, []string{"redis", "", "", ""}, false},
		{"a short title of a program without arguments", "/usr/bin/redis-server", []string{"redis", "", ""}, false},
		{"a title before what is left", redis, []string{"/usr/bin/redis-server *:7001", "daemonize", "no"}, false},
		{"a title with a colon", redis, []string{"nginx: master process nginx", "no"}, false},
		{"a blank in the name of the program", "'/opt/my app/a' -v", []string{"/opt/my app/a", "-q"}, true},
	} {
		spec := &process.Spec{Run: c.run, Compat: &v1.Compat{}}
		if got := otherLine(spec, &procfs.Info{Args: c.args}); len(got) > 0 != c.differs {
			t.Errorf("%s: %q of %s: %v", c.what, c.args, c.run, got)
		}
	}
}
