package call

import (
	"sync"
	"time"
)

// MaxStreams is how many streams an app may have at the same time.
const MaxStreams = 16

// Heartbeat is how often a stream without news shows that it goes on.
const Heartbeat = 15 * time.Second

// Recheck is the interval at which a stream reads the rights of its reader again.
const Recheck = 10 * time.Second

// Slots counts the open streams or replies of each app.
type Slots struct {
	mu    sync.Mutex
	byApp map[string]int
}

// Enter takes a slot of an app, unless the app has reached the limit; leave gives the slot back.
func (s *Slots) Enter(app string, most int) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byApp[app] >= most {
		return nil, false
	}
	if s.byApp == nil {
		s.byApp = map[string]int{}
	}
	s.byApp[app]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.byApp[app]--; s.byApp[app] == 0 {
			delete(s.byApp, app)
		}
	}, true
}
