package process

import (
	"fmt"
	"strings"
)

// FieldFault is an error in one field of a spec. Text begins with the field and says what was expected.
type FieldFault struct{ Field, Text string }

// faults collects the errors in a spec, in the order of the checks.
type faults []FieldFault

// add notes a fault; the format begins after the field.
func (f *faults) add(field, format string, args ...any) {
	*f = append(*f, FieldFault{Field: field, Text: field + " " + fmt.Sprintf(format, args...)})
}

// upTo adds a fault for a number that is negative or too large. Zero is always valid: it means the default.
func (f *faults) upTo(most int, field string, value int) {
	if value < 0 || value > most {
		f.add(field, "is %d: expected 1 to %d, or 0 for the default", value, most)
	}
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
