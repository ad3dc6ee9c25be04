package policy_test

import (
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	v1 "drover/api/v1"
	"drover/internal/agent/launch"
	"drover/internal/agent/policy"
	"drover/internal/agent/trail"
	"drover/internal/process"
)

// ground is a directory of which "in" is allowed. Whoever is at work there may change "in" and "mine" as he likes, and
// nothing in "out".
type ground struct {
	dir     string
	checker *policy.Checker
	random  *rand.Rand
}

const secret = "not for you"

func newGround(t *testing.T, random *rand.Rand) *ground {
	t.Helper()
	//nolint:usetesting // the name of the test begins a comment in a policy
	dir, err := os.MkdirTemp("", "drover-walk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	dir, err = filepath.EvalSymlinks(dir)
	g := &ground{dir: dir, random: random}
	for _, name := range []string{"in/a/b", "mine/a", "out/a/b"} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	for _, name := range []string{"a", "b", "a/b/a", "a/b/b"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, "out", name+"f"), []byte(secret), 0o644))
	}
	file := filepath.Join(dir, "policy.conf")
	if err = errors.Join(err, os.WriteFile(file, []byte("paths "+dir+"/in\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	g.checker = policy.New(file, slog.New(slog.DiscardHandler))
	return g
}

// next is the next choice among so many.
func (g *ground) next(n int) int { return g.random.IntN(n) }

func pick[T any](g *ground, from ...T) T { return from[g.next(len(from))] }

// path is one that begins in a place and goes up and down.
func (g *ground) path(places ...string) string {
	path := filepath.Join(g.dir, pick(g, places...))
	for range g.next(4) {
		path += "/" + pick(g, "a", "b", "..", ".", "af", "bf")
	}
	return path
}

// own is a place that may be changed; none where its name leads through a link, perhaps to what may not.
func (g *ground) own() string {
	name := filepath.Join(g.dir, pick(g, "in", "mine"), pick(g, "a", "b", "a/a", "a/b", "af", "a/bf"))
	if info, err := os.Lstat(filepath.Dir(name)); err != nil || !info.IsDir() {
		return ""
	}
	return name
}

// meddle changes something that may be changed.
func (g *ground) meddle() {
	name, other := g.own(), g.own()
	if name == "" || other == "" {
		return
	}
	switch g.next(6) {
	case 0:
		_ = os.Mkdir(name, 0o755)
	case 1:
		_ = os.RemoveAll(name)
		_ = os.WriteFile(name, []byte("mine"), 0o644)
	case 2:
		_ = os.RemoveAll(name)
		_ = os.Symlink(g.path("in", "mine", "out"), name)
	case 3:
		_ = os.RemoveAll(name)
		_ = os.Symlink(pick(g, "..", "../..", "../../out", "../out", "a", "b/..", "../mine/a", "../out/af"), name)
	case 4:
		_ = os.Rename(name, other)
	case 5:
		_ = unix.Renameat2(unix.AT_FDCWD, name, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
	}
}

// FuzzWalk reads in the allowed place while somebody renames and links what is there: nothing is ever read of what lies
// outside. Where nobody moves, what may be run is inside, as the kernel finds it.
func FuzzWalk(f *testing.F) {
	for n := range uint64(12) {
		f.Add(n, n*n)
	}
	account := launch.Account{Name: "root"}
	f.Fuzz(func(t *testing.T, walk, changes uint64) {
		reader := newGround(t, rand.New(rand.NewPCG(walk, 1)))
		meddler := &ground{dir: reader.dir, random: rand.New(rand.NewPCG(changes, 2))}
		for range 50 {
			meddler.meddle()
		}
		over := make(chan struct{})
		var meddling sync.WaitGroup
		meddling.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					meddler.meddle()
				}
			}
		})
		for range 50 {
			path := reader.path("in")
			_ = account.Visit(reader.checker.MayRead, path, func(way *trail.Trail) error {
				file, err := way.Open()
				if err != nil {
					return err
				}
				defer file.Close()
				if text, _ := io.ReadAll(file); string(text) == secret {
					t.Errorf("%s was read, by %s: %+v", path, way.Path, way.Steps)
				}
				return nil
			})
		}
		close(over)
		meddling.Wait()
		for range 10 {
			meddler.meddle()
			path := reader.path("in")
			spec := &process.Spec{Directory: reader.dir + "/in", Start: path, Compat: &v1.Compat{}}
			if reader.checker.Allow(process.ID{}, process.Start, spec) != nil {
				continue
			}
			if real, err := filepath.EvalSymlinks(path); err == nil && real != reader.dir+"/in" &&
				!strings.HasPrefix(real, reader.dir+"/in/") {
				t.Errorf("%s may be run, which is %s", path, real)
			}
		}
	})
}
