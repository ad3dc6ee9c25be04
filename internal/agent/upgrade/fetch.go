package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"drover/internal/durable"
	"drover/internal/idle"
	"drover/internal/release"
	"drover/internal/reserve"
	"drover/internal/wire"
)

const (
	// askTime is how long the answer to one question may take, and askAgain the pause after a failure. While the server
	// has no time, the pauses grow up to busyAgain.
	askTime   = 20 * time.Second
	askAgain  = time.Second
	busyAgain = 30 * time.Second
	// mostRefused is how many answers in a row may be errors of the server or damaged pieces.
	mostRefused = 10
)

// source gives a package, and keeps its program on the disk of the host.
type source struct {
	dir  string
	keys []string
	arch string
	ask  func(ctx context.Context, question []byte) ([]byte, error)
	// step is called before each change of the disk; it is for tests.
	step func(what string) error
}

// describe returns the package of a version, which one of the keys has signed.
func (s *source) describe(ctx context.Context, version string) (release.Package, error) {
	var found release.Package
	err := s.get(ctx, wire.PackageQuestion{Version: version, Arch: s.arch}, func(signed []byte) error {
		p, _, err := release.Open(signed, s.keys)
		if err == nil && p.Version != version {
			err = fmt.Errorf("it is version %s", p.Version)
		}
		found = p
		return err
	})
	if err != nil {
		return found, fmt.Errorf("version %s refused: %w", version, err)
	}
	return found, nil
}

// get asks until use accepts the answer. It fails after too many answers that are no use, and when ctx ends.
func (s *source) get(ctx context.Context, q wire.PackageQuestion, use func(data []byte) error) error {
	question, err := json.Marshal(q)
	if err != nil {
		return err
	}
	pause := askAgain
	for refused := 0; ; {
		data, err := s.once(ctx, question)
		answered := err == nil
		if answered {
			err = use(data)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, wire.ErrDepotBusy):
			pause = min(2*pause, busyAgain)
		case answered, errors.Is(err, wire.ErrNoPackage):
			if refused++; refused >= mostRefused {
				return err
			}
		}
		// At random: many hosts may have begun at the same time.
		if !idle.Sleep(ctx, pause/2+rand.N(pause)) { //nolint:gosec // not a secret
			return fmt.Errorf("not fetched in time (%w), last: %w", ctx.Err(), err)
		}
	}
}

func (s *source) once(ctx context.Context, question []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	answer, err := s.ask(ctx, question)
	if err != nil {
		return nil, err
	}
	return wire.ReadPackageAnswer(answer)
}

// fetch has the program of a package on the disk when it returns: whole, synced and verified. It goes on with what an
// earlier attempt has left, after it has verified each piece of that again.
func (s *source) fetch(ctx context.Context, p *release.Package) error {
	final := programOf(s.dir, p.SHA256)
	if verify(final, p.SHA256) == nil {
		return nil
	}
	if err := os.MkdirAll(versionsOf(s.dir), 0o700); err != nil {
		return fmt.Errorf("cannot store version %s: %w", p.Version, err)
	}
	part := final + partSuffix
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("cannot store version %s: %w", p.Version, err)
	}
	defer f.Close()
	if err := s.fill(ctx, f, p); err != nil {
		if reserve.IsFull(err) {
			_ = os.Remove(part) // the records of the agent need the room
		}
		return fmt.Errorf("cannot fetch version %s: %w", p.Version, err)
	}
	if err := s.finish(f, part, final, p); err != nil {
		return fmt.Errorf("cannot store version %s: %w", p.Version, err)
	}
	return nil
}

// fill writes the pieces that are not in the file yet.
func (s *source) fill(ctx context.Context, f *os.File, p *release.Package) error {
	n := countPieces(f, p)
	if err := room(f, p.Size-int64(n)*release.PieceSize); err != nil {
		return err
	}
	if err := errors.Join(s.step("truncate"), f.Truncate(int64(n)*release.PieceSize)); err != nil {
		return err
	}
	for ; n < len(p.Pieces); n++ {
		err := s.get(ctx, wire.PackageQuestion{Version: p.Version, Arch: p.Arch, Piece: &n}, func(data []byte) error {
			if !p.Holds(n, data) {
				return fmt.Errorf("piece %d is damaged", n)
			}
			if err := s.step("write"); err != nil {
				return err
			}
			_, err := f.WriteAt(data, int64(n)*release.PieceSize)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// room returns an error if the file system of a file has no room for more bytes and what the agent may need meanwhile.
func room(f *os.File, bytes int64) error {
	dir := filepath.Dir(f.Name())
	_, free, err := reserve.Disk(dir)
	if err != nil {
		return err
	}
	if need := bytes + spare; free < need {
		return fmt.Errorf("%s has %d MiB free, and %d MiB are needed: %w", dir, free>>20, need>>20, syscall.ENOSPC)
	}
	return nil
}

// spare is the room that a fetch leaves for others, in bytes.
const spare = 64 << 20

// countPieces counts the whole pieces at the beginning of a file.
func countPieces(f *os.File, p *release.Package) (n int) {
	buffer := make([]byte, release.PieceSize)
	for n = range p.Pieces {
		size, err := f.ReadAt(buffer, int64(n)*release.PieceSize)
		if err != nil && !errors.Is(err, io.EOF) || !p.Holds(n, buffer[:size]) {
			return n
		}
	}
	return len(p.Pieces)
}

// finish gives a complete file its name. The content is on disk before the name is.
func (s *source) finish(f *os.File, part, final string, p *release.Package) error {
	err := errors.Join(s.step("truncate"), f.Truncate(p.Size), f.Chmod(0o700), s.step("sync"), f.Sync())
	if err != nil {
		return err
	}
	if err := verify(part, p.SHA256); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	if err := errors.Join(s.step("rename"), os.Rename(part, final)); err != nil {
		return err
	}
	return errors.Join(s.step("sync directory"), durable.SyncDir(filepath.Dir(final)))
}

// tidy removes the programs that are not needed. What it cannot remove stays until the next time.
func tidy(dir string, keep ...string) {
	entries, err := os.ReadDir(versionsOf(dir))
	if err != nil {
		return
	}
	for _, e := range entries {
		sum, found := strings.CutPrefix(strings.TrimSuffix(e.Name(), partSuffix), programPrefix)
		wanted := false
		for _, k := range keep {
			wanted = wanted || k == sum
		}
		if found && !wanted {
			_ = os.Remove(filepath.Join(versionsOf(dir), e.Name()))
		}
	}
}
