package words

import (
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Sentence returns a sentence that an agent or a server has written, in a language. whole is false if a part of it is
// in none of the files and stays English. Programs read these sentences in English, so only the last step before a
// person's eyes translates them. Names, numbers and outputs of programs stay as they are. A length of time, such as
// 10m0s, is told in words, in English too. What a program has written follows in lines of its own.
func Sentence(english string, l Lang) (text string, whole bool) {
	text, output := Apart(english)
	switch whole = true; {
	case l != English:
		text, whole = translate(text, nested, sentences)
	case lengthOfTime.MatchString(text):
		text = retold(text, nested)
	}
	if output != "" {
		text += "\n" + output
	}
	return text, whole
}

// Line is Sentence on one line.
func Line(english string, l Lang) string {
	text, _ := Sentence(english, l)
	return onLine(text)
}

// onLine returns a text with the output below it on one line.
func onLine(text string) string {
	if before, output, written := strings.Cut(text, "\n"); written {
		text = before + ": " + strings.Join(strings.Fields(output), " ")
	}
	return text
}

// Message returns what the command line says, in a language: each line that is a message, a sentence or a fault of the
// files. Spaces and what moves the cursor stay around it.
func Message(english string, l Lang) string {
	if l == English {
		return english
	}
	lines := strings.Split(english, "\n")
	for i, line := range lines {
		around := surroundings.FindStringSubmatch(line)
		text, _ := translate(around[2], nested, messages)
		lines[i] = around[1] + text + around[3]
	}
	return strings.Join(lines, "\n")
}

// surroundings splits a line into a beginning that moves the cursor, a text, and an end of spaces.
var surroundings = regexp.MustCompile(`\A((?:\x1b\[[0-9]*[A-Z]|\r| )*)(.*?)( *)\z`)

// Named returns the Chinese word of a state and its id beside it; in English the id alone.
func Named(id string, l Lang) string {
	if l == English {
		return id
	}
	if text, known := State(id).find(l); known {
		return text + " " + id
	}
	return id
}

// nested bounds how deep sentences are looked for inside sentences.
const nested = 16

func translate(english string, depth int, all iter.Seq[*pattern]) (text string, whole bool) {
	if depth == 0 || english == "" {
		return english, english == ""
	}
	for p := range all {
		if values := p.match(english); values != nil {
			return p.fill(values, depth)
		}
	}
	// A sentence may be several, joined with semicolons.
	first, rest, joined := strings.Cut(english, "; ")
	if !joined {
		return english, false
	}
	first, known := translate(first, max(1, depth-1), all)
	rest, whole = translate(rest, depth-1, all)
	if !known {
		return first + "; " + rest, false
	}
	return first + "；" + rest, whole
}

// pattern finds a sentence and fills its translation.
type pattern struct {
	// fixed is a part that every such sentence contains.
	fixed, chinese string
	// expression matches the sentences. It is compiled when a sentence has the fixed part.
	expression func() *regexp.Regexp
}

// The patterns of the texts that are found by their English form, by groups. Each file is read once, and only if
// somebody asks for a text of it.
//
//nolint:gochecknoglobals // they never change
var (
	sentenceFile = patternsOf("sentences/zh_CN.po")
	faultFile    = patternsOf("faults/zh_CN.po")
	messageFile  = patternsOf("messages/zh_CN.po")
)

// sentences calls yield for the patterns of sentences, in the order in which drover looks for them.
func sentences(yield func(*pattern) bool) {
	_ = groups(sentenceFile, yield, "sentence", "execution") &&
		groups(faultFile, yield, "refusal", "file fault", "field fault") && groups(sentenceFile, yield, "aside")
}

// messages calls yield for the patterns of messages, in the order in which drover looks for them.
func messages(yield func(*pattern) bool) {
	_ = groups(messageFile, yield, "doctor", "message", "fault", "place") &&
		groups(sentenceFile, yield, "sentence", "execution") &&
		groups(faultFile, yield, "refusal", "file fault", "field fault") &&
		groups(messageFile, yield, "place alone") && groups(sentenceFile, yield, "aside")
}

// groups calls yield for the patterns of groups of a file; it returns false if yield has done so.
func groups(file func() map[string][]*pattern, yield func(*pattern) bool, names ...string) bool {
	for _, name := range names {
		for _, p := range file()[name] {
			if !yield(p) {
				return false
			}
		}
	}
	return true
}

// placeholder matches the placeholders of a text.
var placeholder = regexp.MustCompile(`\{([a-z]+)\}`)

// value is the expression of what a placeholder stands for: {text} is a sentence again, {output} anything, {n} digits,
// {op} and {command} words of a command, {operation} an operation that Chinese names by its word, {flag} a flag,
// {parameter} the name of a parameter, a flag or an argument, {fault} a sentence about it, {place} a file and a line,
// {choices} words with commas, {one} one word or several with commas, {names} words with commas and or, {other} one
// word, and {s} the ending of an English plural. Another one is a name, a number or a time.
func value(name string) string {
	switch name {
	case "n":
		return `(?P<n>-?[0-9]+)`
	case "one":
		return `(?P<one>[^\s;]+(?:, [^\s;]+)*)`
	case "other":
		return `(?P<other>[^\s;]+)`
	case "names":
		return `(?P<names>[^\s;?]+(?:, [^\s;?]+)*(?: or [^\s;?]+)?)`
	case "choices":
		return `(?P<choices>[A-Za-z-]+(?:, [A-Za-z-]+)+)`
	case "place":
		return `(?P<place>[^\s:]*[./-][^\s:]*(?::[0-9]+)?|[^\s:]+:[0-9]+)`
	case "op", "operation", "command":
		return `(?P<` + name + `>[a-z][a-z -]*?)`
	case "text":
		return `(?P<text>.+)`
	case "parameter":
		return `(?P<parameter>--[a-z-]+|[A-Z][A-Z/]+|[a-z][a-z0-9_]*(?:[.[][^\s:]*)?)`
	case "fault":
		return `(?P<fault>[^;]+)`
	case "output":
		return `(?P<output>.*)`
	case "flag":
		return `(?P<flag>--?[a-z-]+)`
	case "s":
		return `(?:e?s)?`
	}
	return `(?P<` + name + `>[^;\n]+?)`
}

// patternsOf returns a function that returns the patterns of a file by their groups, in the order of the file.
func patternsOf(path string) func() map[string][]*pattern {
	file := open(path)
	return sync.OnceValue(func() map[string][]*pattern {
		all := map[string][]*pattern{}
		for _, key := range file().Keys() {
			chinese, _ := file().Text(key)
			all[key.Context] = append(all[key.Context], &pattern{
				fixed(key.ID), chinese, sync.OnceValue(func() *regexp.Regexp { return expression(key.ID) }),
			})
		}
		return all
	})
}

// fixed returns the longest part of a text outside of braces.
func fixed(english string) (longest string) {
	for more := true; more; {
		var part string
		if part, english, more = strings.Cut(english, "{"); len(part) > len(longest) {
			longest = part
		}
		_, english, _ = strings.Cut(english, "}")
	}
	return longest
}

// expression returns the expression that matches the sentences of a text with placeholders.
func expression(english string) *regexp.Regexp {
	var b strings.Builder
	at := 0
	for _, m := range placeholder.FindAllStringSubmatchIndex(english, -1) {
		b.WriteString(regexp.QuoteMeta(english[at:m[0]]) + value(english[m[2]:m[3]]))
		at = m[1]
	}
	return regexp.MustCompile(`(?s)\A` + b.String() + regexp.QuoteMeta(english[at:]) + `\z`)
}

// match returns the values of the placeholders by their names; nil if the text is another sentence.
func (p *pattern) match(english string) map[string]string {
	if !strings.Contains(english, p.fixed) {
		return nil
	}
	found := p.expression().FindStringSubmatch(english)
	if found == nil {
		return nil
	}
	values := map[string]string{}
	for i, name := range p.expression().SubexpNames() {
		if name != "" {
			values[name] = found[i]
		}
	}
	return values
}

// lengthOfTime matches the end of a length of time as agents write it.
var lengthOfTime = regexp.MustCompile(`[0-9](?:[dhms]|ms)\b`)

// retold is an English sentence with its lengths of time in words. The rest stays, byte for byte.
func retold(english string, depth int) string {
	if depth == 0 {
		return english
	}
	for p := range sentences {
		if !strings.Contains(english, p.fixed) {
			continue
		}
		at := p.expression().FindStringSubmatchIndex(english)
		if at == nil {
			continue
		}
		var text strings.Builder
		done := 0
		for i, name := range p.expression().SubexpNames() {
			from, to := at[2*i], at[2*i+1]
			value := ""
			switch name {
			case "time", "age":
				value = Span(english[from:to], English)
			case "text", "fault":
				value = retold(english[from:to], depth-1)
			default:
				continue
			}
			text.WriteString(english[done:from] + value)
			done = to
		}
		return text.String() + english[done:]
	}
	first, rest, joined := strings.Cut(english, "; ")
	if !joined {
		return english
	}
	return retold(first, max(1, depth-1)) + "; " + retold(rest, depth-1)
}

// Span tells a length of time, such as 10m0s or 2d3h, in words: "10 minutes". It returns another text as it is.
func Span(text string, l Lang) string {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "0", text
	}
	n, wrong := strconv.ParseUint(days, 10, 31)
	d, err := time.ParseDuration(rest)
	if found && rest == "" {
		err = nil
	}
	if wrong != nil || err != nil || d < 0 || text == "0" {
		return text
	}
	if n == 0 && d > 0 && d < time.Second {
		return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64) + " " + span.Milliseconds.In(l)
	}
	var parts []string
	add := func(n float64, one, many Text) {
		switch n {
		case 0:
		case 1:
			parts = append(parts, "1 "+one.In(l))
		default:
			parts = append(parts, strconv.FormatFloat(n, 'f', -1, 64)+" "+many.In(l))
		}
	}
	add(float64(n), span.Day, span.Days)
	add(float64(d/time.Hour), span.Hour, span.Hours)
	add(float64(d%time.Hour/time.Minute), span.Minute, span.Minutes)
	add((d % time.Minute).Seconds(), span.Second, span.Seconds)
	if len(parts) == 0 {
		return "0 " + span.Seconds.In(l)
	}
	return strings.Join(parts, " ")
}

