package edge_test

import (
	"context"
	"errors"
	"testing"

	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/store"
)

// task is a task whose items are on hosts of these areas.
type task struct {
	areas    []int
	readings int
}

func (f *task) TaskItems(_ context.Context, _, _ string, fn func(store.ItemView) error) error {
	f.readings++
	for _, area := range f.areas {
		if err := fn(store.ItemView{
			Op: process.Start, Process: process.ID{Namespace: "ns", Name: "p"}, Cloud: area, IP: "10.0.0.1",
		}); err != nil {
			return err
		}
	}
	return nil
}

// TestResultsAreReadOnce: also for a caller whose rights are checked on the items.
func TestResultsAreReadOnce(t *testing.T) {
	enough := errors.New("enough")
	grants := []access.Grant{{Operations: []string{"start"}, Namespaces: []string{"ns"}, Areas: []int{0, 1}}}
	for _, tt := range []struct {
		name   string
		who    access.Principal
		areas  []int
		stop   int // fn fails with this item; 0 is never
		shown  int
		denied string
	}{
		{"an administrator", access.Principal{App: "a", Admin: true}, []int{0, 1, 2}, 0, 3, ""},
		{"an administrator who has enough", access.Principal{App: "a", Admin: true}, []int{0, 1, 2}, 2, 2, ""},
		{"all allowed", access.Principal{App: "a", Grants: grants}, []int{0, 1, 0}, 0, 3, ""},
		{"enough, and the rest allowed", access.Principal{App: "a", Grants: grants}, []int{0, 1, 0}, 1, 1, ""},
		{"the last not allowed", access.Principal{App: "a", Grants: grants}, []int{0, 1, 2}, 0, 2, "query ns/p"},
		{"enough, and the last not allowed", access.Principal{App: "a", Grants: grants}, []int{0, 1, 2}, 1, 1, "query ns/p"},
		{"nothing after the first refusal", access.Principal{App: "a", Grants: grants}, []int{2, 0, 3}, 0, 0, "query ns/p"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &task{areas: tt.areas}
			e := edge.Config{Tasks: f}
			host := func(v store.ItemView) access.Host { return access.Host{Area: v.Cloud, IP: v.IP} }
			shown := 0
			err := e.Results(t.Context(), &edge.Call{Principal: tt.who}, "t", "a", host, func(store.ItemView) error {
				if shown++; shown == tt.stop {
					return enough
				}
				return nil
			})
			denied, isDenied := errors.AsType[*edge.DeniedError](err)
			switch {
			case isDenied != (tt.denied != "") || isDenied && denied.Missing.What() != tt.denied:
				t.Errorf("the error is %v", err)
			case !isDenied && errors.Is(err, enough) != (tt.stop > 0):
				t.Errorf("the error is %v", err)
			case shown != tt.shown || f.readings != 1:
				t.Errorf("%d items in %d readings, want %d in one", shown, f.readings, tt.shown)
			}
		})
	}
}
