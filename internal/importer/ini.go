package importer

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// iniSection is a section of a file of supervisord.
type iniSection struct {
	file, name string
	keys       []string
	values     map[string]string
	// others are the further files with the section.
	others []string
}

// merged joins the sections of a name into the first one, as supervisord does: the last value of a key wins.
func merged(sections []*iniSection) (all []*iniSection) {
	firsts := map[string]*iniSection{}
	for _, s := range sections {
		first := firsts[s.name]
		if first == nil {
			firsts[s.name] = s
			all = append(all, s)
			continue
		}
		if s.file != first.file { // %(here)s is the directory of the file that has the key
			first.placed()
			s.placed()
			if !slices.Contains(first.others, s.file) {
				first.others = append(first.others, s.file)
			}
		}
		for _, key := range s.keys {
			if _, twice := first.values[key]; !twice {
				first.keys = append(first.keys, key)
			}
			first.values[key] = s.values[key]
		}
	}
	return all
}

// placed replaces %(here)s in all values.
func (s *iniSection) placed() {
	for key, value := range s.values {
		s.values[key] = strings.ReplaceAll(value, "%(here)s", path.Dir(s.file))
	}
}

// parseINI reads sections as Python's RawConfigParser does for supervisord: = or :, comments behind " ;", indented
// lines continue a value.
func parseINI(f Text) (all []*iniSection, faults []string) {
	var at *iniSection
	key := ""
	number := 0
	for line := range strings.Lines(string(f.Data)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if i := strings.IndexAny(line, ";"); i > 0 && (line[i-1] == ' ' || line[i-1] == '\t') {
			line = line[:i]
		}
		text := strings.TrimSpace(line)
		switch {
		case text == "" || text[0] == ';' || text[0] == '#':
		case text[0] == '[' && strings.HasSuffix(text, "]"):
			at, key = &iniSection{file: f.Path, name: strings.Trim(text, "[]"), values: map[string]string{}}, ""
			all = append(all, at)
		case at == nil:
			faults = append(faults, fmt.Sprintf("%s:%d is outside of a section", f.Path, number))
		case (line[0] == ' ' || line[0] == '\t') && key != "":
			at.values[key] = strings.TrimSpace(at.values[key] + "\n" + text)
		default:
			i := strings.IndexAny(text, "=:")
			if i < 0 {
				faults = append(faults, fmt.Sprintf("%s:%d is not an assignment", f.Path, number))
				continue
			}
			key = strings.ToLower(strings.TrimSpace(text[:i]))
			if _, twice := at.values[key]; !twice {
				at.keys = append(at.keys, key)
			}
			at.values[key] = strings.TrimSpace(text[i+1:])
		}
	}
	return all, faults
}

// splitShell splits a line as Python's shlex does in POSIX mode, with stops as further separators that stay words.
func splitShell(text, stops string) (words []string, err error) {
	var word strings.Builder
	quote, begun := byte(0), false
	end := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote == '\'' && c != '\'', quote == '"' && c != '"' && c != '\\':
			word.WriteByte(c)
		case c == quote && quote != 0:
			quote = 0
		case c == '\\' && i+1 < len(text):
			i++
			if quote == '"' && text[i] != '"' && text[i] != '\\' {
				word.WriteByte('\\')
			}
			word.WriteByte(text[i])
			begun = true
		case c == '\'' || c == '"':
			quote, begun = c, true
		case strings.IndexByte(" \t\r\n", c) >= 0:
			end()
		case strings.IndexByte(stops, c) >= 0:
			end()
			words = append(words, string(c))
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("has a %c without its end", quote)
	}
	end()
	return words, nil
}