// fill puts values into the translation. A value that is a sentence or a state is translated too.
func (p *pattern) fill(values map[string]string, depth int) (text string, whole bool) {
	whole, chinese := true, p.chinese
	pairs := make([]string, 0, 2*len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		switch name {
		case "text", "fault":
			value, whole = translate(value, depth-1, sentences)
		case "state":
			value = Named(value, Chinese)
		case "operation":
			value = Action(value).In(Chinese)
		case "names":
			value = strings.NewReplacer(", ", "、", " or ", " 或 ").Replace(value)
		case "time", "age":
			if told := Span(value, Chinese); told != value {
				// Han characters have no blank between them.
				value, chinese = told, strings.ReplaceAll(chinese, "{"+name+"} ", "{"+name+"}")
			}
		}
		pairs = append(pairs, "{"+name+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(chinese), whole
}

// told are the sentences that callers of GSE know letter by letter, and what a person reads in place of them. A program
// gets the sentence as it is.
//
//nolint:gochecknoglobals // constant texts
var told = []struct {
	wire  *regexp.Regexp
	plain string
}{
	// The cause of an end comes before the end.
	{
		regexp.MustCompile(`not alive: (pid [0-9]+ [^;\n]*); (run: [^;\n]* (?:was not found|cannot be executed))`),
		"not alive: $2; $1",
	},
	{
		regexp.MustCompile(`(^|; )([a-z]+) process \([^)\n]*\) failed, for post-check status (?:not alive: )?`),
		"$1$2 failed: ",
	},
	{
		regexp.MustCompile(`(?s)Script exit code non-zero\. Error msessage: \[(.*)\] \(([a-z]+)_cmd: ([^)\n]*)\)`),
		"the $2 command failed: $3; output: [$1]",
	},
	{regexp.MustCompile(`\. Output: \[`), "; output: ["},
	{
		regexp.MustCompile(`^agent not found or offline: it was sent the operation and .*$`),
		"the agent does not answer: the operation has begun already, or never begins",
	},
}

// outputs begin what a program has written, in a sentence about it.
var outputs = regexp.MustCompile(`; (?:output|the end of its log): \[`)

// Apart returns what a person reads of a sentence of an agent or a server, without the output of a program in it, and
// the lines of that output.
func Apart(english string) (text, output string) {
	for _, t := range told {
		english = t.wire.ReplaceAllString(english, t.plain)
	}
	at := outputs.FindStringIndex(english)
	end := strings.LastIndexByte(english, ']')
	line, _, _ := strings.Cut(english, "\n") // what follows a line is the output of a program
	if at == nil || at[1] > len(line) || end < at[1] || end+1 < len(english) && english[end+1] != ';' {
		return english, ""
	}
	return english[:at[0]] + english[end+1:], strings.TrimSpace(english[at[1]:end])
}
