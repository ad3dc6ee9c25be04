package depot_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/depot"
	"drover/internal/wire"
)

// packages has one package with one piece.
type packages struct{ broken error }

const size = 256 << 10

func (p *packages) Signed(_ context.Context, version, arch string) ([]byte, error) {
	if version != "1.4.0" || arch != "amd64" {
		return nil, wire.ErrNoPackage
	}
	return []byte("signed"), p.broken
}

func (p *packages) Piece(_ context.Context, version, _ string, piece int) ([]byte, error) {
	if version != "1.4.0" || piece != 0 {
		return nil, wire.ErrNoPackage
	}
	return []byte(strings.Repeat("x", size)), p.broken
}

func ask(t *testing.T, d *depot.Depot, q any) ([]byte, error) {
	t.Helper()
	question, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	answer := d.Answer(t.Context(), "", question)
	if answer == nil {
		return nil, errors.New("no answer")
	}
	return wire.ReadPackageAnswer(answer)
}

func TestAnswers(t *testing.T) {
	p := &packages{}
	d := depot.New(p, slog.New(slog.DiscardHandler))
	zero, one := 0, 1
	text, err := ask(t, d, wire.PackageQuestion{Version: "1.4.0", Arch: "amd64"})
	if err != nil || string(text) != "signed" {
		t.Errorf("the signed text is %q: %v", text, err)
	}
	if piece, err := ask(t, d, wire.PackageQuestion{Version: "1.4.0", Arch: "amd64", Piece: &zero}); err != nil ||
		len(piece) != size {
		t.Errorf("the piece has %d bytes: %v", len(piece), err)
	}
	for _, q := range []any{
		wire.PackageQuestion{Version: "1.4.1", Arch: "amd64"},
		wire.PackageQuestion{Version: "1.4.0", Arch: "arm64"},
		wire.PackageQuestion{Version: "1.4.0", Arch: "amd64", Piece: &one},
		"no question", strings.Repeat("x", 2000),
	} {
		if _, err := ask(t, d, q); !errors.Is(err, wire.ErrNoPackage) {
			t.Errorf("%.80v: %v", q, err)
		}
	}
	if _, err := ask(t, d, wire.PackageQuestion{Version: "1.4.0", Arch: "amd64", Piece: &one}); err == nil ||
		!strings.Contains(err.Error(), "piece 1 of the program is missing: add the package again") {
		t.Errorf("of a missing piece: %v", err)
	}
	p.broken = errors.New("the database is gone")
	if text, err := ask(t, d, wire.PackageQuestion{Version: "1.4.0", Arch: "amd64"}); err == nil ||
		errors.Is(err, wire.ErrNoPackage) {
		t.Errorf("without a database: %q, %v, want no answer, so that the host asks again", text, err)
	}
	p.broken = wire.ErrDepotBusy
	if _, err := ask(t, d, wire.PackageQuestion{Version: "1.4.0", Arch: "amd64"}); !errors.Is(err, wire.ErrDepotBusy) {
		t.Errorf("of a busy source: %v", err)
	}
}

// TestRate: many hosts at a time get no more than the rate. Nobody waits for long: the others hear at once that they have
// to ask again.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := depot.New(&packages{}, slog.New(slog.DiscardHandler))
		const hosts = 10 * depot.Rate / size
		begun, zero := time.Now(), 0
		over := make(chan error, hosts)
		for range hosts {
			go func() {
				for {
					asked := time.Now()
					_, err := ask(t, d, wire.PackageQuestion{Version: "1.4.0", Arch: "amd64", Piece: &zero})
					if waited := time.Since(asked); waited > 6*time.Second ||
						errors.Is(err, wire.ErrDepotBusy) && waited > 0 {
						t.Errorf("%v after %v", err, waited)
					}
					if !errors.Is(err, wire.ErrDepotBusy) {
						over <- err
						return
					}
					time.Sleep(time.Second) // virtual
				}
			}()
		}
		for range hosts {
			if err := <-over; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(begun); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("%d pieces took %v, want 10 s", hosts, took)
		}
	})
}
