package words

import "strings"

// Cause holds the words of one kind of cause: a title of a few words, a sentence that says what it means, and what an
// operator does about it. Commands stand in backquotes.
type Cause struct{ Title, Meaning, Remedy Text }

// CauseOf returns the words of a cause by its id; they are empty if it has none. Package why says how severe each is.
func CauseOf(id string) Cause {
	c := Cause{Text{"cause", id + " title"}, Text{"cause", id + " meaning"}, Text{"cause", id + " remedy"}}
	if _, known := c.Title.find(English); !known {
		return Cause{}
	}
	return c
}

// CauseSentence returns the sentence of a cause in a language, on one line. The title of the cause comes before a
// sentence that stays English.
func CauseSentence(id, english string, l Lang) string {
	text, whole := Sentence(english, l)
	if text = onLine(text); whole && text != "" {
		return text
	}
	c := CauseOf(id)
	switch {
	case c == Cause{}:
		return text
	case text == "":
		return c.Meaning.In(l)
	}
	return c.Title.In(l) + "：" + text
}

// remedy holds what to do about a cause whose sentence says more than its kind.
//
//nolint:gochecknoglobals // it never changes
var remedy = named[struct {
	OwnDirectory, RuntimeDirectory, FileSize, Watchdog, Stops, ProcessName, Foreground, StopCommand Text
	ReloadSignal, Other                                                                             Text
}]("remedy")

// remedies are what to do about a cause whose sentence contains a text, where that is more certain than the remedy of
// all such causes.
//
//nolint:gochecknoglobals // it never changes
var remedies = []struct {
	id, contains string
	remedy       Text
}{
	{"no-such-directory", "belongs to another process of drover", remedy.OwnDirectory},
	{"no-such-directory", "runtime_directory: ", remedy.RuntimeDirectory},
	{"crashed", "(SIGXFSZ)", remedy.FileSize},
	{"unhealthy", "WATCHDOG=", remedy.Watchdog},
	{"not-ready", "says that it stops", remedy.Stops},
	{"odd-pid-file", " belongs to ", remedy.ProcessName},
	{"exited", "; it has left pid ", remedy.Foreground},
	{"stop-failed", "the stop command failed: ", remedy.StopCommand},
	{"killed-by-signal", "; its reload ended it", remedy.ReloadSignal},
	{"died-in-start-check", "exit status 0; drover ended the processes that it had started: ", remedy.Foreground},
	{"run-skipped", " is not ready", remedy.Other},
	{"run-skipped", " is not started", remedy.Other},
	{"run-skipped", " has not finished", remedy.Other},
	{"run-skipped", " has ended without success", remedy.Other},
}

// Remedy says in a language what to do about a cause; sentence is that of the cause. english is what the server says
// of all such causes; it may be empty.
func Remedy(id, sentence, english string, l Lang) string {
	for _, r := range remedies {
		if r.id == id && strings.Contains(sentence, r.contains) {
			return r.remedy.In(l)
		}
	}
	if l == English && english != "" {
		return english
	}
	if c := CauseOf(id); c != (Cause{}) {
		return c.Remedy.In(l)
	}
	return english
}
