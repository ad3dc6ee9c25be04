package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Machine describes where, of what and by which command the figures are, in lines of Markdown.
func Machine(ctx context.Context) string {
	var u unix.Utsname
	_ = unix.Uname(&u) // it cannot fail
	var info unix.Sysinfo_t
	_ = unix.Sysinfo(&info) // it cannot fail
	load, _ := os.ReadFile("/proc/loadavg")
	commit := "unknown"
	if out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output(); err == nil {
		commit = strings.TrimSpace(string(out))
	}
	return fmt.Sprintf(
		"* date %s, commit %s, command `%s`\n* %d × %s, %d GiB of memory, Linux %s, %s\n* load average at the start %s\n",
		time.Now().UTC().Format("2006-01-02 15:04 MST"), commit,
		strings.Join(append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...), " "), runtime.NumCPU(), cpuModel(),
		(info.Totalram*uint64(info.Unit)+1<<29)>>30,
		unix.ByteSliceToString(u.Release[:]), runtime.Version(), strings.Join(strings.Fields(string(load))[:3], " "))
}

func cpuModel() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
