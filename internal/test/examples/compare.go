package examples

import (
	"encoding/json"
	"fmt"
)

// Compare lists where a decoded answer differs from what is expected, whose holes match anything. where names the
// whole.
func Compare(where string, want, got any) []string {
	if want == "<any>" {
		return nil
	}
	switch want := want.(type) {
	case map[string]any:
		if inner, ok := want["<json>"]; ok && len(want) == 1 {
			return compareText(where+".<json>", inner, got)
		}
		return compareObjects(where, want, got)
	case []any:
		return compareLists(where, want, got)
	default:
		if want != got {
			return []string{fmt.Sprintf("%s is %#v, want %#v", where, got, want)}
		}
		return nil
	}
}

// compareText compares a string that holds JSON.
func compareText(where string, want, got any) []string {
	var decoded any
	text, ok := got.(string)
	if !ok || json.Unmarshal([]byte(text), &decoded) != nil {
		return []string{fmt.Sprintf("%s is no text that holds JSON: %v", where, got)}
	}
	return Compare(where, want, decoded)
}

func compareObjects(where string, want map[string]any, got any) (differences []string) {
	object, ok := got.(map[string]any)
	if !ok {
		return []string{fmt.Sprintf("%s is %v, want an object", where, got)}
	}
	for k, v := range want {
		if _, ok := object[k]; !ok {
			differences = append(differences, fmt.Sprintf("%s.%s is missing", where, k))
			continue
		}
		differences = append(differences, Compare(where+"."+k, v, object[k])...)
	}
	for k := range object {
		if _, ok := want[k]; !ok {
			differences = append(differences, fmt.Sprintf("%s.%s is not expected", where, k))
		}
	}
	return differences
}

func compareLists(where string, want []any, got any) (differences []string) {
	list, ok := got.([]any)
	if !ok || len(list) != len(want) {
		return []string{fmt.Sprintf("%s is %v, want a list of %d", where, got, len(want))}
	}
	for i := range want {
		differences = append(differences, Compare(fmt.Sprintf("%s[%d]", where, i), want[i], list[i])...)
	}
	return differences
}
