package logs_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"drover/internal/agent/logs"
	"drover/internal/process"
)

// writersVariable makes the test binary a program that writes to the files in a directory.
const writersVariable = "DROVER_LOGS_WRITERS"

// writeAll writes 10 kB a second to each file until it is killed, 100 bytes at a time.
func writeAll(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*", "stdout"))
	if err != nil {
		return err
	}
	var files []*os.File
	for _, name := range names {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	line := append(bytes.Repeat([]byte("x"), 99), '\n')
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		for _, f := range files {
			if _, err := f.Write(line); err != nil {
				return err
			}
		}
	}
}

// BenchmarkThousandWriters measures the cost of 1,000 processes that write 10 kB a second each, in percent of a
// processor and bytes of live memory. The writers are a program of their own.
func BenchmarkThousandWriters(b *testing.B) {
	const processes = 1000
	dir := b.TempDir()
	k, err := logs.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	for n := range processes {
		id := process.ID{Namespace: "bench", Name: fmt.Sprint(n)}
		out, errs, err := k.Begin(id, process.Hash(id)[:12]+"-1", &process.Spec{})
		if err != nil {
			b.Fatal(err)
		}
		_ = out.Close()
		_ = errs.Close()
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	writers := exec.Command(os.Args[0])
	writers.Env = append(os.Environ(), writersVariable+"="+dir)
	if err := writers.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = writers.Process.Kill()
		_ = writers.Wait()
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}()
	for b.Loop() {
		settle := time.NewTimer(5 * time.Second)
		<-settle.C
		before, begun := processorTime(b), time.Now()
		measure := time.NewTimer(10 * time.Second)
		<-measure.C
		b.ReportMetric(100*(processorTime(b)-before).Seconds()/time.Since(begun).Seconds(), "%core")
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/processes, "B/process")
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(fds)), "descriptors")
	b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
}

// processorTime is the processor time of this program.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
