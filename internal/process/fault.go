package process

import (
	"fmt"
	"strings"
)

// FieldFault is an error in one field of a spec. Text begins with the field and says what was expected.
type FieldFault struct{ Field, Text string }

// faults collects the errors in a spec, in the order of the checks.
type faults struct {
	spec *Spec
	// wire says that fields have the names of GSE.
	wire bool
	list []FieldFault
}

// name is the name of a field: that of process files, or that of GSE.
func (f *faults) name(file, wire string) string {
	if f.wire {
		return wire
	}
	return file
}

// add notes a fault of a field, by its names in process files and in GSE; the format begins after the field.
func (f *faults) add(file, wire, format string, args ...any) {
	field := f.name(file, wire)
	f.list = append(f.list, FieldFault{Field: field, Text: field + " " + fmt.Sprintf(format, args...)})
}

// mostFaults is the longest text of one failure in bytes: every target carries that text.
const mostFaults = 4 << 10

// JoinFaults joins the faults into one failure; nil if there are none.
func JoinFaults(list []FieldFault) error {
	if len(list) == 0 {
		return nil
	}
	texts := make([]string, 0, len(list))
	told := 0
	for i, f := range list {
		if told += len(f.Text); told > mostFaults && i > 0 {
			texts = append(texts, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		texts = append(texts, f.Text)
	}
	return Errorf(Failed, "%s", strings.Join(texts, "; "))
}
