package harness

import (
	"strings"
	"sync"
)

// output keeps what a server writes, and tells the URL as soon as it stands there.
type output struct {
	url chan string

	mu   sync.Mutex
	text strings.Builder
	told bool
}

func newOutput() *output { return &output{url: make(chan string, 1)} }

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	if o.told {
		return len(p), nil
	}
	for line := range strings.Lines(o.text.String()) {
		if url, ok := strings.CutPrefix(strings.TrimSpace(line), "URL"); ok && strings.HasSuffix(line, "\n") {
			o.told = true
			o.url <- strings.TrimSpace(url)
			break
		}
	}
	return len(p), nil
}

// String returns what has been written so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
