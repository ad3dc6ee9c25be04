package plan

import (
	"maps"
	"slices"

	"drover/internal/process"
)

// Secret replaces the value of an environment variable for callers who may not set it. In a file that is applied it
// stands for the stored value.
const Secret = "***"

// Hidden returns a spec without the values of its environment.
func Hidden(s *process.Spec) *process.Spec {
	if s == nil || len(s.Environment) == 0 {
		return s
	}
	shown := *s
	shown.Environment = map[string]string{}
	for name := range s.Environment {
		shown.Environment[name] = Secret
	}
	return &shown
}

// Guessed returns a spec in which each value that the caller gives differs from every stored one: a plan must not tell
// who may not set values whether a guess is right.
func Guessed(s *process.Spec) *process.Spec {
	if len(s.Environment) == 0 {
		return s
	}
	other := *s
	other.Environment = maps.Clone(s.Environment)
	for name, value := range other.Environment {
		if value != Secret {
			other.Environment[name] = value + "\x00" // which no variable holds
		}
	}
	return &other
}

// Revealed returns a spec in which stored values replace Secret: the same one if there is none. unknown is a variable
// that has no stored value.
func Revealed(s, stored *process.Spec) (revealed *process.Spec, unknown string) {
	if !slices.Contains(slices.Collect(maps.Values(s.Environment)), Secret) {
		return s, ""
	}
	whole := *s
	whole.Environment = maps.Clone(s.Environment)
	for name, value := range s.Environment {
		if value != Secret {
			continue
		}
		known := false
		if stored != nil {
			value, known = stored.Environment[name]
		}
		if !known {
			return s, name
		}
		whole.Environment[name] = value
	}
	return &whole, ""
}
