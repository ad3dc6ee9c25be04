package ui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	v1 "drover/api/v1"
	"drover/internal/words"
)

// footer is the prompt, a note, or the keys.
func (s *State) footer() string {
	switch {
	case s.prompt != nil:
		fault := ""
		if s.prompt.fault != "" {
			fault = "  (" + s.prompt.fault + ")"
		}
		return " " + s.prompted() + s.prompt.text + "_" + fault
	case s.note != "":
		return " " + s.note
	}
	line := " "
	for _, k := range s.footerKeys() {
		if s.readOnly && k.operates {
			continue
		}
		part := "<" + k.key + ">" + strings.ToLower(k.text.In(s.lang)) + " "
		if ansi.StringWidthWc(line+part) > s.width {
			break
		}
		line += part
	}
	return line
}

// prompted is what a person is asked for.
func (s *State) prompted() string {
	what := words.Screen.Filter
	switch {
	case s.prompt.kind == ':':
		what = words.Screen.Jump
	case s.prompt.kind == 'b':
		return words.Screen.Asked.In(s.lang, "what", words.Screen.Batches.In(s.lang))
	case s.prompt.kind == '+' && s.here.kind == hosts:
		return words.Screen.Asked.In(s.lang, "what", words.Admin.AddHosts.In(s.lang))
	case s.prompt.kind == '+':
		return words.Screen.Asked.In(s.lang, "what", words.Screen.NewRight.In(s.lang))
	case s.here.kind.isText() || s.log != nil && s.log.focus:
		what = words.Screen.Find
	}
	return fmt.Sprintf("%s %c", what.In(s.lang), s.prompt.kind)
}

// footerKey is a key that the footer names.
type footerKey struct {
	key      string
	text     words.Text
	operates bool
}

// footerKeys are the keys that most people look for: those of the dialog, of the log, or of the place.
func (s *State) footerKeys() []footerKey {
	switch {
	case s.dialog != nil:
		keys := []footerKey{
			{"tab", words.Screen.Other, false}, {"enter", words.Act.Confirm, false}, {"esc", words.Act.Cancel, false},
		}
		if s.dialog.spreads() {
			keys = append(keys, footerKey{"b", words.Screen.Batches, false})
		}
		return append(keys, footerKey{"C", words.Screen.CopyCommand, false})
	case s.log != nil && s.log.focus:
		return []footerKey{
			{"tab", words.Screen.List, false},
			{"/", words.Screen.Find, false},
			{"n", words.Screen.NextHit, false},
			{"f", words.Screen.Following, false},
			{"p", words.Screen.RunOne, false},
			{"l", words.Screen.LogClose, false},
		}
	}
	keys := []footerKey{{"?", words.Screen.Keys, false}, {":", words.Screen.Jump, false}}
	switch {
	case s.here.kind.isText():
		keys = append(keys, footerKey{"/", words.Screen.Find, false})
	case len(flagsOf(s.here.kind)) > 0:
		keys = append(keys, footerKey{"/", words.Screen.Filter, false})
	}
	keys = slices.Concat(keys, s.workKeys(), s.placeKeys())
	return append(keys, footerKey{"q", words.Screen.Back, false})
}

// placeKeys are the keys that only some places have.
func (s *State) placeKeys() (keys []footerKey) {
	look := func(key string, text words.Text) { keys = append(keys, footerKey{key, text, false}) }
	operates := func(key string, text words.Text) { keys = append(keys, footerKey{key, text, true}) }
	switch s.here.kind {
	case processes:
		look("^z", words.Fleet.Wrong)
		look("w", words.Head.Why)
		look("l", words.Head.Log)
		look("e", words.Page.Events)
		for _, key := range []string{"r", "s", "S"} {
			operates(key, wordOf(opOf(key)))
		}
		look("t", words.Page.Tasks)
	case describe, why:
		if s.here.kind == describe {
			look("w", words.Head.Why)
		} else {
			look("d", words.Head.Details)
		}
		look("l", words.Head.Log)
		look("e", words.Page.Events)
		for _, key := range []string{"r", "s", "S", "R"} {
			operates(key, wordOf(opOf(key)))
		}
	case spec, event, events:
		look("d", words.Head.Details)
		look("w", words.Head.Why)
		look("l", words.Head.Log)
	case hosts:
		look("enter", words.Page.Processes)
		look("e", words.Page.Events)
		operates("+", words.Admin.AddHosts)
	case results:
		look("^z", words.State("failed"))
		look("d", words.Head.Details)
		look("w", words.Head.Why)
		look("l", words.Head.Log)
	case secret:
		look("c", words.Page.Copy)
	case people, person:
		operates("+", words.Screen.NewRight)
		if s.here.kind == person {
			operates("i", words.Admin.Link)
		}
	default:
	}
	return keys
}

// workKeys are the keys of the task or the rollout that the screen is about.
func (s *State) workKeys() (keys []footerKey) {
	if t := s.onTask(); t != nil {
		for _, key := range []string{"R", "K"} {
			if taskAllows(t, key) {
				keys = append(keys, footerKey{key, taskWord(key), true})
			}
		}
	}
	if r := s.onRollout(); r != nil {
		keys = append(keys, footerKey{"w", words.Head.Why, false})
		for _, one := range steps() {
			if allows(r, one.verb) {
				keys = append(keys, footerKey{one.key, one.word, true})
			}
		}
	}
	return keys
}

// onTask is the task that a key is about; nil elsewhere than in a list of tasks or in the results of one.
func (s *State) onTask() *v1.Task {
	if s.here.kind == results {
		return s.task
	}
	if t, ok := s.selected().(v1.Task); ok {
		return &t
	}
	return nil
}
