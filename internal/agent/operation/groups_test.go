package operation_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/operation"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

func TestSetGroups(t *testing.T) {
	w := operationtest.New(t)
	groups := []process.Group{{ID: "g", CPULimit: 20, MemWeight: 1}}
	e := record.Entry{Item: "1", Process: process.ID{Namespace: "gse"}, Op: process.SetGroups, Groups: groups}
	r, err := w.Operator(&peers{}).Operate(t.Context(), e, operation.Subject{})
	want := operation.Result{
		Outcome: process.Outcome{Text: process.Success},
		Change:  specstore.Change{Groups: &specstore.NamespaceGroups{Namespace: "gse", Groups: groups}},
	}
	if diff := cmp.Diff(want, r); err != nil || diff != "" {
		t.Errorf("%v, result (-want +got):\n%s", err, diff)
	}
}
