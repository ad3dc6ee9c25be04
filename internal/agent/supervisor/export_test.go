package supervisor

// Runners counts the processes that have a goroutine of their own.
func (s *Supervisor) Runners() int { return len(s.all()) }
