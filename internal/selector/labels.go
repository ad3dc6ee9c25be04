// Package selector defines labels of hosts and processes, and the expressions that select by them. It does no I/O.
// Labels have the syntax of Kubernetes, and expressions its grammar
// (kubernetes.io/docs/concepts/overview/working-with-objects/labels).
package selector

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The facts of a host that an expression may name beside its labels. No label has one of these keys.
const (
	OS           = "os"            // the distribution, such as "debian"
	OSVersion    = "os_version"    // the version of the distribution, such as "12"
	Kernel       = "kernel"        // the release of the kernel
	Arch         = "arch"          // the architecture, such as "x86_64"
	AgentVersion = "agent_version" // the version of drover-agent
	FactPrefix   = "fact."         // the prefix of the host's own facts
)

// Bounds of labels, in bytes.
const (
	// MaxLabels is the largest number of labels from one source.
	MaxLabels  = 64
	maxName    = 63
	maxPrefix  = 253
	maxValue   = 63
	maxFact    = 255 // the longest value of a fact
	nameMarks  = "-_."
	valueForms = "at most 63 letters, digits, -, _ and ., with a letter or digit at both ends"
)

// Reserved reports whether a key stands for a fact.
func Reserved(key string) bool {
	switch key {
	case OS, OSVersion, Kernel, Arch, AgentVersion:
		return true
	}
	_, isFact := FactName(key)
	return isFact
}

// FactName returns the name of the host's own fact that a key stands for.
func FactName(key string) (name string, isFact bool) { return strings.CutPrefix(key, FactPrefix) }

// CheckKey returns an error for a text that cannot be the key of a label.
func CheckKey(key string) error {
	if Reserved(key) {
		return fmt.Errorf("the key %.80q stands for a fact of the host: expected another key", key)
	}
	return checkSyntax(key)
}

// checkSyntax returns an error for a text that is neither the key of a label nor the name of a fact.
func checkSyntax(key string) error {
	prefix, name, found := strings.Cut(key, "/")
	if !found {
		prefix, name = "", key
	}
	if found && !isDomain(prefix) {
		return fmt.Errorf("the key %.80q has the prefix %.80q: expected a domain name of at most %d bytes in "+
			"lower case", key, prefix, maxPrefix)
	}
	if name == "" || len(name) > maxName || !isWord(name) {
		return fmt.Errorf("the key %.80q is not the key of a label: expected %s", key, valueForms)
	}
	return nil
}

// CheckValue returns an error for a text that cannot be the value of a label. The value may be empty.
func CheckValue(key, value string) error {
	if value != "" && (len(value) > maxValue || !isWord(value)) {
		return fmt.Errorf("the value %.80q of the label %s is not valid: expected %s", value, key, valueForms)
	}
	return nil
}

// CheckFact returns an error for a name that cannot follow FactPrefix, or a value that no fact has.
func CheckFact(name, value string) error {
	if name == "" || len(name) > maxName-len(FactPrefix) || !isWord(name) {
		return fmt.Errorf("the name %.80q of a fact is not valid: expected at most %d letters, digits, -, _ and ., "+
			"with a letter or digit at both ends", name, maxName-len(FactPrefix))
	}
	return CheckText("fact "+name, value)
}

// CheckText returns an error for a text that is too long for the value of a fact, or that no terminal should get.
func CheckText(of, value string) error {
	if len(value) > maxFact || !printable(value) {
		return fmt.Errorf("the value of %s is not valid: expected at most %d bytes of UTF-8 without control characters",
			of, maxFact)
	}
	return nil
}

// CheckLabels returns an error for each invalid label, in the order of the keys.
func CheckLabels(labels map[string]string) (faults []error) {
	if len(labels) > MaxLabels {
		return []error{fmt.Errorf("%d labels: expected at most %d", len(labels), MaxLabels)}
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if err := CheckKey(key); err != nil {
			faults = append(faults, err)
		} else if err := CheckValue(key, labels[key]); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

// ParseLabels reads labels such as "role=web,zone=b", and returns an error for each invalid label. An empty text has no
// labels.
func ParseLabels(text string) (labels map[string]string, faults []error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	labels = map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(strings.TrimSpace(part), "=")
		_, twice := labels[key]
		switch {
		case !found:
			faults = append(faults, fmt.Errorf("%.80q is not a label: expected KEY=VALUE", part))
		case twice:
			faults = append(faults, fmt.Errorf("the label %.80q is given twice", key))
		default:
			labels[key] = value
		}
	}
	if faults = append(faults, CheckLabels(labels)...); len(faults) > 0 {
		return nil, faults
	}
	return labels, nil
}

// isWord reports whether a text has only letters, digits and the marks of a name, with a letter or digit at both ends.
func isWord(text string) bool {
	for i := range len(text) {
		c := text[i]
		alphanumeric := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alphanumeric && (i == 0 || i == len(text)-1 || strings.IndexByte(nameMarks, c) < 0) {
			return false
		}
	}
	return true
}

// isDomain reports whether a text is a domain name in lower case.
func isDomain(text string) bool {
	if text == "" || len(text) > maxPrefix || strings.ToLower(text) != text {
		return false
	}
	for part := range strings.SplitSeq(text, ".") {
		if part == "" || len(part) > maxName || strings.Contains(part, "_") || !isWord(part) {
			return false
		}
	}
	return true
}
