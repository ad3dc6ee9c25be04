package lab

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Tree returns a process and all that descends from it, but workers.
func Tree(roots ...int) []int {
	children := map[int][]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, dir := range dirs {
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir)) // it is a number
		name, rest, _ := strings.Cut(string(stat), ") ")
		if words := strings.Fields(rest); len(words) > 1 && !strings.HasSuffix(name, "(worker") {
			ppid, _ := strconv.Atoi(words[1]) // it is a number
			children[ppid] = append(children[ppid], pid)
		}
	}
	var all []int
	for todo := roots; len(todo) > 0; {
		pid := todo[0]
		todo = append(todo[1:len(todo):len(todo)], children[pid]...)
		all = append(all, pid)
	}
	return all
}

// Cost is what some processes take.
type Cost struct {
	Processes, Threads int
	// PSS is in MB: private memory and the share of what others map too. Heap is the part of it that belongs to no
	// file.
	PSS, Heap float64
	// Waits counts how often threads have waited; those that have ended count nothing.
	Waits int
	// CPU is the time that all threads, those too that have ended, have spent on a processor so far.
	CPU time.Duration
}

// CostOf looks at processes; those that have ended count nothing.
func CostOf(pids []int) Cost {
	var c Cost
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid)
		rollup, err := os.ReadFile(dir + "/smaps_rollup")
		if err != nil {
			continue
		}
		c.Processes++
		c.PSS += megabytes(rollup, "Pss:")
		c.Heap += megabytes(rollup, "Pss_Anon:")
		tasks, _ := filepath.Glob(dir + "/task/*") // the pattern is right
		c.Threads += len(tasks)
		for _, task := range tasks {
			c.Waits += int(number(task+"/status", "voluntary_ctxt_switches:"))
		}
		c.CPU += used(pid)
	}
	return c
}

// used reads the clock of the processor time of a process, which counts nanoseconds; 0 where it has ended.
func used(pid int) time.Duration {
	const processClock = 2 // CPUCLOCK_SCHED; the other bits are the pid
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|processClock), &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

func megabytes(rollup []byte, key string) float64 { return value(rollup, key) / 1000 * 1.024 }

// number reads a number out of a file of lines that begin with keys; 0 where the file is gone.
func number(file, key string) float64 {
	text, _ := os.ReadFile(file) // then the process has ended
	return value(text, key)
}

func value(text []byte, key string) float64 {
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			v, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64) // it is a number
			return v
		}
	}
	return 0
}

// Use is what some processes take while they are watched.
type Use struct {
	Cost
	// Percent is the part of one processor that they take, and Wakeups how often a second a thread goes on after it has
	// waited.
	Percent, Wakeups float64
}

// Watch watches processes until the function that it returns is called.
func Watch(pids []int) (end func() Use) {
	before, began := CostOf(pids), time.Now()
	return func() Use {
		after, took := CostOf(pids), time.Since(began)
		return Use{
			Cost: after, Percent: 100 * float64(after.CPU-before.CPU) / float64(took),
			Wakeups: float64(after.Waits-before.Waits) / took.Seconds(),
		}
	}
}

// UseOf watches processes for a while.
func UseOf(pids []int, window time.Duration) Use {
	end := Watch(pids)
	Pause(window)
	return end()
}

// Written returns how many bytes processes have written so far; those that have ended count nothing.
func Written(pids []int) (bytes float64) {
	for _, pid := range pids {
		bytes += number("/proc/"+strconv.Itoa(pid)+"/io", "wchar:")
	}
	return bytes
}

// Syscalls counts the system calls of a process by name over a while; nil where strace is not installed.
func Syscalls(ctx context.Context, pid int, window time.Duration) (map[string]int, error) {
	if _, err := exec.LookPath("strace"); err != nil {
		return nil, nil //nolint:nilnil // it says what is missing
	}
	cmd := exec.CommandContext(ctx, "strace", "-f", "-c", "-U", "calls,name", "-p", strconv.Itoa(pid))
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start strace: %w", err)
	}
	Pause(window)
	_ = cmd.Process.Signal(syscall.SIGINT) // it is there
	_ = cmd.Wait()                         // it was interrupted
	counts := map[string]int{}
	for scan := bufio.NewScanner(&out); scan.Scan(); {
		words := strings.Fields(scan.Text())
		if len(words) != 2 || words[1] == "total" {
			continue
		}
		if n, err := strconv.Atoi(words[0]); err == nil {
			counts[words[1]] = n
		}
	}
	return counts, nil
}
