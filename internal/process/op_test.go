package process_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"drover/internal/process"
)

// TestEveryOperationHasARow: each constant has one row, and each row has a constant.
func TestEveryOperationHasARow(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "op.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var constants, rows []process.Op
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Op" {
			name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			constants = append(constants, process.Op(name))
		}
		return true
	})
	for _, row := range process.Ops() {
		rows = append(rows, row.Op)
	}
	if !slices.Equal(constants, rows) {
		t.Errorf("the constants are %q, the rows %q", constants, rows)
	}
	if len(constants) < 13 {
		t.Errorf("only %d operations were found", len(constants))
	}
}

// TestRowsAgree: no number stands for two operations, and the fields of a row do not contradict each other.
func TestRowsAgree(t *testing.T) {
	gse, job := map[int]process.Op{}, map[int]process.Op{}
	groups := []process.OpGroup{process.GroupRead, process.GroupOperate, process.GroupSetup, process.GroupHosts}
	for _, row := range process.Ops() {
		for number, taken := range map[int]map[int]process.Op{row.GSE: gse, row.JOB: job} {
			if other, ok := taken[number]; ok && number != process.NoNumber {
				t.Errorf("%s and %s have the number %d", row.Op, other, number)
			}
			taken[number] = row.Op
		}
		if !slices.Contains(groups, row.Group) {
			t.Errorf("%s belongs to no group", row.Op)
		}
		for what, contradicts := range map[string]bool{
			"observes and runs commands":      row.Observes && row.RunsCommands,
			"observes and acts":               row.Observes && row.Acts,
			"acts without a spec":             row.Acts && row.Spec < process.SpecNeeded,
			"stores a spec that it ignores":   row.StoresSpec && row.Spec == process.SpecIgnored,
			"waits and runs no command":       row.Waits != process.WaitsForNothing && !row.RunsCommands,
			"keeps the reason and gives one":  row.Rest.Keep && row.Rest.ID != "",
			"has a command, but is not asked": row.HasCommand && !row.OwnAPI,
			"is told as an unknown event":     row.Event != "" && !slices.Contains(process.EventKinds(), row.Event),
		} {
			if contradicts {
				t.Errorf("%s %s", row.Op, what)
			}
		}
	}
}

func TestNumbersOfOperations(t *testing.T) {
	for _, c := range []struct {
		name string
		find func(int64) (process.Op, bool)
		want []process.Op // by number
	}{
		{"GSE", process.OpOfGSE, []process.Op{
			process.Start, process.Stop, process.Query, process.Host, process.Unhost, "", "", process.Restart,
			process.Reload, process.Kill,
		}},
		{"JOB", process.OpOfJOB, []process.Op{"", process.Host, process.Unhost}},
	} {
		for number, want := range c.want {
			if got, ok := c.find(int64(number)); got != want || ok != (want != "") {
				t.Errorf("%s %d is %q, %t, want %q", c.name, number, got, ok, want)
			}
		}
		for _, number := range []int64{process.NoNumber, 99} {
			if got, ok := c.find(number); ok {
				t.Errorf("%s %d is %q, want none", c.name, number, got)
			}
		}
	}
}

// TestUnknownOperation: an operation without a row is judged as one that runs commands.
func TestUnknownOperation(t *testing.T) {
	const op process.Op = "fly"
	row := op.Info()
	if op.Known() || row.Op != op || !row.RunsCommands || row.Observes || row.OwnAPI || row.Spec != process.SpecNeeded {
		t.Errorf("an unknown operation has the row %+v", row)
	}
}
