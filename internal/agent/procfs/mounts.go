package procfs

import (
	"fmt"
	"strconv"
	"strings"
)

// Mount is one line of /proc/self/mountinfo.
type Mount struct {
	// Root is the mounted directory of the filesystem; Point is the mount point.
	Root, Point string
	Type        string
	// Source is the device of the filesystem, or another text.
	Source string
	// Options are those of the filesystem as a whole, such as a cgroup hierarchy's controllers.
	Options []string
}

// Mounts returns the mounts that this process sees, in the order of mounting.
func (f FS) Mounts() ([]Mount, error) {
	data, err := f.read(maxList, "self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cannot list mounts: %w", err)
	}
	var mounts []Mount
	for line := range strings.Lines(string(data)) {
		// A dash of its own ends the optional fields, whose number varies.
		before, after, ok := strings.Cut(line, " - ")
		// Split, not Fields: the source may be empty.
		left, right := strings.Fields(before), strings.Split(strings.TrimSuffix(after, "\n"), " ")
		if !ok || len(left) < 6 || len(right) < 3 {
			return nil, fmt.Errorf("cannot list mounts: unexpected line %q", line)
		}
		mounts = append(mounts, Mount{
			Root:    unescape(left[3]),
			Point:   unescape(left[4]),
			Type:    right[0],
			Source:  unescape(right[1]),
			Options: strings.Split(right[2], ","),
		})
	}
	return mounts, nil
}

// OwnCgroup is Cgroup for this process.
func (f FS) OwnCgroup(controller string) (string, bool) { return f.cgroup("self", controller) }

// Cgroup returns the path of a process's cgroup in the hierarchy with this controller; "" is the v2 hierarchy. The
// second result is false if there is no such hierarchy or no such process.
func (f FS) Cgroup(pid int, controller string) (string, bool) {
	return f.cgroup(strconv.Itoa(pid), controller)
}

func (f FS) cgroup(process, controller string) (string, bool) {
	data, err := f.read(maxSmall, process+"/cgroup")
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for c := range strings.SplitSeq(parts[1], ",") {
			if c == controller && (controller != "" || parts[0] == "0") {
				return parts[2], true
			}
		}
	}
	return "", false
}

// unescape decodes the octal escapes of mountinfo for blanks, newlines and backslashes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
